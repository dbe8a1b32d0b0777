"""The lines of a recording, from the states of pods: counts of groups, lengths of runs, gaps and shapes."""

from datetime import UTC, datetime
from typing import Any

import pytest

import objects
from holdfast import names
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.pods import Pod
from holdfast.api.recording import (
    Budget,
    Daemon,
    End,
    Gap,
    Group,
    Line,
    Replicas,
    Rollout,
    Run,
    Shape,
    Stop,
    Tick,
)
from holdfast.api.workloads import DaemonSet
from holdfast.cli import aws
from holdfast.scenarios.history import shapes
from holdfast.scenarios.history.pod_history import PodHistory
from holdfast.scenarios.history.replica_counts import ReplicaCount
from holdfast.scenarios.history.shapes import Shapes

BEGINS_S = 1_794_736_800
Json = dict[str, Any]


def time(at_s: int) -> str:
    return datetime.fromtimestamp(BEGINS_S + at_s, UTC).isoformat()


def controlled(kind: str, name: str, api_version: str = "apps/v1", uid: str = "") -> Json:
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or name, "controller": True}
    return {"ownerReferences": [owner]}


def web(number: int, revision: str = "7f", **fields: Any) -> Pod:
    """A pod of the Deployment `web`."""
    meta = {
        **controlled("ReplicaSet", f"web-{revision}"),
        "uid": f"web-{revision}-{number}",
        "labels": {"app": "web", "pod-template-hash": revision},
    }
    return objects.pod(f"web-{revision}-{number}", meta | fields.pop("meta", {}), **fields)


def train(number: int, phase: str = "Pending", job: str = "train", **fields: Any) -> Pod:
    """A pod of the Job `train`."""
    status = {"phase": phase} | fields.pop("status", {})
    meta = {
        **controlled("Job", job, "batch/v1"),
        "uid": f"{job}-{number}",
        "labels": {"job-name": job, "app": "training"},
    }
    return objects.pod(
        f"{job}-{number}", meta | fields.pop("meta", {}), status, restartPolicy="Never", **fields
    )


