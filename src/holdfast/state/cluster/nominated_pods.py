"""Adds nominated pods to the nodes of a snapshot, as if they were bound.

A nominated pod is not planned again, and other pods are planned onto the capacity that is left. If kube-scheduler bound
another pod to that capacity, the nomination is removed. A node with the same nominated pods as in the last snapshot
stays the same object. A pod of a draining node stays on its node until it is evicted, so every plan includes it; the
node that the last plan chose for it is nominated. Otherwise emptiness would delete that node during the drain, and the
next plan would launch it again.

kube-scheduler binds the members of a gang together, so those on nodes that are ready wait for the node that is ready
last. Until then their nominations do not end: emptiness would delete the nodes that are ready (PG-10).
"""

import dataclasses
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.model import resources
from holdfast.model.gangs import Gang
from holdfast.model.pods import PodView
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodeView, Snapshot
from holdfast.ports import Clock
from holdfast.state.cluster.nominations import Nominations

_BATCH: Final = 100  # nodes, in about 5 ms

Nodes = tuple[NodeView, ...]
Pods = tuple[PodView, ...]


class _WithPods(NamedTuple):
    node: NodeView
    pods: list[PodView]  # nominated to the node
    both: NodeView


class NominatedPods:
    def __init__(self, nominations: Nominations, *, clock: Clock) -> None:
        self._nominations = nominations
        self._clock = clock
        self._with_pods: dict[str, _WithPods] = {}  # by node
        self._nodes: Nodes = ()
        self._by_name: dict[str, NodeView] = {}  # of `_nodes`, by node and by NodeClaim
        self._are_unique = True  # whether no two nodes of `_by_name` share a name
        self._displaced: dict[str, PodView] = {}  # by uid, of deleting nodes of `_nodes`
        self._pending: tuple[Pods, dict[str, PodView]] = (), {}  # and the same pods by uid

    async def refresh(self, nodes: Nodes, pending: Pods, gangs: tuple[Gang, ...] = ()) -> None:
        """Prepares `applied`, a few nodes at a time, so that the event loop is not blocked."""
        if not len(self._nominations):
            return
        for number, (node, pods) in enumerate(self._grouped(nodes, pending, gangs)):
            if number % _BATCH == 0:
                await self._clock.sleep(0)
            self._with_pods[node.name] = self._with(node, pods)
        await self._clock.sleep(0)

    def applied(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with nominated pods on their nodes."""
        if not len(self._nominations):
            return snapshot
        grouped = self._grouped(snapshot.nodes, snapshot.pending, snapshot.gangs)
        self._with_pods = {node.name: self._with(node, pods) for node, pods in grouped}
        # Ids are compared without a look at the nodes.
        both = {id(one.node): one.both for one in self._with_pods.values()}
        nominated = {uid for uid, _ in self._nominations}
        return dataclasses.replace(
            snapshot,
            nodes=tuple([both.get(id(node), node) for node in snapshot.nodes]),
            pending=tuple(pod for pod in snapshot.pending if pod.uid not in nominated),
            gangs=tuple(gang.with_nominated(nominated) for gang in snapshot.gangs),
        )

    def _grouped(
        self, nodes: Nodes, pending: Pods, gangs: tuple[Gang, ...]
    ) -> list[tuple[NodeView, list[PodView]]]:
        """Nodes with the pods that are nominated to them. Void nominations are removed."""
        by_name = self._by_target(nodes)

        def is_starting(target: str) -> bool | None:
            node = by_name.get(target)
            return None if node is None or node.deleting else not node.initialized

        if self._pending[0] is not pending:
            self._pending = pending, {pod.uid: pod for pod in pending}
        by_uid = self._pending[1]
        expected = ChainMap(by_uid, self._displaced)  # a union would copy every pending pod
        self._nominations.keep(expected, is_starting, self._waiting_members(gangs, is_starting))
        found: dict[str, tuple[NodeView, list[PodView]]] = {}
        for uid, target in self._nominations:
            node = by_name[target]
            pods = found.setdefault(node.name, (node, []))[1]
            if uid in by_uid:
                pods.append(by_uid[uid])
        return list(found.values())

    def _by_target(self, nodes: Nodes) -> Mapping[str, NodeView]:
        """The nodes by their names and the names of their NodeClaims. Computed again only if the nodes changed: two
        calls for one snapshot, and many snapshots in a row, have the same."""
        if self._nodes is not nodes:
            new, old = _others(nodes, self._nodes), _others(self._nodes, nodes)
            self._index(nodes, new, old)
            if any(node.deleting for node in (*new, *old)):
                self._displaced = {pod.uid: pod for node in nodes if node.deleting for pod in node.pods}
            self._nodes = nodes
        return self._by_name

    def _index(self, nodes: Nodes, new: list[NodeView], old: list[NodeView]) -> None:
        """`new`: the nodes that were not there; `old`: those that are not there any more."""
        if self._are_unique:
            for target in _targets(old):
                del self._by_name[target]
            count, added = len(self._by_name), _targets(new)
            self._by_name |= added
            self._are_unique = len(self._by_name) == count + len(added) and len(added) == _count(new)
        if not self._are_unique:  # the last node of a name counts
            self._by_name = _targets(nodes)
            self._are_unique = len(self._by_name) == _count(nodes)

    def _waiting_members(
        self, gangs: tuple[Gang, ...], is_starting: Callable[[str], bool | None]
    ) -> frozenset[str]:
        """The nominated members of gangs of which a node is not ready yet, and of booked gangs."""
        found: set[str] = set()
        for gang in gangs:
            targets = {pod: target for pod in gang.unbound if (target := self._nominations.target_of(pod))}
            if gang.booked or any(is_starting(target) for target in targets.values()):
                found |= targets.keys()
        return frozenset(found)

    def _with(self, node: NodeView, pods: list[PodView]) -> _WithPods:
        """The node with as many of the pods as fit."""
        known = self._with_pods.get(node.name)
        if known is not None and known.node is node and known.pods == pods:
            return known
        if not resources.add(*(pod.shape.requests for pod in pods)).fits(node.free):
            pods = list(self._fitting(node.free, pods))
            if not pods:
                return _WithPods(node, pods, node)
        with_them = tuple(sorted((*node.pods, *pods), key=lambda pod: pod.full_name))
        return _WithPods(node, pods, dataclasses.replace(node, nominated=True, pods=with_them))

    def _fitting(self, free: Resources, pods: list[PodView]) -> Iterator[PodView]:
        for pod in sorted(pods, key=lambda pod: pod.full_name):
            if pod.shape.requests.fits(free):
                free = free.subtract(pod.shape.requests)
                yield pod
            else:
                self._nominations.remove(pod.uid)


def _others(nodes: Nodes, known: Nodes) -> list[NodeView]:
    """The nodes that are not among the known ones. Ids are compared without a look at the nodes."""
    ids = set(map(id, known))
    return [node for node in nodes if id(node) not in ids]


def _targets(nodes: Iterable[NodeView]) -> dict[str, NodeView]:
    return {target: node for node in nodes for target in (node.name, node.claim) if target}


def _count(nodes: Iterable[NodeView]) -> int:
    """How many names they have, if no two nodes share one."""
    return sum(len({node.name, node.claim} - {None, ""}) for node in nodes)
