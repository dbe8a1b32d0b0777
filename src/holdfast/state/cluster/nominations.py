"""Pods that are nominated to a node or NodeClaim: not bound to it yet, or still running on a node that drains.

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
WINDOW_S: Final = 20.0  # after a node is ready: how long kube-scheduler may take to bind the nominated pods


class Nominations:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nominated: dict[str, tuple[str, float | None]] = {}  # uid -> node or claim, and until when
        self._written: set[str] = set()  # NodeClaims that were written for pods of this table
        self._void: set[str] = set()  # of those, the ones whose pods are all bound elsewhere or deleted
        self._new: set[str] = set()  # pods that are nominated to a node which was launched for them
        self._unbound: dict[
            str, tuple[int, float]
        ] = {}  # uid -> nodes that came up without the pod, and when the last did

    def __len__(self) -> int:
        return len(self._nominated)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Pods, and the node or NodeClaim that each is nominated to."""
        return ((pod, target) for pod, (target, _) in self._nominated.items())

    def nominate(self, pods: Iterable[str], target: str, *, ready: bool, written: bool = False) -> None:
        """A node that exists is waited for as long as kube-scheduler may take; one to come, until it has come. `written`:
        the target is a NodeClaim that was written for these pods and for nothing else."""
        if written:
            self._written.add(target)
        self._void.discard(target)
        until_s = self._clock.monotonic_s() + WINDOW_S if ready else None
        for pod in pods:
            self._nominated[pod] = (target, until_s)
            (self._new.discard if ready else self._new.add)(pod)

    def target_of(self, pod: str) -> str | None:
        """The node or NodeClaim that a pod is nominated to."""
        found = self._nominated.get(pod)
        return found[0] if found else None

    def remove(self, pod: str) -> None:
        self._nominated.pop(pod, None)

    def pods_of(self, target: str) -> list[str]:
        return [pod for pod, (nominated_to, _) in self._nominated.items() if nominated_to == target]

    def keep(self, expected: Container[str], is_to_come: Callable[[str], bool | None]) -> None:
        """Removes pods that are not expected any more, targets that are deleted, and pods that were not bound in time.

        `expected`: pods that are pending, and pods on nodes that drain.

        `is_to_come`: whether a target is still to come; None when it does not exist.
        """
        now_s = self._clock.monotonic_s()
        to_come = {target: is_to_come(target) for target in self.targets()}
        remaining: dict[str, tuple[str, float | None]] = {}
        for pod, nomination in self._nominated.items():
            target, until_s = nomination
            if pod not in expected and to_come[target] and target in self._written:
                self._void.add(target)
            coming = to_come[target] if pod in expected else None
            if coming is None:
                continue
            if until_s is not None and until_s <= now_s:
                if pod in self._new:
                    self._unbound[pod] = (self.unbound(pod) + 1, now_s)
                continue
            has_come = until_s is None and not coming  # from now on the time counts
            remaining[pod] = (target, now_s + WINDOW_S) if has_come else nomination
        self._nominated = remaining
        self._new &= remaining.keys()
        self._void -= self.targets()
        self._written = {target for target in self._written if target in to_come or is_to_come(target)}
        self._void &= self._written
        self._unbound = {pod: one for pod, one in self._unbound.items() if pod in expected}

    def is_void(self, target: str) -> bool:
        """Whether every pod that a NodeClaim was written for was bound elsewhere, or deleted, while it was to come."""
        return target in self._void

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

    def targets(self) -> frozenset[str]:
        """Nodes and claims with nominated pods; they are not to be disrupted (ST-12)."""
        return frozenset(target for target, _ in self._nominated.values())