class History:
    """A PodHistory with a clock, and the caller's knowledge of which pods are new."""

    def __init__(self, *initial: Pod, kept_labels: frozenset[str] = frozenset()) -> None:
        self.pods = PodHistory(Shapes("secret", aws.TERMS, kept_labels=kept_labels))
        self.seen: set[str] = set()
        self.now_s = 0
        self.lines: list[Line] = []
        self.observe(*initial)
        self.lines += self.pods.begin(BEGINS_S)

    def observe(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods.observe(pod, self.now_s, is_new=pod.metadata.uid not in self.seen)
            self.seen.add(pod.metadata.uid)

    def remove(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods.remove(pod.metadata.uid, self.now_s)

    def until(self, at_s: int) -> None:
        while self.now_s < at_s:
            self.now_s += 1
            self.lines += self.pods.take(self.now_s)

    def at(self, at_s: int, *pods: Pod) -> None:
        self.until(at_s)
        self.observe(*pods)

    def of(self, *kinds: type[Line]) -> list[Line]:
        return [one for one in self.lines if isinstance(one, kinds)]

    @property
    def counts(self) -> list[tuple[int, int]]:
        """The times and counts of the only group."""
        found = self.of(Group, Replicas)
        assert all(isinstance(one, Group | Replicas) for one in found)
        return [(one.t - one.ago, one.count) for one in found if isinstance(one, Group | Replicas)]

    @property
    def runs(self) -> list[tuple[int, int | None, str]]:
        """The times, lengths and ends of runs that ended."""
        begins = {one.id: one.t - one.ago for one in self.lines if isinstance(one, Run)}
        return [(begins[one.run], one.ran, one.how) for one in self.lines if isinstance(one, End)]


# --- Counts -----------------------------------------------------------------------------------------------


def settled(*levels: tuple[int, int], begins: int = 10, until_s: int = 1000) -> list[tuple[int, int]]:
    count = ReplicaCount(begins)
    found = []
    waiting = list(levels)
    for at_s in range(until_s):
        while waiting and waiting[0][0] == at_s:
            count.observe(at_s, waiting.pop(0)[1])
        found += count.settled(at_s)
    return found


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([(5, 9), (6, 10)], []),  # a pod is replaced
        ([(5, 9), (64, 10)], []),
        ([(5, 9), (66, 10)], [(5, 9), (66, 10)]),
        ([(5, 0), (20, 4), (40, 10)], []),  # all pods restart
        ([(5, 5), (20, 7)], [(5, 7)]),  # scaled down while pods are replaced
        ([(5, 12)], [(5, 12)]),
        ([(5, 12), (20, 11), (21, 12)], [(5, 12)]),
        ([(5, 12), (10, 14), (15, 16)], [(5, 12), (10, 14), (15, 16)]),
        ([(5, 8), (10, 6), (15, 4)], [(5, 8), (10, 6), (15, 4)]),
        ([(5, 9), (6, 12)], [(6, 12)]),
        ([(5, 12), (6, 10)], [(5, 12), (6, 10)]),  # a short peak is real demand
        ([(5, 5), (75, 7), (105, 10)], [(5, 5), (75, 7), (105, 10)]),
    ],
)
def test_only_dips_that_come_back_in_a_minute_are_left_out(
    levels: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert settled(*levels) == expected


def test_group_is_recorded_with_its_count_and_scaling() -> None:
    history = History(web(1), web(2))
    history.at(100, web(3))
    history.until(200)
    history.remove(web(1), web(2))
    history.until(400)
    assert history.counts == [(0, 2), (101, 3), (201, 1)]
    (group, *_) = history.of(Group)
    assert isinstance(group, Group)
    assert group.kind == "Deployment"


def test_evicted_pod_that_is_replaced_is_no_change() -> None:
    history = History(web(1), web(2))
    history.at(100, web(1, meta={"deletionTimestamp": time(130)}), web(3))
    history.at(130)
    history.remove(web(1))
    history.until(300)
    assert history.counts == [(0, 2)]


def test_drained_node_with_slow_replacements_is_no_change() -> None:
    history = History(*map(web, range(10)))
    history.at(100, *(web(n, meta={"deletionTimestamp": time(130)}) for n in range(5)))
    history.at(140, *map(web, range(10, 15)))
    history.until(300)
    assert history.counts == [(0, 10)]


def test_statefulset_pod_that_terminates_slowly_is_no_change() -> None:
    def database(uid: str, **meta: Any) -> Pod:
        return objects.pod("db-0", {**controlled("StatefulSet", "db"), "uid": uid, **meta})

    history = History(database("a"))
    history.at(100, database("a", deletionTimestamp=time(100)))
    history.until(400)  # the grace period
    history.remove(database("a"))
    history.at(401, database("b"))
    history.until(600)
    assert history.counts == [(0, 1)]


def test_rollout_is_one_group_with_another_template() -> None:
    history = History(web(1), web(2), web(3))
    new = [web(n, "9c", containers=[objects.container(cpu="2")]) for n in range(3)]
    for number in range(3):  # with one surge pod
        history.at(100 + 100 * number, new[number])
        history.until(150 + 100 * number)
        history.remove(web(number + 1))
    history.until(1000)
    assert history.counts == [(0, 3)]
    rollouts = history.of(Rollout)
    assert [one.t for one in rollouts if isinstance(one, Rollout)] == [101]


def test_rollout_that_never_ends_shows_its_count_after_ten_minutes() -> None:
    history = History(web(1))
    history.at(100, web(1, "9c"))
    history.until(2000)
    assert history.counts == [(0, 1), (701, 2)]


def test_restart_with_an_unchanged_template_is_no_rollout() -> None:
    """`kubectl rollout restart` changes an annotation of the template alone."""
    history = History(web(1))
    history.at(100, web(1, "9c"))
    history.at(102)
    history.remove(web(1))
    history.until(300)
    assert (history.counts, history.of(Rollout)) == ([(0, 1)], [])


def test_replicaset_without_a_deployment_is_a_group() -> None:
    history = History(objects.pod("a", {**controlled("ReplicaSet", "alone"), "uid": "a"}))
    (group,) = history.of(Group)
    assert isinstance(group, Group)
    assert (group.kind, group.count) == ("ReplicaSet", 1)


def test_pods_of_another_controller_are_grouped_by_shape() -> None:
    def ray(uid: str, cpu: str) -> Pod:
        meta = {**controlled("RayCluster", "acme", "ray.io/v1"), "uid": uid}
        return objects.pod(uid, meta, containers=[objects.container(cpu=cpu)])

    history = History(ray("head", "1"), ray("worker-1", "8"), ray("worker-2", "8"))
    assert sorted(one.count for one in history.of(Group) if isinstance(one, Group)) == [1, 2]


def test_group_without_pods_is_forgotten_and_begins_again() -> None:
    history = History(web(1))
    history.at(100)
    history.remove(web(1))
    history.at(500, web(2))
    history.until(600)
    assert history.counts == [(0, 1), (101, 0), (500, 1)]
    assert len(history.of(Group)) == 2


def test_failed_pods_do_not_count() -> None:
    history = History(web(1), web(2))
    history.at(100, web(1, status={"phase": "Failed"}), web(3))
    history.until(300)
    assert history.counts == [(0, 2)]


# --- Runs -------------------------------------------------------------------------------------------------


def test_length_of_a_run_is_from_running_to_its_end() -> None:
    history = History()
    history.at(100, train(1))
    history.at(160, train(1, "Running"))
    history.at(760, train(1, "Succeeded"))
    history.until(770)
    assert history.runs == [(100, 600, "succeeded")]


def test_pods_of_one_job_stay_together() -> None:
    history = History()
    history.at(10, train(1), train(2))
    history.at(20, train(1, job="other"))
    history.until(30)
    jobs = [one.job for one in history.lines if isinstance(one, Run)]
    assert jobs[0] == jobs[1] != jobs[2]
    assert len(history.of(Shape)) == 1  # the name of the Job is not part of the shape


def test_pods_that_ended_before_the_recording_are_left_out() -> None:
    history = History(train(1, "Succeeded"), train(2, "Running"))
    history.at(50, train(1, "Succeeded", meta={"deletionTimestamp": time(50)}))
    history.at(60)
    history.remove(train(1))
    history.until(100)
    assert len(history.of(Run)) == 1
    assert history.of(End) == []


def test_changes_of_an_ended_pod_are_no_new_run() -> None:
    history = History()
    history.at(10, train(1, "Running"))
    history.at(20, train(1, "Succeeded"))
    history.at(30, train(1, "Succeeded", meta={"labels": {"a": "b"}}))
    history.at(40)
    history.remove(train(1))
    history.until(50)
    assert (len(history.of(Run)), len(history.of(End))) == (1, 1)


@pytest.mark.parametrize(("phase", "length"), [("Running", 90), ("Pending", None)])
def test_deleted_pod_ends_its_run(phase: str, length: int | None) -> None:
    history = History()
    history.at(10, train(1, phase))
    history.at(100)
    history.remove(train(1))
    history.until(110)
    assert history.runs == [(10, length, "deleted")]


def test_pod_that_is_deleted_while_it_runs_did_not_fail() -> None:
    history = History()
    history.at(10, train(1, "Running"))
    history.at(100, train(1, "Failed", meta={"deletionTimestamp": time(99)}))
    history.until(110)
    assert history.runs == [(10, 90, "deleted")]


def test_gated_pod_arrives_when_its_gates_are_removed() -> None:
    history = History()
    gated = train(1, schedulingGates=[{"name": "kueue"}])
    history.at(10, gated)
    history.at(200, train(1))
    history.until(210)
    (run,) = history.of(Run)
    assert isinstance(run, Run)
    assert run.t - run.ago == 200


def test_bare_pod_is_a_run_and_static_and_daemon_pods_are_not() -> None:
    history = History(
        objects.pod("bare", {"uid": "bare"}),
        objects.pod("static", {**controlled("Node", "n", "v1"), "uid": "static"}),
        objects.pod("daemon", {**controlled("DaemonSet", "d"), "uid": "daemon"}),
    )
    (run,) = history.of(Run, Group)
    assert isinstance(run, Run)
    assert run.job is None


# --- Gaps and clocks --------------------------------------------------------------------------------------


def test_changes_in_a_gap_have_the_times_of_the_objects() -> None:
    history = History()
    history.until(100)
    history.now_s = 700  # nothing arrived for ten minutes
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": time(500)}
    status = {"startTime": time(210), "conditions": [ready]}
    history.observe(train(1, "Succeeded", status=status, meta={"creationTimestamp": time(200)}))
    history.pods.gap(100, 700)
    history.lines += history.pods.take(700)
    assert history.runs == [(200, 290, "succeeded")]
    assert Gap(t=700, lasted=600) in history.lines


def test_clock_of_a_node_that_is_behind_ends_no_pod_before_its_creation() -> None:
    history = History()
    history.until(100)
    history.now_s = 700
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": time(150)}
    status = {"startTime": time(140), "conditions": [ready]}
    history.observe(train(1, "Succeeded", status=status, meta={"creationTimestamp": time(200)}))
    history.lines += history.pods.take(700)
    assert history.runs == [(200, 0, "succeeded")]
    (end,) = history.of(End)
    assert isinstance(end, End)
    assert end.t - end.ago == 200


@pytest.mark.parametrize("wrong_s", [-100_000, 100_000])
def test_wrong_clock_of_a_node_moves_no_change_beyond_the_last_contact(wrong_s: int) -> None:
    history = History()
    created = {"creationTimestamp": time(100 + wrong_s)}
    history.at(100, train(1, "Running", status={"startTime": time(wrong_s)}, meta=created))
    history.at(400, train(1, "Succeeded"))
    history.until(410)
    ((began_s, length_s, _),) = history.runs
    assert length_s is not None
    assert (abs(began_s - 100) <= 1, abs(length_s - 300) <= 1) == (True, True)


def test_times_never_go_backwards() -> None:
    history = History(web(1), train(1, "Running"))
    history.at(50, web(2), train(2), train(1, "Succeeded"))
    history.at(90)
    history.remove(web(1))
    history.until(200)
    times = [one.t for one in history.lines if not isinstance(one, Shape)]
    assert times == sorted(times)


def test_quiet_cluster_has_a_line_every_ten_minutes() -> None:
    history = History(web(1))
    history.until(2000)
    assert [one.t for one in history.of(Tick) if isinstance(one, Tick)] == [600, 1200, 1800]


def test_last_lines_have_changes_that_are_not_settled() -> None:
    history = History(web(1), web(2))
    history.at(100)
    history.remove(web(1))
    history.until(110)
    history.lines += history.pods.finish(110)
    assert history.counts == [(0, 2), (101, 1)]
    assert history.lines[-1] == Stop(t=110)


def test_ended_pods_are_not_kept() -> None:
    history = History()
    for number in range(200):
        one = train(1, job=f"j{number}")
        history.at(10 * number + 10, one, train(1, "Running", job=f"j{number}"))
        history.observe(train(1, "Succeeded", job=f"j{number}"), web(number))
        history.remove(web(number))
    history.until(3000)
    kept = history.pods
    assert (kept._runs, kept._groups, kept._group_of, kept._changed) == ({}, {}, {}, {})


# --- Shapes -----------------------------------------------------------------------------------------------


def shape(pod: Pod, **options: Any) -> Shape:
    (found,) = History(pod, **options).of(Shape)
    assert isinstance(found, Shape)
    return found


def test_shape_has_what_decides_where_a_pod_runs() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": names.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    found = shape(
        web(
            1,
            meta={"annotations": {names.DO_NOT_DISRUPT: "true", "acme.example/owner": "bob"}},
            containers=[
                {
                    "name": "acme",
                    "image": "acme/web:1",
                    "env": [{"name": "PASSWORD", "value": "secret"}],
                    "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}],
                }
            ],
            nodeSelector={names.ARCH: "arm64"},
            topologySpreadConstraints=[spread],
            priority=1000,
            priorityClassName="acme-high",
            terminationGracePeriodSeconds=300,
        )
    )
    (app,) = found.labels.items()
    assert found.annotations == {names.DO_NOT_DISRUPT: "true"}
    assert found.spec == {
        "containers": [
            {
                "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
                "ports": [{"containerPort": 81, "hostPort": 81}],
            }
        ],
        "nodeSelector": {names.ARCH: "arm64"},
        "topologySpreadConstraints": [spread | {"labelSelector": {"matchLabels": dict([app])}}],
        "priority": 1000,
        "terminationGracePeriodSeconds": 300,
    }


