"""The pods of a recording as objects and actions of a study. Pure.

A group becomes a Deployment that scales as its pods did, and each pod of a Job becomes a Job of its own, which runs as long
as the pod did. So a pod that is evicted in the simulation starts again, as it would in the cluster.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.sim.cluster.timings import RUNS_FOR
from holdfast.simulate import recordings
from holdfast.simulate.actions import Action, Create, Delete, Patch
from holdfast.simulate.recordings import RecordedDaemon, RecordedGroup, RecordedRun, Recording

Json = dict[str, Any]

GROUP_LABEL: Final = "sim.holdfast.dev/group"
_FOREVER_S: Final = 10 * 366 * 86_400
_RETRIES: Final = 1_000_000  # a pod that is evicted starts again


def initial(recording: Recording) -> list[Json]:
    """The objects at the start."""
    return [
        *recordings.setup(recording),
        *(_daemon_set(one) for one in recording.daemons),
        *(_deployment(one) for one in recording.groups),
    ]


def actions(recording: Recording, begins_s: int) -> Iterator[Action]:
    """What happens later. `begins_s`: of the simulation."""
    for group in recording.groups:
        for after_s, count in group.changes:
            if after_s > 0:
                yield Action(begins_s + after_s, _patch(group, {"replicas": count}))
        for after_s, template in group.templates[1:]:
            yield Action(begins_s + after_s, _patch(group, {"template": _labelled(template, group.name)}))
    for number, run in enumerate(recording.runs):
        name = f"{run.name}-{number}"
        yield Action(begins_s + run.after_s, Create(_job(run, name)))
        if run.length_s is None and run.ended_s is not None:
            yield Action(begins_s + run.ended_s, Delete("Job", run.namespace, name))


def _patch(group: RecordedGroup, spec: Mapping[str, Any]) -> Patch:
    return Patch(group.namespace, group.name, {"spec": spec})


def _deployment(group: RecordedGroup) -> Json:
    count = next((count for after_s, count in reversed(group.changes) if after_s <= 0), 0)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": group.name, "namespace": group.namespace},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {GROUP_LABEL: group.name}},
            "template": _labelled(group.template, group.name),
        },
    }


def _daemon_set(daemon: RecordedDaemon) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": daemon.name, "namespace": daemon.namespace},
        "spec": {
            "selector": {"matchLabels": {GROUP_LABEL: daemon.name}},
            "template": _labelled(daemon.templates[0][1], daemon.name),
        },
    }


def _job(run: RecordedRun, name: str) -> Json:
    template = copy.deepcopy(run.template)
    template["spec"]["restartPolicy"] = "Never"
    annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(RUNS_FOR, str(_FOREVER_S))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": run.namespace},
        "spec": {"completions": 1, "parallelism": 1, "backoffLimit": _RETRIES, "template": template},
    }


def _labelled(template: Json, name: str) -> Json:
    labelled = copy.deepcopy(template)
    labelled.setdefault("metadata", {}).setdefault("labels", {})[GROUP_LABEL] = name
    return labelled
