"""reservations.slot_status: writes the slots of reservations to the status of node classes and NodePools.

Runs every 15 s under one key, so each object is written at most that often, and only if it changed. It reads what the
other controllers have read: no call to the cloud is made for it. Slots change all the time, so a change of them triggers
no other controller (api.reservation_slots). A Conflict is left to the next run.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from holdfast import errors, names
from holdfast.api.meta import Object, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.controllers.reservations.usable_slots import UsableSlots
from holdfast.ports import Ports
from holdfast.runtime.cache import Cache, Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion.slot_status import SlotReport

KEY: Final[Key] = ("", "slot-status")
PERIOD_S: Final = 15.0
_SLOTS: Final = "reservationSlots"
_BY_CAPACITY_TYPE: Final = "nodesByCapacityType"


class SlotStatus:
    name: Final = "reservations.slot_status"

    def __init__(self, *, cluster_state: ClusterState, caches: Caches, ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._compute = ports.compute
        self._cloud = ports.cloud
        self._kube = ports.kube
        self._clock = ports.clock
        self._classes = caches.of(ports.cloud.node_classes.kind)
        self._pools = caches.of(NodePool)
        self._nodes = NodeCounts(caches.of(NodeClaim), ports.cloud.labels.reservation_id)
        self._usable_slots = UsableSlots(ports.cloud.labels.well_known)
        # Fields that the API server dropped, by uid: the CRD of an earlier release does not have them.
        self._dropped: dict[str, Mapping[str, Any]] = {}

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        slots = await self._cluster_state.last_slots()
        report, wrote = None, 0
        if slots is not None:
            found = await self._compute.run(self._cluster_state.ledger_of, slots)
            report = SlotReport(found, self._cloud.list_prices(), slots.taken_s)
            for node_class in tuple(self._classes):
                of_class = report.of_class(self._cloud.selected_reservations(node_class))
                wrote += await self._write(node_class, {_SLOTS: of_class})
        for pool in tuple(self._pools):
            if self._cluster_state.is_ours(pool.spec.template.spec.node_class_ref):
                wrote += await self._write(pool, await self._of_pool(pool, report))
                await self._clock.sleep(0)  # many NodePools must not delay other controllers
        self._forget()
        return RequeueAfter(PERIOD_S, "next report of slots", f"updated {wrote} objects" if wrote else "")

    async def _of_pool(self, pool: NodePool, report: SlotReport | None) -> dict[str, Any]:
        """Without the slots if they are unknown: the last ones stay."""
        name = pool.metadata.name
        fields: dict[str, Any] = {_BY_CAPACITY_TYPE: dict(self._nodes.by_capacity_type(name)) or None}
        usable = await self._usable(pool)
        if report is not None and usable is not None:
            fields[_SLOTS] = report.of_pool(usable, self._nodes.in_reservations(name))
        return fields

    async def _usable(self, pool: NodePool) -> Collection[str] | None:
        """The reservations that the class of a NodePool selects and its requirements allow; None if it is unknown."""
        node_class = self._cluster_state.node_class(pool.spec.template.spec.node_class_ref)
        selected = self._cloud.selected_reservations(node_class) if node_class is not None else ()
        if node_class is None or not selected:
            return ()
        try:
            types = await self._cloud.instance_types(node_class)
            return self._usable_slots.of(pool, types).keys() & set(selected)
        except errors.HoldfastError:
            return None

    async def _write(self, obj: Object, fields: Mapping[str, Any]) -> bool:
        wanted = msgspec.to_builtins(fields)
        there = _status(obj, wanted)
        is_ending = obj.metadata.deletion_timestamp is not None
        if is_ending or there == wanted or self._dropped.get(obj.metadata.uid) == wanted:
            return False
        patch = {key: _merge(there[key], value) for key, value in wanted.items() if there[key] != value}
        try:
            answer = await self._kube.patch(obj, {"status": patch}, status=True, only_if_unchanged=True)
        except (errors.Conflict, errors.NotFound):
            return False
        if _status(answer, wanted) == wanted:
            self._dropped.pop(obj.metadata.uid, None)
        else:
            self._dropped[obj.metadata.uid] = wanted
        return True

    def _forget(self) -> None:
        """Forgets deleted objects."""
        uids = {one.metadata.uid for one in self._classes} | {one.metadata.uid for one in self._pools}
        self._dropped = {uid: fields for uid, fields in self._dropped.items() if uid in uids}
        self._usable_slots.keep(uids)


class NodeCounts:
    """How many nodes each NodePool has, by capacity type and by reservation: launched, and not deleting. Counted as
    NodeClaims change, because the status is reported every 15 s and few of them do."""

    def __init__(self, claims: Cache[NodeClaim], reservation_label: str | None) -> None:
        self._label = reservation_label or ""
        self._counts: Counter[tuple[str, str, str]] = Counter()  # by NodePool, capacity type and reservation
        for claim in claims:
            self._on_claim(None, claim)
        claims.subscribe(self._on_claim)

    def by_capacity_type(self, pool: str) -> Counter[str]:
        return self._sums(pool, 1)

    def in_reservations(self, pool: str) -> Counter[str]:
        return self._sums(pool, 2)

    def _sums(self, pool: str, by: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for key, count in self._counts.items():
            if key[0] == pool:
                found[key[by]] += count
        return found

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        for claim, change in ((after, 1), (before, -1)):
            if claim is None or not claim.status.provider_id or claim.metadata.deletion_timestamp is not None:
                continue
            labels = claim.metadata.labels
            key = (
                labels.get(names.NODEPOOL, ""),
                labels.get(names.CAPACITY_TYPE, ""),
                labels.get(self._label, ""),
            )
            self._counts[key] += change
            if not self._counts[key]:
                del self._counts[key]


def _status(obj: Object, fields: Iterable[str]) -> dict[str, Any]:
    """These fields of the status; None if it does not have them."""
    status = to_wire(obj).get("status", {})
    return {key: status.get(key) for key in fields}


def _merge(there: Any, wanted: Any) -> Any:
    """The merge patch from one value to the other: a field that is left out must be null."""
    if not isinstance(there, dict) or not isinstance(wanted, dict):
        return wanted
    return dict.fromkeys(there) | wanted