def test_match_label_keys_are_kept_without_the_values_that_the_api_server_adds() -> None:
    merged = {"key": "pod-template-hash", "operator": "In", "values": ["7f"]}
    spread = {
        "maxSkew": 1,
        "topologyKey": names.ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchExpressions": [merged]},
        "matchLabelKeys": ["pod-template-hash"],
    }
    (found,) = shape(web(1, topologySpreadConstraints=[spread])).spec["topologySpreadConstraints"]
    assert found == spread | {"labelSelector": {"matchExpressions": []}}


def test_requirements_on_single_nodes_are_left_out() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    hostname = {"key": names.HOSTNAME, "operator": "In", "values": ["ip-10-0-0-1"]}
    zone = {"key": names.ZONE, "operator": "In", "values": ["us-west-2a"]}

    def affinity(*terms: Json) -> Json:
        return {"nodeAffinity": {required: {"nodeSelectorTerms": list(terms)}}}

    both = shape(objects.pod("a", {"uid": "a"}, affinity=affinity({"matchExpressions": [hostname, zone]})))
    assert both.spec["affinity"] == affinity({"matchExpressions": [zone]})
    field = {"key": "metadata.name", "operator": "In", "values": ["ip-10-0-0-1"]}
    one_of = affinity({"matchFields": [field]}, {"matchExpressions": [zone]})
    alone = shape(objects.pod("a", {"uid": "a"}, affinity=one_of, nodeSelector={names.HOSTNAME: "x"}))
    assert alone.spec["affinity"] == {"nodeAffinity": {}}
    assert alone.spec["nodeSelector"] == {}


