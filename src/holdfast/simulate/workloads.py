"""The agenda of a study: when Deployments scale and when Jobs begin. Pure.

`run` creates the objects of `initial` at the start and carries out the actions of `agenda` at their time.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.api.simulation import DailyReplicas, JobRuns
from holdfast.core.disruption import cron
from holdfast.sim.cluster.timings import RUNS_FOR
from holdfast.simulate import replay, schedules
from holdfast.simulate.actions import Action, Create, Patch
from holdfast.simulate.study import Json, Study, key_of, named

_FIRST: Final = {"Namespace": 0, "PriorityClass": 1, "StorageClass": 2, "EC2NodeClass": 3, "NodePool": 4}
_MINUTE_S: Final = 60


def initial(study: Study) -> list[Json]:
    """The objects at the start, in the order of their creation. Jobs and CronJobs are in the agenda."""
    scaled = {named("Deployment", one.deployment): one for one in study.spec.replicas}
    found = [
        _scaled(one, scaled[key_of(one)], study) if key_of(one) in scaled else one
        for one in study.objects
        if one.get("kind") not in ("Job", "CronJob")
    ]
    for recording in study.recordings:
        found += replay.initial(recording)
    return sorted(found, key=lambda one: _FIRST.get(str(one.get("kind")), len(_FIRST)))


def agenda(study: Study) -> list[Action]:
    """Everything that happens later, by time."""
    found = [*_actions(study)]
    for recording in study.recordings:
        found += replay.actions(recording, study.begins_s)
    return sorted((one for one in found if one.at_s < study.ends_s), key=lambda one: one.at_s)


def _actions(study: Study) -> Iterator[Action]:
    for replicas in study.spec.replicas:
        _, namespace, name = named("Deployment", replicas.deployment)
        for at_s, count in schedules.scalings(replicas, study.begins_s, study.ends_s, study.seed):
            if at_s > study.begins_s:
                yield Action(at_s, Patch(namespace, name, {"spec": {"replicas": count}}))
    runs = {named("Job", one.job): one for one in study.spec.jobs}
    for document in study.objects:
        if document.get("kind") == "Job":
            yield from _job_runs(document, runs.get(key_of(document)), study)
        elif document.get("kind") == "CronJob":
            yield from _cron_runs(document, study)


def _scaled(document: Json, written: DailyReplicas, study: Study) -> Json:
    (first, *_) = schedules.scalings(written, study.begins_s, study.begins_s + 1, study.seed)
    return {**document, "spec": {**document["spec"], "replicas": first[1]}}


def _job_runs(document: Json, written: JobRuns | None, study: Study) -> Iterator[Action]:
    if written is None:
        yield Action(study.begins_s, Create(document))
        return
    lengths = schedules.run_lengths(written, study.seed)
    starts = schedules.job_starts(written, study.begins_s, study.ends_s, study.seed)
    for number, (at_s, length_s) in enumerate(zip(starts, lengths, strict=False)):
        yield Action(at_s, Create(_run(document, document.get("spec") or {}, f"-{number}", length_s)))


def _cron_runs(document: Json, study: Study) -> Iterator[Action]:
    spec = document.get("spec") or {}
    if spec.get("suspend"):
        return
    schedule = cron.parse(str(spec.get("schedule")))
    first_s = -(-study.begins_s // _MINUTE_S) * _MINUTE_S
    template = spec.get("jobTemplate") or {}
    forbids = spec.get("concurrencyPolicy") == "Forbid"
    for at_s in range(first_s, study.ends_s, _MINUTE_S):
        if schedule.latest_s(at_s) == at_s:
            job = _run({**document, **template}, template.get("spec") or {}, f"-{at_s // _MINUTE_S}", None)
            job["metadata"]["name"] = f"{document['metadata']['name']}-{at_s // _MINUTE_S}"
            job["metadata"].setdefault("namespace", (document["metadata"].get("namespace") or "default"))
            yield Action(at_s, Create(job, str(document["metadata"]["name"]) if forbids else ""))


def _run(document: Json, spec: Json, suffix: str, length_s: int | None) -> dict[str, Any]:
    """One Job with the template of another."""
    meta: Mapping[str, Any] = document.get("metadata") or {}
    job: dict[str, Any] = copy.deepcopy(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**meta, "name": f"{meta.get('name', '')}{suffix}"},
            "spec": dict(spec),
        }
    )
    if length_s is not None:
        template = job["spec"].setdefault("template", {})
        annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
        annotations[RUNS_FOR] = str(length_s)
    return job
