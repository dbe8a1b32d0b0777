"""Nodes that pods are on their way to, as if these were there.

Called by `live`. The rules: a pod that was promised a node is not planned again, and others find the room that is really
left; where kube-scheduler gave that room to another, the promise is forgotten; a node that expects the same pods as in
the last snapshot is the same object again. A pod on a node that drains is different: it stays on its node until it is
evicted, so every plan includes it, but the node that the last plan chose for it is nominated. Otherwise emptiness would
delete that node while the drain waits, and the next plan would launch it again.
"""

import dataclasses
from collections import ChainMap
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.model import resources
from holdfast.model.pods import PodView
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodeView, Snapshot
from holdfast.ports import Clock
from holdfast.state.nominations import Nominations

_SEEN_AT_ONCE: Final = 100  # nodes, in about 5 ms

Nodes = tuple[NodeView, ...]
Pods = tuple[PodView, ...]


class _Expected(NamedTuple):
    node: NodeView
    pods: list[PodView]  # that are on their way to it
    both: NodeView


class Expecting:
    def __init__(self, nominations: Nominations, *, clock: Clock) -> None:
        self._nominations = nominations
        self._clock = clock
        self._expected: dict[str, _Expected] = {}  # by node
        self._pending: tuple[Pods, dict[str, PodView]] = (), {}  # by uid too

    async def see_changed(self, nodes: Nodes, pending: Pods) -> None:
        """What `applied` will want to know: a few nodes at a time, with others running in between."""
        if not len(self._nominations):
            return
        for number, (node, pods) in enumerate(self._grouped(nodes, pending)):
            if number % _SEEN_AT_ONCE == 0:
                await self._clock.sleep(0)
            self._expected[node.name] = self._with(node, pods)
        await self._clock.sleep(0)

    def applied(self, world: Snapshot) -> Snapshot:
        """The world with pods where they are on their way to."""
        if not len(self._nominations):
            return world
        grouped = self._grouped(world.nodes, world.pending)
        self._expected = {node.name: self._with(node, pods) for node, pods in grouped}
        known, promised = self._expected, {uid for uid, _ in self._nominations}
        return dataclasses.replace(
            world,
            nodes=tuple(known[node.name].both if node.name in known else node for node in world.nodes),
            pending=tuple(pod for pod in world.pending if pod.uid not in promised),
        )

    def _grouped(self, nodes: Nodes, pending: Pods) -> list[tuple[NodeView, list[PodView]]]:
        """Nodes with the pods that are on their way to them, without promises that are void."""
        by_place = {place: node for node in nodes for place in (node.name, node.claim) if place}

        def is_to_come(place: str) -> bool | None:
            node = by_place.get(place)
            return None if node is None or node.deleting else not node.initialized

        if self._pending[0] is not pending:
            self._pending = pending, {pod.uid: pod for pod in pending}
        by_uid = self._pending[1]
        displaced = {pod.uid: pod for node in nodes if node.deleting for pod in node.pods}
        expected = ChainMap(by_uid, displaced)  # a union would copy every pending pod
        self._nominations.keep(expected, is_to_come)
        found: dict[str, tuple[NodeView, list[PodView]]] = {}
        for uid, place in self._nominations:
            node = by_place[place]
            pods = found.setdefault(node.name, (node, []))[1]
            if uid in by_uid:
                pods.append(by_uid[uid])
        return list(found.values())

    def _with(self, node: NodeView, pods: list[PodView]) -> _Expected:
        """With as many of them as it has room for."""
        known = self._expected.get(node.name)
        if known is not None and known.node is node and known.pods == pods:
            return known
        if not resources.add(*(pod.shape.requests for pod in pods)).fits(node.free):
            pods = list(self._that_fit(node.free, pods))
            if not pods:
                return _Expected(node, pods, node)
        with_them = tuple(sorted((*node.pods, *pods), key=lambda pod: pod.full_name))
        return _Expected(node, pods, dataclasses.replace(node, nominated=True, pods=with_them))

    def _that_fit(self, room: Resources, pods: list[PodView]) -> Iterator[PodView]:
        for pod in sorted(pods, key=lambda pod: pod.full_name):
            if pod.shape.requests.fits(room):
                room = room.subtract(pod.shape.requests)
                yield pod
            else:
                self._nominations.forget(pod.uid)