def test_label_that_the_user_keeps_is_not_scrubbed() -> None:
    selector = {"acme.example/pool": "gpu", names.NODEPOOL: "blue", "other": "x1"}
    kept = frozenset({"acme.example/pool", names.NODEPOOL})
    found = shape(objects.pod("a", {"uid": "a"}, nodeSelector=selector), kept_labels=kept)
    assert found.spec["nodeSelector"].items() > {("acme.example/pool", "gpu"), (names.NODEPOOL, "blue")}
    assert "other" not in found.spec["nodeSelector"]


def test_one_name_has_one_pseudonym_and_another_recording_has_others() -> None:
    def label(secret: str, value: str) -> str:
        _, line = Shapes(secret, aws.TERMS).of(objects.pod("a", {"labels": {"app": value}}))
        assert line is not None
        return next(iter(line.labels.values()))

    assert label("one", "web") == label("one", "web") != label("one", "db")
    assert label("one", "web") != label("two", "web")


def test_rarely_used_shape_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_SHAPES_MAX", 2)
    found = Shapes("secret", aws.TERMS)
    pods = [objects.pod("a", containers=[objects.container(cpu=str(n))]) for n in range(3)]
    assert [found.of(one)[0] for one in (*pods, pods[2], pods[0])] == [1, 2, 3, 3, 4]


