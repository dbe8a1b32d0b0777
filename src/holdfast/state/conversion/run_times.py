"""How long a pod runs at most, from its own fields, its Job and its Workload of Kueue.

Each of them is a limit that something enforces, except the annotation, so the least counts. A deadline of a Job is a
time: it counts from the start of the Job, whether its pods have nodes or not (TI-1). A deadline of a pod counts from the
start of the pod (TI-2).
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from holdfast import names
from holdfast.api.kueue import Workload
from holdfast.api.pods import Pod
from holdfast.api.workloads import Job, JobTimes
from holdfast.model.pods import RunTime
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.state.conversion import times

KUEUE_MAXIMUM: Final = "kueue.x-k8s.io/max-exec-time-seconds"  # label of a Job (TI-3)
_DIGITS_MAX: Final = 10


def job_of(pod: Pod) -> tuple[str, ...]:
    """The uid of the Job that created the pod; for an index."""
    for reference in pod.metadata.owner_references:
        if reference.controller and reference.kind == Job.kind:
            return (reference.uid,)
    return ()


class Limit(NamedTuple):
    """A limit of the run time: a length, or the time at which the pod ends."""

    source: str  # the field that it is read from
    lasts_s: int | None = None
    end_s: int | None = None


def run_time(pod: Pod, job: Job | JobTimes | None = None, workload: Workload | None = None) -> RunTime | None:
    """None: not known."""
    return least(limits(pod, job, workload))


def limits(
    pod: Pod | None, job: Job | JobTimes | None = None, workload: Workload | None = None
) -> Iterator[Limit]:
    """`pod` None: a pod that its Job creates later."""
    if pod is not None:
        if pod.spec.active_deadline_seconds is not None:
            yield Limit("activeDeadlineSeconds of the pod", pod.spec.active_deadline_seconds)
        annotated_s = _annotated(pod)
        if annotated_s is not None:
            yield Limit(f"annotation {names.MAX_RUN_DURATION} of the pod", annotated_s)
    if job is not None:
        labelled_s = _labelled(job)
        if labelled_s is not None:
            yield Limit(f"label {KUEUE_MAXIMUM} of the Job", labelled_s)
        start, deadline_s = job.status.start_time, job.spec.active_deadline_seconds
        if deadline_s is not None and start is not None:
            yield Limit("activeDeadlineSeconds of the Job", end_s=times.epoch_s(start) + deadline_s)
        elif deadline_s is not None:  # a Job without a start time is suspended, or new: its pods start later
            yield Limit("activeDeadlineSeconds of the Job", deadline_s)
    if workload is not None and workload.spec.maximum_execution_time_seconds is not None:
        yield Limit(
            "maximumExecutionTimeSeconds of the Workload", workload.spec.maximum_execution_time_seconds
        )


def least(found: Iterable[Limit]) -> RunTime | None:
    """The least length and the first end of these limits; None: there is none."""
    lasts_s: int | None = None
    end_s: int | None = None
    for one in found:
        if one.lasts_s is not None:
            lasts_s = one.lasts_s if lasts_s is None else min(lasts_s, one.lasts_s)
        if one.end_s is not None:
            end_s = one.end_s if end_s is None else min(end_s, one.end_s)
    return None if lasts_s is None and end_s is None else RunTime(lasts_s, end_s)


def problem(pod: Pod) -> Reason | None:
    """Why the run time of a pod cannot be read."""
    written = pod.metadata.annotations.get(names.MAX_RUN_DURATION)
    if written is None or _annotated(pod) is not None:
        return None
    text = f"annotation {names.MAX_RUN_DURATION} is {written!r}; it is a duration such as 90m or 36h"
    return Reason(ReasonCode.INVALID, text, (names.MAX_RUN_DURATION,))


def _annotated(pod: Pod) -> int | None:
    written = pod.metadata.annotations.get(names.MAX_RUN_DURATION)
    return times.duration_s(written) or None if written is not None else None


def _labelled(job: Job | JobTimes) -> int | None:
    """A value that Kueue would refuse is ignored."""
    written = job.metadata.labels.get(KUEUE_MAXIMUM, "")
    return int(written) or None if written.isdecimal() and len(written) <= _DIGITS_MAX else None
