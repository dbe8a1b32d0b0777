"""Recordings: no name of a cluster is in the file, every pod can be read again, and only dips are left out of counts."""

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import hostile
import objects
from holdfast import names
from holdfast.api import kinds
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.pods import Pod
from holdfast.api.recording import VERSION, Header, Line
from holdfast.api.workloads import DaemonSet
from holdfast.app.recording.recording_file import RecordingFile
from holdfast.cli import aws
from holdfast.scenarios.history.pod_history import PodHistory
from holdfast.scenarios.history.replica_counts import DIP_S, ReplicaCount
from holdfast.scenarios.history.shapes import Shapes
from holdfast.simulate import recordings
from holdfast.simulate.recordings import Recording
from holdfast.state.conversion import times

Json = dict[str, Any]

BEGINS_S = 1_794_736_800
SECRET = "acme"
NAME = st.text("a0-", max_size=2).map("{}acme".format)
KEY = st.one_of(NAME, NAME.map("{}.example/tier".format), NAME.map("example.com/{}".format))
LABELS = st.dictionaries(
    st.one_of(KEY, st.just("app.kubernetes.io/name"), st.just(names.NODEPOOL)), NAME, max_size=3
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod with a name in every field that can have one."""
    labels = draw(LABELS)
    expression = {"key": draw(KEY), "operator": "In", "values": draw(st.lists(NAME, min_size=1, max_size=2))}
    term = {
        "topologyKey": draw(KEY),
        "labelSelector": {"matchLabels": labels, "matchExpressions": [expression]},
        "namespaces": [draw(NAME)],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": draw(NAME)}},
        "matchLabelKeys": [draw(KEY)],
    }
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}, {"matchFields": [expression]}]}
    owner = {
        "apiVersion": draw(st.sampled_from(["apps/v1", "batch/v1", "v1", "acme.example/v1"])),
        "kind": draw(st.sampled_from(["ReplicaSet", "StatefulSet", "Job", "Pod", "AcmeJob", "acme"])),
        "name": draw(NAME),
        "uid": draw(NAME),
        "controller": True,
    }
    container = {
        "name": draw(NAME),
        "image": draw(NAME),
        "resources": {"requests": {"cpu": "1", f"{draw(NAME)}.example/device": 1}},
        "ports": [{"containerPort": 1, "hostPort": 1, "name": draw(NAME)}],
    }
    meta = {
        "namespace": draw(NAME),
        "uid": draw(NAME),
        "labels": labels | {"pod-template-hash": draw(NAME)},
        "annotations": {names.DO_NOT_DISRUPT: draw(NAME), draw(NAME): draw(NAME)},
        "ownerReferences": draw(st.sampled_from([[], [owner]])),
    }
    return objects.pod(
        draw(NAME),
        meta,
        {"phase": draw(st.sampled_from(["Pending", "Running"])), "reason": draw(NAME), "message": draw(NAME)},
        containers=[container],
        initContainers=[container],
        nodeSelector=labels,
        affinity={"nodeAffinity": {REQUIRED: terms}, "podAntiAffinity": {REQUIRED: [term]}},
        tolerations=[{"key": draw(KEY), "operator": "Equal", "value": draw(NAME), "effect": "NoSchedule"}],
        topologySpreadConstraints=[
            {key: term[key] for key in ("topologyKey", "labelSelector", "matchLabelKeys")}
            | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ],
        volumes=[{"name": draw(NAME), "persistentVolumeClaim": {"claimName": draw(NAME)}}],
        schedulerName=draw(NAME),
        priorityClassName=draw(NAME),
        nodeName=draw(NAME),
        restartPolicy=draw(st.sampled_from(["Always", "Never"])),
    )  # fmt: skip


def recorded(*observed: Pod) -> tuple[str, Recording]:
    """The text of the file, and what is read from it. Each pod is also the template of a DaemonSet."""
    history = PodHistory(Shapes("a secret", aws.TERMS))
    for number, pod in enumerate(observed):
        history.observe(pod, 0, is_new=True)
        meta = {"namespace": pod.metadata.namespace, "uid": str(number)}
        template = {"metadata": {"labels": pod.metadata.labels}, "spec": msgspec.to_builtins(pod.spec)}
        history.observe_daemon_set(objects.read(DaemonSet, "d", meta, spec={"template": template}), 0)
        selector = {"matchLabels": pod.metadata.labels}
        spec = {"selector": selector, "maxUnavailable": "50%"}
        history.observe_budget(objects.read(PodDisruptionBudget, "b", meta, spec=spec), 0)
    return written([Header(holdfast_record=VERSION, begins=1), *history.begin(1), *history.finish(5)])


def written(lines: list[Header | Line]) -> tuple[str, Recording]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        file = RecordingFile(path, force=False)
        file.write(lines)
        file.close()
        return path.read_text(), recordings.read(path)


@given(st.lists(pods(), min_size=1, max_size=4, unique_by=lambda pod: pod.metadata.uid))
def test_no_name_is_in_the_file(observed: list[Pod]) -> None:
    text, found = recorded(*observed)
    assert SECRET not in text.lower()
    total = sum(group.changes[0][1] for group in found.groups) + len(found.runs)
    assert total == len(observed)


@given(st.integers(min_value=0, max_value=2**32))
def test_pod_with_hostile_values_can_be_recorded_and_read(seed: int) -> None:
    try:
        pod = kinds.from_plain(hostile.document("Pod", "p", Random(seed)), Pod)
    except ValueError:
        return  # the cache lists it as unreadable
    assert isinstance(pod, Pod)
    recorded(pod)


@given(
    st.integers(min_value=0, max_value=6),
    st.lists(
        st.tuples(st.integers(min_value=1, max_value=80), st.integers(min_value=0, max_value=6)), max_size=12
    ),
)
def test_counts_are_those_of_the_cluster_with_short_dips_filled(
    first: int, steps: list[tuple[int, int]]
) -> None:
    """The judge is the closing of mathematical morphology, computed second by second."""
    observed, count = [first] * 200, first
    recorder, found, at_s = ReplicaCount(first), [first] * 200, 200
    changes: list[tuple[int, int]] = []
    for after_s, count in steps:
        observed += [observed[-1]] * after_s
        observed[-1] = count
    observed += [observed[-1]] * 200
    for at_s in range(200, len(observed)):
        recorder.observe(at_s, observed[at_s])
        changes += recorder.settled(at_s)
    assert recorder.is_settled
    for at_s in range(200, len(observed)):
        found.append(next((value for since_s, value in reversed(changes) if since_s <= at_s), first))
    dilated = [max(observed[max(0, t - DIP_S + 1) : t + 1]) for t in range(len(observed))]
    closed = [min(dilated[t : t + DIP_S]) for t in range(len(observed))]
    assert found == closed


STEP = st.tuples(
    st.sampled_from([0, 0, 1, 5, 70, 400]),  # seconds until the step
    st.booleans(),  # whether the connection is lost meanwhile
    st.sampled_from(["ReplicaSet", "StatefulSet", "Job", "none"]),
    st.integers(min_value=0, max_value=3),  # which pod
    st.sampled_from(["7f", "9c"]),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "terminating", "gone"]),
    st.integers(min_value=-1000, max_value=1000),  # by which the clock of a node is wrong
)


def stepped_pod(kind: str, number: int, revision: str, phase: str, at_s: int) -> Pod:
    name = f"web-{revision}" if kind == "ReplicaSet" else kind.lower()
    version = "batch/v1" if kind == "Job" else "apps/v1"
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
    meta: Json = {
        "uid": f"{name}-{number}",
        "labels": {"pod-template-hash": revision},
        "creationTimestamp": times.text(at_s),
        "ownerReferences": [] if kind == "none" else [owner],
    }
    if phase == "terminating":
        meta["deletionTimestamp"] = times.text(at_s)
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": times.text(at_s)}
    status = {
        "phase": "Running" if phase == "terminating" else phase,
        "startTime": times.text(at_s),
        "conditions": [ready],
    }
    return objects.pod(f"{name}-{number}", meta, status, restartPolicy="Never" if kind == "Job" else "Always")


@given(st.lists(STEP, max_size=40))
def test_recording_of_any_history_can_be_read_and_ends_with_the_pods_that_exist(steps: list[Any]) -> None:
    history = PodHistory(Shapes("a secret", aws.TERMS))
    lines: list[Header | Line] = [Header(holdfast_record=VERSION, begins=BEGINS_S), *history.begin(BEGINS_S)]
    existing: dict[str, tuple[str, str]] = {}  # kind and phase by uid
    now_s = 0
    for wait_s, is_lost, kind, number, revision, phase, wrong_s in steps:
        before_s, now_s = now_s, now_s + wait_s
        if is_lost and wait_s:
            history.gap(before_s, now_s)
        else:
            for at_s in range(before_s + 1, now_s + 1):
                lines += history.take(at_s)
        pod = stepped_pod(kind, number, revision, phase, BEGINS_S + now_s + wrong_s)
        uid = pod.metadata.uid
        if phase == "gone":
            history.remove(uid, now_s)
            existing.pop(uid, None)
        elif existing.get(uid, ("", ""))[1] not in ("Succeeded", "Failed"):  # a pod that ended stays so
            history.observe(pod, now_s, is_new=uid not in existing)
            existing[uid] = (kind, phase)
    for at_s in range(now_s, now_s + 700):
        lines += history.take(at_s)
    lines += history.finish(now_s + 700)
    _, found = written(lines)
    ended = ("Succeeded", "Failed")
    counts = sum(group.changes[-1][1] for group in found.groups)
    assert counts == sum(
        (kind == "ReplicaSet" and phase not in (*ended, "terminating"))
        or (kind == "StatefulSet" and phase not in ended)
        for kind, phase in existing.values()
    )
    assert sum(run.ended_s is None for run in found.runs) == sum(
        kind in ("Job", "none") and phase not in ended for kind, phase in existing.values()
    )
