"""Counts the pods of a simulated cluster, and how long each waits until it runs.

Pods of DaemonSets are left out: they exist only where a node does.
"""

from array import array

from holdfast.api.simulation_results import PodsResult, Waiting
from holdfast.ports import Clock
from holdfast.runtime.cache import Caches
from holdfast.sim.cluster import pods
from holdfast.sim.cluster.kinds import Node, Pod


class PodTimes:
    def __init__(self, caches: Caches, clock: Clock) -> None:
        self._clock = clock
        self._nodes = caches.of(Node)
        self._waiting: dict[str, tuple[float, str]] = {}  # since when, and name, by uid
        self._running: set[str] = set()
        self._seconds = array("d")  # that each pod waited
        self._longest = (0.0, "")
        self._created = self._lost = 0
        caches.of(Pod).subscribe(self._on_pod)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def result(self, evicted: int) -> PodsResult:
        waited = sorted(self._seconds)
        longest_s, name = self._longest
        return PodsResult(
            created=self._created,
            started=len(waited),
            evicted=evicted,
            lost=self._lost,
            waiting=Waiting(
                p50=percentile(waited, 50),
                p90=percentile(waited, 90),
                p99=percentile(waited, 99),
                longest=round(longest_s, 1),
                longest_pod=name,
            ),
        )

    def still_waiting(self) -> list[tuple[str, float, str]]:
        """Uid, since when on the clock of the event loop, and name; the longest first."""
        return sorted(
            ((uid, since_s, name) for uid, (since_s, name) in self._waiting.items()), key=lambda one: one[1:]
        )

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        if _is_of_daemonset(pod):
            return
        uid = pod.metadata.uid
        if after is None:
            self._ended(uid, pod)
            return
        if before is None:
            self._created += 1
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            self._waiting[uid] = (self._clock.monotonic_s(), name)
        if uid in self._waiting and pod.status.get("phase") == "Running":
            since_s, name = self._waiting.pop(uid)
            took_s = self._clock.monotonic_s() - since_s
            self._seconds.append(took_s)
            self._longest = max(self._longest, (took_s, name))
            self._running.add(uid)
        if pods.ended(pod):
            self._waiting.pop(uid, None)
            self._running.discard(uid)

    def _ended(self, uid: str, pod: Pod) -> None:
        self._waiting.pop(uid, None)
        if uid in self._running:
            self._running.discard(uid)
            self._lost += self._nodes.get(("", pods.node_of(pod))) is None


def percentile(ordered: list[float], percent: int) -> float:
    """By the nearest rank, with one decimal."""
    if not ordered:
        return 0.0
    rank = max(1, -(-len(ordered) * percent // 100))
    return round(ordered[rank - 1], 1)


def _is_of_daemonset(pod: Pod) -> bool:
    return any(owner.kind == "DaemonSet" and owner.controller for owner in pod.metadata.owner_references)
