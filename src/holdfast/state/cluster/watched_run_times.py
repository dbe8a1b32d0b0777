"""How long the pods of a running cluster may run, updated as Jobs and Workloads of Kueue change.

It gives `watched_pods` what it needs to convert a pod. Both kinds are optional: without them only the fields of pods
count.
"""

from collections.abc import Iterable, Iterator

from holdfast.api.kueue import Workload
from holdfast.api.pods import Pod
from holdfast.api.workloads import JobTimes
from holdfast.model.pods import RunTime
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.watched_pods import WatchedPods
from holdfast.state.conversion import run_times
from holdfast.state.conversion.run_times import Limit


class WatchedRunTimes:
    def __init__(self, caches: Caches, pods: WatchedPods) -> None:
        self._jobs, self._workloads = caches.find(JobTimes), caches.find(Workload)
        self._watched_pods = pods
        if self._workloads is not None:
            self._workloads_of = self._workloads.index(_owners)
            self._workloads.subscribe(self._on_workload)
        if self._jobs is not None:
            self._jobs.subscribe(self._on_job)
        if self._jobs is not None or self._workloads is not None:
            self._pods_of = caches.of(Pod).index(run_times.job_of)
            pods.converter.run_time_of = self._of

    def limits(self, pods: Iterable[Pod]) -> tuple[Limit, ...]:
        """The limits of the run time of these pods, each of them once."""
        return tuple(dict.fromkeys(one for pod in pods for one in self._limits(pod)))

    def limits_of_job(self, job: JobTimes) -> tuple[Limit, ...]:
        """Those that a Job and its Workload have for pods that do not exist yet."""
        return tuple(run_times.limits(None, job, self.workload_of(job.metadata.uid)))

    def _of(self, pod: Pod) -> RunTime | None:
        return run_times.least(self._limits(pod))

    def _limits(self, pod: Pod) -> Iterator[Limit]:
        for uid in run_times.job_of(pod):
            return run_times.limits(pod, self._job(pod, uid), self.workload_of(uid))
        return run_times.limits(pod)

    def _job(self, pod: Pod, uid: str) -> JobTimes | None:
        for owner in pod.metadata.owner_references:
            if owner.uid == uid and self._jobs is not None:
                found = self._jobs.get((pod.metadata.namespace, owner.name))
                return found if found is not None and found.metadata.uid == uid else None
        return None

    def workload_of(self, uid: str) -> Workload | None:
        """The Workload of Kueue of the object with this uid."""
        if self._workloads is None:
            return None
        return next(iter(self._workloads_of.get(uid)), None)

    def _on_job(self, before: JobTimes | None, after: JobTimes | None) -> None:
        """Most changes of a Job are counts of its pods."""
        if before is not None and after is not None and _times(before) == _times(after):
            return
        for job in (before, after):
            if job is not None:
                self._watched_pods.convert_again(self._pods_of.get(job.metadata.uid))

    def _on_workload(self, before: Workload | None, after: Workload | None) -> None:
        if before is not None and after is not None and before.spec == after.spec:
            return
        for workload in (before, after):
            for uid in _owners(workload) if workload is not None else ():
                self._watched_pods.convert_again(self._pods_of.get(uid))


def _times(job: JobTimes) -> object:
    return job.metadata.uid, job.metadata.labels, job.spec, job.status


def _owners(workload: Workload) -> tuple[str, ...]:
    return tuple(owner.uid for owner in workload.metadata.owner_references)