def test_own_extended_resource_keeps_a_domain() -> None:
    requests = {"requests": {"acme.example/fpga": "2"}}
    found = shape(objects.pod("a", {"uid": "a"}, containers=[{"name": "c", "resources": requests}]))
    (resource,) = found.spec["containers"][0]["resources"]["requests"]
    assert resource.startswith("scrubbed.holdfast.dev/resource-")


# --- DaemonSets and PodDisruptionBudgets --------------------------------------------------------------------


def test_daemonset_is_written_once_for_each_template() -> None:
    history = History()

    def agent(cpu: str, **meta: Any) -> Any:
        template = {"spec": {"containers": [objects.container(cpu=cpu)]}}
        return objects.read(
            DaemonSet,
            "agent",
            {"namespace": "kube-system", "uid": "u", **meta},
            spec={"template": template},
        )

    for at_s, cpu in enumerate(("1", "1", "2")):
        history.pods.observe_daemon_set(agent(cpu, generation=at_s), at_s)
    history.pods.remove_daemon_set("u", 9)
    history.lines += history.pods.take(9)
    found = [(one.t, one.id, one.shape) for one in history.of(Daemon) if isinstance(one, Daemon)]
    assert found == [(0, 1, 1), (2, 1, 2), (9, 1, None)]


def test_budget_is_written_once_for_each_spec() -> None:
    history = History(web(1))

    def budget(available: Any, allowed: int) -> PodDisruptionBudget:
        spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": available}
        meta = {"namespace": "default", "uid": "b"}
        return objects.read(
            PodDisruptionBudget, "web", meta, spec=spec, status={"disruptionsAllowed": allowed}
        )

    for at_s, one in enumerate((budget("50%", 1), budget("50%", 2), budget(3, 2))):
        history.pods.observe_budget(one, at_s)
    history.lines += history.pods.take(5)
    found = [one for one in history.of(Budget) if isinstance(one, Budget)]
    (web_shape,) = history.of(Shape)
    assert isinstance(web_shape, Shape)
    assert [(one.t, one.spec["minAvailable"]) for one in found] == [(0, "50%"), (2, 3)]
    assert found[0].spec["selector"] == {"matchLabels": web_shape.labels}
    assert found[0].ns == web_shape.ns


