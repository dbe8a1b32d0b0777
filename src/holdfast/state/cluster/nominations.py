"""Pods that were promised a node and have not been bound yet, or still run on a node that drains.

The provisioner and disruption write them; the next snapshot reads them. A nominated pod counts as running on
its node, so that it is not planned again and other pods see the capacity that is really free. The nominations
are not stored: after a restart such pods are planned again, onto the NodeClaims that are launching, which the
API server lists.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final

from holdfast.ports import Clock

NODES_MAX: Final = 3  # that are launched for a pod and come up without it, before the next one is delayed
_DELAY_FIRST_S: Final = 60.0
_DELAY_MAX_S: Final = 3600.0
WINDOW_S: Final = 20.0  # after a node is ready: how long kube-scheduler may take to bind what was promised


class Nominations:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._promised: dict[str, tuple[str, float | None]] = {}  # uid -> node or claim, and until when
        self._written: set[str] = set()  # NodeClaims that were written for pods of this table
        self._void: set[str] = set()  # of those, the ones whose pods are all bound elsewhere or deleted
        self._new: set[str] = set()  # pods that are promised a node which was launched for them
        self._unbound: dict[
            str, tuple[int, float]
        ] = {}  # uid -> nodes that came up without the pod, and when the last did

    def __len__(self) -> int:
        return len(self._promised)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Pods, and where they are on their way to."""
        return ((pod, place) for pod, (place, _) in self._promised.items())

    def promise(self, pods: Iterable[str], place: str, *, ready: bool, written: bool = False) -> None:
        """A node that exists is waited for as long as kube-scheduler may take; one to come, until it has come. `written`:
        the place is a NodeClaim that was written for these pods and for nothing else."""
        if written:
            self._written.add(place)
        self._void.discard(place)
        until_s = self._clock.monotonic_s() + WINDOW_S if ready else None
        for pod in pods:
            self._promised[pod] = (place, until_s)
            (self._new.discard if ready else self._new.add)(pod)

    def place_of(self, pod: str) -> str | None:
        """Where a pod is on its way to."""
        found = self._promised.get(pod)
        return found[0] if found else None

    def forget(self, pod: str) -> None:
        self._promised.pop(pod, None)

    def pods_of(self, place: str) -> list[str]:
        return [pod for pod, (promised, _) in self._promised.items() if promised == place]

    def keep(self, expected: Container[str], is_to_come: Callable[[str], bool | None]) -> None:
        """Forgets pods that are not expected any more, places that will not be, and promises that were not kept.

        `expected`: pods that are pending, and pods on nodes that drain.

        `is_to_come`: whether a place is still on its way; None when it is not there at all.
        """
        now_s = self._clock.monotonic_s()
        to_come = {place: is_to_come(place) for place in self.places()}
        remaining: dict[str, tuple[str, float | None]] = {}
        for pod, promised in self._promised.items():
            place, until_s = promised
            if pod not in expected and to_come[place] and place in self._written:
                self._void.add(place)
            coming = to_come[place] if pod in expected else None
            if coming is None:
                continue
            if until_s is not None and until_s <= now_s:
                if pod in self._new:
                    self._unbound[pod] = (self.unbound(pod) + 1, now_s)
                continue
            has_come = until_s is None and not coming  # from now on the time counts
            remaining[pod] = (place, now_s + WINDOW_S) if has_come else promised
        self._promised = remaining
        self._new &= remaining.keys()
        self._void -= self.places()
        self._written = {place for place in self._written if place in to_come or is_to_come(place)}
        self._void &= self._written
        self._unbound = {pod: one for pod, one in self._unbound.items() if pod in expected}

    def is_void(self, place: str) -> bool:
        """Whether every pod that a NodeClaim was written for was bound elsewhere, or deleted, while it was to come."""
        return place in self._void

    def unbound(self, pod: str) -> int:
        """How many nodes came up for a pod that kube-scheduler did not bind to them."""
        return self._unbound.get(pod, (0, 0.0))[0]

    def delayed(self) -> frozenset[str]:
        """Pods that no node is launched for now: too many came up without them. The delay doubles with each node."""
        now_s = self._clock.monotonic_s()
        return frozenset(
            pod
            for pod, (count, at_s) in self._unbound.items()
            if count >= NODES_MAX
            and now_s < at_s + min(_DELAY_FIRST_S * 2.0 ** min(count - NODES_MAX, 16), _DELAY_MAX_S)
        )

    def places(self) -> frozenset[str]:
        """Nodes and claims that pods are on their way to; they are not to be disrupted (ST-12)."""
        return frozenset(place for place, _ in self._promised.values())
