"""Nodes and waiting pods as rows, updated as objects change, so that a report does not read the whole cluster.

A row is built again only when its NodeClaim or Node changed. Prices are looked up when a row is shown.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.reports import NodeRow
from holdfast.ports import Clock
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.node_prices import Prices
from holdfast.state.conversion import claims, pod_states, times

LAUNCHING: Final = "launching"
STARTING: Final = "starting"
READY: Final = "ready"
NOT_READY: Final = "not ready"
DRAINING: Final = "draining"
_WAITING: Final = "waiting"
_BUILT_AT_ONCE: Final = 500  # rows, in about 5 ms
_NANO: Final = 1_000_000_000


def paid_nano(prices: Prices, capacity_type: str, instance_type: str, zone: str) -> int | None:
    """What a node costs in addition to reservations: 0 in a slot. None: unknown."""
    return 0 if capacity_type == names.RESERVED else prices.nano(capacity_type, instance_type, zone)


def usd(nano: int) -> float:
    return round(nano / _NANO, 6)


class Inventory:
    def __init__(self, caches: Caches, reservation_label: str | None, clock: Clock) -> None:
        self._clock = clock
        self._claims, self._nodes, self._pods = caches.of(NodeClaim), caches.of(Node), caches.of(Pod)
        self._reservation_label = reservation_label
        self._nodes_by_provider_id = self._nodes.index(indexes.by_provider_id)
        self._claims_by_provider_id = self._claims.index(indexes.by_provider_id)
        self._pods_by_node = self._pods.index(indexes.by_node)
        self._waiting = self._pods.index(_waits)
        self._rows: dict[str, NodeRow] = {}  # of NodeClaims
        self._others: dict[str, NodeRow] = {}  # of Nodes without a NodeClaim
        self._changed = dict.fromkeys(one.metadata.name for one in self._claims)
        self._changed_nodes = dict.fromkeys(one.metadata.name for one in self._nodes)
        self._sorted: tuple[NodeRow, ...] | None = None
        self.version = 0  # changes when a row or a waiting pod changes
        self._claims.subscribe(self._on_claim)
        self._nodes.subscribe(self._on_node)
        self._pods.subscribe(self._on_pod)

    # --- Readers --------------------------------------------------------------------------------------

    async def see_changed(self) -> None:
        """Builds changed rows in batches: all rows of a large cluster at once would block the event loop."""
        while self._changed or self._changed_nodes:
            self._refresh(_BUILT_AT_ONCE)
            await self._clock.sleep(0)

    def rows(self) -> tuple[NodeRow, ...]:
        """All nodes, sorted by name. The same tuple is returned until one changes."""
        self._refresh()
        if self._sorted is None:
            found = (*self._rows.values(), *self._others.values())
            self._sorted = tuple(sorted(found, key=lambda row: row.name))
        return self._sorted

    def of_claim(self, name: str) -> NodeRow | None:
        self._refresh()
        return self._rows.get(name)

    def of_node(self, name: str) -> NodeRow | None:
        """Of a Node, with or without a NodeClaim."""
        self._refresh()
        if name in self._others:
            return self._others[name]
        claim = self.claim_of_node(name)
        return self._rows.get(claim.metadata.name) if claim is not None else None

    def claim_of_node(self, name: str) -> NodeClaim | None:
        node = self._nodes.get(("", name))
        provider_id = node.spec.provider_id if node is not None else ""
        return next(iter(self._claims_by_provider_id.get(provider_id)), None) if provider_id else None

    def waiting(self) -> Iterable[Pod]:
        """Pods that are not bound and not deleted. Do not await while iterating."""
        return self._waiting.get(_WAITING)

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self._pods_by_node.get(node) if not pod_states.is_terminal(pod)]

    def shown(self, rows: Iterable[NodeRow], prices: Prices) -> Iterator[NodeRow]:
        """The rows with their pods and prices."""
        for row in rows:
            nano = paid_nano(prices, row.capacity_type, row.instance_type, row.zone)
            yield msgspec.structs.replace(
                row, pods=len(self.pods_on(row.name)), usd_per_hour=None if nano is None else usd(nano)
            )

    # --- What changed ---------------------------------------------------------------------------------

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        for claim in (before, after):
            if claim is not None:
                self._changed[claim.metadata.name] = None
                for node in self._nodes_by_provider_id.get(claim.status.provider_id or ""):
                    self._changed_nodes[node.metadata.name] = None
        self.version += 1

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        """A heartbeat changes the Node every few seconds, and nothing that a row shows."""
        if before is not None and after is not None and _shown(before) == _shown(after):
            return
        for node in (before, after):
            if node is not None:
                self._changed_nodes[node.metadata.name] = None
                for claim in self._claims_by_provider_id.get(node.spec.provider_id):
                    self._changed[claim.metadata.name] = None
        self.version += 1

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        waited, waits = before is not None and _waits(before), after is not None and _waits(after)
        if waited or waits or before is None or after is None:
            self.version += 1

    def _refresh(self, most: int | None = None) -> None:
        """Builds the rows that changed, or at most this many of them."""
        for changed, refresh in (
            (self._changed, self._refresh_claim),
            (self._changed_nodes, self._refresh_node),
        ):
            for name in list(itertools.islice(changed, most)):
                del changed[name]
                self._sorted = None
                refresh(name)

    def _refresh_claim(self, name: str) -> None:
        claim = self._claims.get(("", name))
        if claim is None:
            self._rows.pop(name, None)
        else:
            self._rows[name] = self._claim_row(claim)

    def _refresh_node(self, name: str) -> None:
        node = self._nodes.get(("", name))
        if node is None or any(self._claims_by_provider_id.get(node.spec.provider_id)):
            self._others.pop(name, None)
        else:
            self._others[name] = _node_row(node)

    def _claim_row(self, claim: NodeClaim) -> NodeRow:
        meta, labels = claim.metadata, claim.metadata.labels
        node = next(iter(self._nodes_by_provider_id.get(claim.status.provider_id or "")), None)
        used = labels.get(self._reservation_label, "") if self._reservation_label else ""
        return NodeRow(
            name=node.metadata.name if node is not None else meta.name,
            node_claim=meta.name,
            node_pool=labels.get(names.NODEPOOL, ""),
            instance_type=labels.get(names.INSTANCE_TYPE, ""),
            zone=labels.get(names.ZONE, ""),
            capacity_type=labels.get(names.CAPACITY_TYPE, ""),
            reservation=used or claims.held_reservation(meta.annotations) or "",
            state=_state(claim, node),
            created=times.epoch_s_or_none(meta.creation_timestamp),
        )


def _node_row(node: Node) -> NodeRow:
    meta, labels = node.metadata, node.metadata.labels
    return NodeRow(
        name=meta.name,
        instance_type=labels.get(names.INSTANCE_TYPE, ""),
        zone=labels.get(names.ZONE, ""),
        state=DRAINING if meta.deletion_timestamp is not None else _readiness(node),
        created=times.epoch_s_or_none(meta.creation_timestamp),
    )


def _state(claim: NodeClaim, node: Node | None) -> str:
    if claim.metadata.deletion_timestamp is not None:
        return DRAINING
    reached = {one.type for one in claim.status.conditions if one.status == conditions.TRUE}
    if claim_conditions.LAUNCHED not in reached:
        return LAUNCHING
    if claim_conditions.INITIALIZED not in reached or node is None:
        return STARTING
    return _readiness(node)


def _readiness(node: Node) -> str:
    is_ready = any(
        one.type == conditions.READY and one.status == conditions.TRUE for one in node.status.conditions
    )
    return READY if is_ready else NOT_READY


def _shown(node: Node) -> tuple[object, ...]:
    meta = node.metadata
    return meta.labels, meta.deletion_timestamp, node.spec.provider_id, _readiness(node)


def _waits(pod: Pod) -> tuple[str, ...]:
    return (_WAITING,) if not pod.spec.node_name and pod_states.is_active(pod) else ()