def test_name_of_a_job_is_replaced_in_labels_and_selectors_but_not_as_an_app() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    expression = {"key": "job-name", "operator": "In", "values": ["train"]}
    selector = {"matchLabels": {"app": "train"}, "matchExpressions": [expression]}
    term = {"labelSelector": selector, "topologyKey": names.ZONE}
    labels = {"app": "train", "job-name": "train", "batch.kubernetes.io/job-name": "train"}
    pod = train(1, meta={"labels": labels}, affinity={"podAffinity": {required: [term]}})
    found = shape(pod)
    (scrubbed,) = found.spec["affinity"]["podAffinity"][required]
    ((app, value),) = scrubbed["labelSelector"]["matchLabels"].items()
    assert found.labels[app] == value
    assert value.startswith("value-")
    assert scrubbed["labelSelector"]["matchExpressions"][0]["values"] == ["@job"]
    assert found.labels == {app: value, "job-name": "@job", "batch.kubernetes.io/job-name": "@job"}


def test_labels_that_binding_adds_are_no_rollout() -> None:
    bound = {"app": "web", "pod-template-hash": "7f", names.ZONE: "us-west-2a", names.REGION: "us-west-2"}
    history = History(web(1, meta={"labels": bound}))
    history.at(100, web(2))
    history.until(200)
    assert history.of(Rollout) == []
