"""How long a pod may run: from its own fields, its Job and its Workload of Kueue; updated as these change."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

import objects
from holdfast import names
from holdfast.api.kueue import Workload, WorkloadSpec
from holdfast.api.meta import ObjectMeta, OwnerReference
from holdfast.api.pods import Pod
from holdfast.api.workloads import JobTimes, JobTimesSpec, JobTimesStatus
from holdfast.model.pods import RunTime
from holdfast.model.reasons import ReasonCode
from holdfast.ports import Change
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.watched_pods import WatchedPods
from holdfast.state.cluster.watched_run_times import WatchedRunTimes
from holdfast.state.conversion import run_times
from holdfast.state.conversion.node_terms import LabelRules
from manual_ports import ManualClock

START = datetime(2026, 11, 15, 10, tzinfo=UTC)
START_S = int(START.timestamp())


OWNER: Final = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}


def pod(spec: dict[str, Any] | None = None, **annotations: str) -> Pod:
    """A pod of the Job `train`."""
    written = {f"holdfast.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    meta = {"uid": "train-0", "annotations": written, "ownerReferences": [OWNER]}
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return objects.pod("train-0", meta, {"conditions": [unschedulable]}, **spec or {})


def job(deadline_s: int | None = None, start: datetime | None = None, **labels: str) -> JobTimes:
    written = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return JobTimes(
        metadata=ObjectMeta(name="train", namespace="default", uid="job-1", labels=written),
        spec=JobTimesSpec(active_deadline_seconds=deadline_s),
        status=JobTimesStatus(start_time=start),
    )


def workload(maximum_s: int | None) -> Workload:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="job-1", controller=True)
    meta = ObjectMeta(name="job-train", namespace="default", owner_references=(owner,))
    return Workload(metadata=meta, spec=WorkloadSpec(maximum_execution_time_seconds=maximum_s))


@pytest.mark.fact("TI-2")
@pytest.mark.parametrize(
    ("of_pod", "of_job", "of_workload", "expected"),
    [
        (pod(), None, None, None),
        (pod({"activeDeadlineSeconds": 600}), None, None, RunTime(600)),
        (pod(max_run_duration="2h"), None, None, RunTime(7200)),
        (pod({"activeDeadlineSeconds": 600}, max_run_duration="2h"), None, None, RunTime(600)),
        (pod(), job(), None, None),
        (pod(), job(3600), None, RunTime(3600)),  # suspended: its time has not begun
        (pod(), job(3600, START), None, RunTime(None, START_S + 3600)),
        (pod(max_run_duration="30m"), job(3600, START), None, RunTime(1800, START_S + 3600)),
        (pod(), job(max_exec_time_seconds="900"), None, RunTime(900)),
        (pod(), job(max_exec_time_seconds="soon"), None, None),
        (pod(), job(max_exec_time_seconds="9" * 5000), None, None),
        (pod(), job(), workload(1200), RunTime(1200)),
        (pod(), job(max_exec_time_seconds="900"), workload(1200), RunTime(900)),
        (pod(), job(), workload(None), None),
    ],
)
def test_run_time_is_the_least_of_all_limits(
    of_pod: Pod, of_job: JobTimes | None, of_workload: Workload | None, expected: RunTime | None
) -> None:
    assert run_times.run_time(of_pod, of_job, of_workload) == expected


@pytest.mark.parametrize("written", ["", "soon", "-3h", "5", "0s"])
def test_annotation_that_is_no_duration_is_a_problem_of_the_pod(written: str) -> None:
    found = run_times.problem(pod(max_run_duration=written))
    assert found is not None
    assert found.code is ReasonCode.INVALID
    assert names.MAX_RUN_DURATION in found.text
    assert "90m" in found.text


def test_pod_with_a_duration_or_without_has_no_problem() -> None:
    assert run_times.problem(pod(max_run_duration="36h")) is None
    assert run_times.problem(pod()) is None


# --- In a running cluster -------------------------------------------------------------------------------


def watched(*kinds: Any) -> tuple[Caches, WatchedPods]:
    clock = ManualClock()
    caches = Caches([Pod, *kinds], clock=clock)
    found = WatchedPods(caches.of(Pod), LabelRules(frozenset(), {}), clock=clock)
    WatchedRunTimes(caches, found)
    return caches, found


def pending_run_time(pods: WatchedPods) -> RunTime | None:
    (found,) = pods.sorted_out().pending
    return found.run_time


@pytest.mark.fact("TI-3")
def test_run_time_of_a_pending_pod_follows_its_job_and_its_workload() -> None:
    caches, pods = watched(JobTimes, Workload)
    objects.store(caches, pod())
    assert pending_run_time(pods) is None
    objects.store(caches, job(3600))
    assert pending_run_time(pods) == RunTime(3600)
    objects.store(caches, job(3600, START))
    assert pending_run_time(pods) == RunTime(None, START_S + 3600)
    objects.store(caches, workload(900))
    assert pending_run_time(pods) == RunTime(900, START_S + 3600)
    (known,) = caches.of(JobTimes)
    caches.of(JobTimes).apply(Change("DELETED", known))
    assert pending_run_time(pods) == RunTime(900)


def test_run_time_of_a_running_pod_follows_its_job() -> None:
    caches, pods = watched(JobTimes)
    changed: list[str] = []
    pods.subscribe(changed.append)
    objects.store(caches, pod({"nodeName": "n-1"}))
    changed.clear()
    objects.store(caches, job(3600))
    assert changed == ["n-1"]
    assert [one.run_time for one in pods.on_node("n-1")] == [RunTime(3600)]


def test_job_whose_counts_change_converts_no_pod_again() -> None:
    caches, pods = watched(JobTimes)
    objects.store(caches, pod({"nodeName": "n-1"}))
    objects.store(caches, job(3600))
    before = pods.on_node("n-1")
    changed: list[str] = []
    pods.subscribe(changed.append)
    objects.store(caches, job(3600))  # another version, with the same times
    assert changed == []
    assert pods.on_node("n-1")[0] is before[0]


def test_job_of_the_same_name_with_another_uid_is_not_the_job_of_the_pod() -> None:
    caches, pods = watched(JobTimes)
    objects.store(caches, pod())
    new = job(60)
    meta = msgspec.structs.replace(new.metadata, uid="job-2")
    objects.store(caches, msgspec.structs.replace(new, metadata=meta))
    assert pending_run_time(pods) is None


def test_without_jobs_and_workloads_only_the_fields_of_the_pod_count() -> None:
    caches, pods = watched()
    objects.store(caches, pod({"activeDeadlineSeconds": 60}))
    assert pending_run_time(pods) == RunTime(60)


def test_pending_pod_with_a_wrong_annotation_is_rejected_and_others_are_not() -> None:
    caches, pods = watched()
    objects.store(caches, pod(max_run_duration="soon"))
    found = pods.sorted_out()
    assert found.pending == ()
    assert [reason.code for one in found.rejected for reason in one.reasons] == [ReasonCode.INVALID]
