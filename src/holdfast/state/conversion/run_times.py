"""How long a pod runs at most, from its own fields, its Job and its Workload of Kueue.

Each of them is a limit that something enforces, except the annotation, so the least counts. A deadline of a Job is a
time: it counts from the start of the Job, whether its pods have nodes or not (TI-1). A deadline of a pod counts from the
start of the pod (TI-2).
"""

from collections.abc import Iterable
from typing import Final

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


def run_time(pod: Pod, job: Job | JobTimes | None = None, workload: Workload | None = None) -> RunTime | None:
    """None: not known."""
    lengths = [pod.spec.active_deadline_seconds, _annotated(pod)]
    end_s = None
    if job is not None:
        lengths.append(_labelled(job))
        start, deadline_s = job.status.start_time, job.spec.active_deadline_seconds
        if deadline_s is not None and start is not None:
            end_s = times.epoch_s(start) + deadline_s
        else:  # a Job without a start time is suspended, or new: its pods start later
            lengths.append(deadline_s)
    if workload is not None:
        lengths.append(workload.spec.maximum_execution_time_seconds)
    lasts_s = _least(lengths)
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


def _least(lengths: Iterable[int | None]) -> int | None:
    return min((one for one in lengths if one is not None), default=None)
