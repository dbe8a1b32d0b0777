"""How long pods take until they are bound and until they run, under Karpenter's names.

Durations are observed when a pod is bound or becomes ready, once. Gauges have the pods that are not bound or do not run
yet: with --metrics-per-object each of them, else the longest time of all.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from holdfast.api.pods import Pod, PodCondition
from holdfast.controllers.metrics.pods import is_ready
from holdfast.ports import Clock, Recorder
from holdfast.runtime.cache import Caches
from holdfast.runtime.metrics import Metric
from holdfast.state.cluster.nominations import Nominations
from holdfast.state.conversion import pod_states, times

_DRA: Final = ("dynamic_resources",)
_POD: Final = ("name", "namespace")
STARTUP: Final = "karpenter_pods_startup_duration_seconds"
UNSTARTED: Final = "karpenter_pods_unstarted_time_seconds"
BOUND: Final = "karpenter_pods_bound_duration_seconds"
UNBOUND: Final = "karpenter_pods_unbound_time_seconds"
PLANNED_STARTUP: Final = "karpenter_pods_provisioning_startup_duration_seconds"
PLANNED_UNSTARTED: Final = "karpenter_pods_provisioning_unstarted_time_seconds"
PLANNED_BOUND: Final = "karpenter_pods_provisioning_bound_duration_seconds"
PLANNED_UNBOUND: Final = "karpenter_pods_provisioning_unbound_time_seconds"
UNDECIDED: Final = "karpenter_pods_provisioning_scheduling_undecided_time_seconds"
METRICS: Final = (
    Metric(STARTUP, "summary", "From the creation of a pod until it is ready."),
    Metric(UNSTARTED, "gauge", "Age of pods that are not ready yet.", _POD),
    Metric(BOUND, "histogram", "From the creation of a pod until it is bound.", _DRA),
    Metric(UNBOUND, "gauge", "Age of pods that are not bound yet.", (*_POD, *_DRA)),
    Metric(PLANNED_STARTUP, "histogram", "From the first plan with a node for a pod until it is ready."),
    Metric(
        PLANNED_UNSTARTED, "gauge", "Time since the first plan with a node for pods that are not ready.", _POD
    ),
    Metric(PLANNED_BOUND, "histogram", "From the first plan with a node for a pod until it is bound.", _DRA),
    Metric(
        PLANNED_UNBOUND,
        "gauge",
        "Time since the first plan with a node for pods that are not bound.",
        (*_POD, *_DRA),
    ),
    Metric(UNDECIDED, "gauge", "How long pods wait for their first plan.", _POD),
)
_PENDING: Final = "Pending"
_AT_ONCE: Final = 1000  # pods, in about 5 ms

Labels = tuple[str, ...]


class PodTimes:
    """`undecided`: since when pods wait for their first plan, by uid; None: the pod was planned."""

    def __init__(
        self,
        *,
        caches: Caches,
        clock: Clock,
        recorder: Recorder,
        nominations: Nominations,
        leads: Callable[[], bool],
        undecided: Callable[[], Mapping[str, float | None]],
        per_object: bool,
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._nominations = nominations
        self._leads = leads
        self._undecided = undecided
        self._per_object = per_object
        self._unstarted: dict[str, Pod] = {}  # by uid: pods that were seen before they ran
        self._unbound: dict[str, Pod] = {}
        self._planned_s: dict[str, float] = {}  # by uid: the first plan with a node, by the monotonic clock
        pods = caches.of(Pod)
        for pod in pods:
            self._on_pod(None, pod)
        pods.subscribe(self._on_pod)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._end(before.metadata.uid)
            return
        if before is not None and before.metadata.uid != after.metadata.uid:
            self._end(before.metadata.uid)
        uid = after.metadata.uid
        if after.status.phase == _PENDING and not pod_states.is_terminating(after):
            self._unstarted[uid] = after
            if _scheduled(after) is None:
                self._unbound[uid] = after
        self._plan_of(uid)
        self._check_bound(after)
        self._check_started(after)

    def _end(self, uid: str) -> None:
        for known in (self._unstarted, self._unbound, self._planned_s):
            known.pop(uid, None)

    def _plan_of(self, uid: str) -> float | None:
        """When the first plan had a node for the pod. A nomination ends before the pod runs, so the time is kept."""
        since_s = self._nominations.since_s(uid)
        if since_s is not None and (uid in self._unstarted or uid in self._unbound):
            self._planned_s.setdefault(uid, since_s)
        return self._planned_s.get(uid)

    def _check_bound(self, pod: Pod) -> None:
        found = _scheduled(pod)
        if found is None or self._unbound.pop(pod.metadata.uid, None) is None:
            return
        labels = {"dynamic_resources": _dynamic(pod)}
        self._observe(BOUND, labels, pod, found)
        planned_s = self._planned_s.get(pod.metadata.uid)
        if planned_s is not None and self._leads():
            self._recorder.observe(PLANNED_BOUND, labels, self._clock.monotonic_s() - planned_s)

    def _check_started(self, pod: Pod) -> None:
        """A pod that ended before it was ready has no startup duration."""
        uid = pod.metadata.uid
        if pod.status.phase == _PENDING or uid not in self._unstarted:
            return
        if is_ready(pod):
            ready = next(one for one in pod.status.conditions if one.type == "Ready")
            self._observe(STARTUP, {}, pod, ready)
            planned_s = self._planned_s.get(uid)
            if planned_s is not None and self._leads():
                self._recorder.observe(PLANNED_STARTUP, {}, self._clock.monotonic_s() - planned_s)
        elif not pod_states.is_terminal(pod):
            self._unstarted[uid] = pod
            return
        self._end(uid)

    def _observe(self, metric: str, labels: Mapping[str, str], pod: Pod, reached: PodCondition) -> None:
        created, at = pod.metadata.creation_timestamp, reached.last_transition_time
        if self._leads() and created is not None and at is not None:
            self._recorder.observe(metric, labels, max(0, times.epoch_s(at) - times.epoch_s(created)))

    # --- Scrapes --------------------------------------------------------------------------------------

    async def export(self) -> None:
        now_s, monotonic_s = self._clock.now_s(), self._clock.monotonic_s()

        def age_s(pod: Pod) -> float | None:
            created = pod.metadata.creation_timestamp
            return None if created is None else max(0, now_s - times.epoch_s(created))

        def planned_s(pod: Pod) -> float | None:
            since_s = self._plan_of(pod.metadata.uid)
            return None if since_s is None else monotonic_s - since_s

        undecided = self._undecided()

        def undecided_s(pod: Pod) -> float | None:
            since_s = undecided.get(pod.metadata.uid)
            return None if since_s is None else monotonic_s - since_s

        unstarted, unbound = tuple(self._unstarted.values()), tuple(self._unbound.values())
        for metric, pods, of in (
            (UNSTARTED, unstarted, age_s),
            (UNBOUND, unbound, age_s),
            (PLANNED_UNSTARTED, unstarted, planned_s),
            (PLANNED_UNBOUND, unbound, planned_s),
            (UNDECIDED, unbound, undecided_s),
        ):
            has_dynamic = metric in (UNBOUND, PLANNED_UNBOUND)
            self._recorder.replace(metric, await self._series(pods, of, dynamic=has_dynamic))

    async def _series(
        self, pods: Iterable[Pod], of: Callable[[Pod], float | None], *, dynamic: bool
    ) -> dict[Labels, float]:
        found: dict[Labels, float] = {}
        for number, pod in enumerate(pods, start=1):
            value = of(pod)
            if value is not None:
                name = (pod.metadata.name, pod.metadata.namespace) if self._per_object else ("", "")
                key = (*name, _dynamic(pod)) if dynamic else name
                found[key] = max(value, found.get(key, 0.0))
            if number % _AT_ONCE == 0:
                await self._clock.sleep(0)
        return found


def _scheduled(pod: Pod) -> PodCondition | None:
    """The condition PodScheduled, if it is true."""
    for one in pod.status.conditions:
        if one.type == "PodScheduled" and one.status == "True":
            return one
    return None


def _dynamic(pod: Pod) -> str:
    return str(bool(pod.spec.resource_claims)).lower()
