"""Pods that were promised a node and have not been bound yet, or still run on a node that drains.

Written by whoever carries a plan out, read when the next snapshot is taken: a pod that is on its way to a node counts
as being there, so that it is not planned again and others find the room that is really left. Kept in memory: after a
restart such pods are planned anew, onto the claims that are on their way, which are seen by everybody.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final

from holdfast.ports import Clock

WINDOW_S: Final = 20.0  # after a node is ready: how long kube-scheduler may take to bind what was promised


class Nominations:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._promised: dict[str, tuple[str, float | None]] = {}  # uid -> node or claim, and until when

    def __len__(self) -> int:
        return len(self._promised)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Pods, and where they are on their way to."""
        return ((pod, place) for pod, (place, _) in self._promised.items())

    def promise(self, pods: Iterable[str], place: str, *, ready: bool) -> None:
        """A node that exists is waited for as long as kube-scheduler may take; one to come, until it has come."""
        until_s = self._clock.monotonic_s() + WINDOW_S if ready else None
        for pod in pods:
            self._promised[pod] = (place, until_s)

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
        kept: dict[str, tuple[str, float | None]] = {}
        for pod, promised in self._promised.items():
            place, until_s = promised
            coming = to_come[place] if pod in expected else None
            if coming is None or (until_s is not None and until_s <= now_s):
                continue
            has_come = until_s is None and not coming  # from now on the time counts
            kept[pod] = (place, now_s + WINDOW_S) if has_come else promised
        self._promised = kept

    def places(self) -> frozenset[str]:
        """Nodes and claims that pods are on their way to; they are not to be disrupted (ST-12)."""
        return frozenset(place for place, _ in self._promised.values())
