"""Pods that are nominated to a node or NodeClaim: not bound to it yet, or still running on a node that drains.

The provisioner and disruption add nominations; the next snapshot reads them. A nominated pod counts as running on its
node, so that it is not planned again and its capacity is not planned for other pods. Nominations are not stored: after
a restart these pods are planned again, onto the launching NodeClaims, which the API server lists.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final

from holdfast.ports import Clock

NODES_MAX: Final = 3  # nodes launched for a pod that is bound to none, before the next launch is delayed
_DELAY_FIRST_S: Final = 60.0
_DELAY_MAX_S: Final = 3600.0
WINDOW_S: Final = 20.0  # time for kube-scheduler to bind nominated pods after the node is initialized


class Nominations:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nominated: dict[str, tuple[str, float | None]] = {}  # uid -> node or claim, and until when
        self._written: set[str] = set()  # NodeClaims that were created for nominated pods
        self._void: set[str] = set()  # NodeClaims of `_written` whose pods are all bound elsewhere or deleted
        self._new: set[str] = set()  # pods that are nominated to a node which was launched for them
        self._since_s: dict[str, float] = {}  # uid -> when the pod was first nominated
        self._unbound: dict[
            str, tuple[int, float]
        ] = {}  # uid -> count of nodes that the pod was not bound to, and when the last window ended

    def __len__(self) -> int:
        return len(self._nominated)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Pods, and the node or NodeClaim that each is nominated to."""
        return ((pod, target) for pod, (target, _) in self._nominated.items())

    def nominate(self, pods: Iterable[str], target: str, *, ready: bool, written: bool = False) -> None:
        """`ready`: the node can run pods, so the nomination ends after WINDOW_S. Otherwise WINDOW_S starts when the
        node is initialized. `written`: the target is a NodeClaim that was created for these pods alone."""
        if written:
            self._written.add(target)
        self._void.discard(target)
        until_s = self._clock.monotonic_s() + WINDOW_S if ready else None
        for pod in pods:
            self._nominated[pod] = (target, until_s)
            self._since_s.setdefault(pod, self._clock.monotonic_s())
            (self._new.discard if ready else self._new.add)(pod)

    def target_of(self, pod: str) -> str | None:
        """The node or NodeClaim that a pod is nominated to."""
        found = self._nominated.get(pod)
        return found[0] if found else None

    def since_s(self, pod: str) -> float | None:
        """When a nominated pod was first nominated, by the monotonic clock."""
        return self._since_s.get(pod)

    def remove(self, pod: str) -> None:
        self._nominated.pop(pod, None)

    def pods_of(self, target: str) -> list[str]:
        return [pod for pod, (nominated_to, _) in self._nominated.items() if nominated_to == target]

    def keep(
        self,
        expected: Container[str],
        is_to_come: Callable[[str], bool | None],
        waiting: Container[str] = frozenset(),
    ) -> None:
        """Removes nominations of pods that are not expected any more, of deleted targets, and of pods that were not
        bound in time.

        `expected`: pending pods, and pods on draining nodes.

        `is_to_come`: whether a target is not initialized yet; None: it does not exist or is deleting.

        `waiting`: pods that kube-scheduler does not bind yet, because another node of their gang is not initialized.
        Their windows start when it is.
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
            if pod in waiting:
                remaining[pod] = (target, None)
                continue
            if until_s is not None and until_s <= now_s:
                if pod in self._new:
                    self._unbound[pod] = (self.unbound(pod) + 1, now_s)
                continue
            has_come = until_s is None and not coming  # the window starts now
            remaining[pod] = (target, now_s + WINDOW_S) if has_come else nomination
        self._nominated = remaining
        self._since_s = {pod: at_s for pod, at_s in self._since_s.items() if pod in remaining}
        self._new &= remaining.keys()
        self._void -= self.targets()
        self._written = {target for target in self._written if target in to_come or is_to_come(target)}
        self._void &= self._written
        self._unbound = {pod: one for pod, one in self._unbound.items() if pod in expected}

    def is_void(self, target: str) -> bool:
        """Whether all pods that a NodeClaim was created for were bound elsewhere or deleted before it was initialized."""
        return target in self._void

    def unbound(self, pod: str) -> int:
        """How many nodes were launched for a pod that kube-scheduler did not bind to them."""
        return self._unbound.get(pod, (0, 0.0))[0]

    def delayed(self) -> frozenset[str]:
        """Pods for which no node is launched now: NODES_MAX nodes were launched for each of them, and it is bound to
        none. The delay doubles with each further node."""
        now_s = self._clock.monotonic_s()
        return frozenset(
            pod
            for pod, (count, at_s) in self._unbound.items()
            if count >= NODES_MAX
            and now_s < at_s + min(_DELAY_FIRST_S * 2.0 ** min(count - NODES_MAX, 16), _DELAY_MAX_S)
        )

    def targets(self) -> frozenset[str]:
        """Nodes and NodeClaims with nominated pods. They must not be disrupted (ST-12)."""
        return frozenset(target for target, _ in self._nominated.values())
