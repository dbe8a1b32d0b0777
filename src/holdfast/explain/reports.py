"""Builds the documents that list things: status, reservations, nodes, pending pods, decisions, the plan, search results.

No document calls AWS or the API server: it is built from the caches and the last readings. Long loops yield to the event
loop. `answers` builds the explanations of single objects.
"""

import functools
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast import names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.api.reports import (
    Costs,
    DecisionRow,
    DecisionsReport,
    LastHour,
    NodeGroup,
    NodeRow,
    NodesReport,
    PendingGroup,
    PendingReport,
    PlannedNode,
    PlanReport,
    ReservationRow,
    ReservationsReport,
    SearchHit,
    SearchReport,
    SlotsReport,
    StatusReport,
)
from holdfast.api.scheduling import PodGroup
from holdfast.api.workloads import JobTimes
from holdfast.core.reservations.ledger import Entry
from holdfast.explain import claims, inventory, pods, reservations
from holdfast.explain.idle_history import IdleHistory
from holdfast.explain.inventory import Inventory, paid_nano, usd
from holdfast.explain.pods import PodInput
from holdfast.explain.sources import Sources
from holdfast.model.decisions import Decision, DecisionType
from holdfast.model.gangs import LABELLED
from holdfast.runtime import decision_log, indexes
from holdfast.state.cluster.node_prices import NodePrices, Prices
from holdfast.state.conversion import times

GROUPS_MAX: Final = 500
_PENDING_GROUPS_MAX: Final = 100
_STATUS_GROUPS_MAX: Final = 10
_EXAMPLES_MAX: Final = 5
_LAUNCHING_MAX: Final = 100
_SEARCHED_AT_ONCE: Final = 2_000
_GROUPED_AT_ONCE: Final = 500
_HITS_MAX: Final = 50
_RESERVATIONS_AGE_S: Final = 2.0  # how long a list of reservations is reused
_HOUR_S: Final = 3600
_SEARCHED: Final[tuple[type[Object], ...]] = (JobTimes, PodGroup, ProvisioningRequest)

# How many nodes have the same capacity type, zone, NodePool and instance type.
_Kinds = Counter[tuple[str, str, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeQuery:
    search: str = ""
    capacity_type: str = ""
    zone: str = ""
    node_pool: str = ""
    reservation: str = ""
    state: str = ""
    limit: int = 100
    offset: int = 0

    def select(self, rows: Iterable[NodeRow]) -> list[NodeRow]:
        found = list(rows)
        for name in ("capacity_type", "zone", "node_pool", "reservation", "state"):
            if wanted := getattr(self, name):
                found = [row for row in found if getattr(row, name) == wanted]
        if text := self.search:
            found = [
                row
                for row in found
                if text in row.name
                or text in row.node_claim
                or text in row.instance_type
                or text in row.reservation
            ]
        return found


class Reports:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._caches = sources.caches
        self._cluster_state = sources.cluster_state
        self._clock = sources.clock
        self.inventory = Inventory(sources.caches, sources.cloud.labels.reservation_id, sources.clock)
        self.idle = IdleHistory()
        self._pods_by_uid = sources.caches.of(Pod).index(indexes.by_uid)
        self._listed: tuple[float, ReservationsReport] | None = None  # when it was built
        self._prices = NodePrices(sources.cluster_state, sources.cloud)

    # --- Reservations -----------------------------------------------------------------------------------

    async def reservations(self) -> ReservationsReport:
        now = self._clock.monotonic_s()
        if self._listed is None or now - self._listed[0] >= _RESERVATIONS_AGE_S:
            self._listed = (now, await self._reservations())
        return self._listed[1]

    async def _reservations(self) -> ReservationsReport:
        snapshot, now_s = await self._cluster_state.last_slots(), self._clock.now_s()
        entries: Mapping[str, Entry] = {}
        if snapshot is not None:
            entries = await self._sources.compute.run(self._cluster_state.ledger_of, snapshot)
        rows = reservations.rows(entries, self._selected_by(), self.prices(), now_s)
        nano = sum(round((row.idle_usd_per_hour or 0) * 1e9) for row in rows)
        return ReservationsReport(
            at=now_s,
            counted_at=snapshot.counts_read_s if snapshot is not None else 0,
            items=rows,
            idle_usd_per_hour=usd(nano),
            without_price=sum(row.idle_usd_per_hour is None for row in rows),
            idle_usd_day=usd(self.idle.nano_usd),
            idle_since=self.idle.since_s,
            computed=self._sources.computed,
        )

    async def sample(self) -> None:
        """Adds what idle slots cost now to the history."""
        report = await self.reservations()
        self.idle.add(report.at, round(report.idle_usd_per_hour * 1e9))

    def _selected_by(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for node_class in self._caches.of(self._sources.cloud.node_classes.kind):
            for id_ in self._sources.cloud.selected_reservations(node_class, upcoming=True):
                found[id_].append(node_class.metadata.name)
        return {id_: sorted(classes) for id_, classes in found.items()}

    async def slots(self, ids: Iterable[str]) -> SlotsReport:
        await self.inventory.see_changed()
        snapshot = await self._cluster_state.last_slots()
        claims_, instances = ((), ()) if snapshot is None else (snapshot.claims, snapshot.instances)
        by_instance = {one.provider_id: one.name for one in claims_ if one.provider_id}
        uses = reservations.uses(frozenset(ids), instances, self.inventory.rows(), by_instance)
        return SlotsReport(at=self._clock.now_s(), items=uses)

    # --- Nodes ------------------------------------------------------------------------------------------

    def prices(self) -> Prices:
        return self._prices.current()

    async def nodes(self, query: NodeQuery) -> NodesReport:
        await self.inventory.see_changed()
        found = query.select(self.inventory.rows())
        page = found[query.offset : query.offset + query.limit]
        items = tuple(self.inventory.shown(page, self.prices()))
        return NodesReport(at=self._clock.now_s(), total=len(found), items=items)

    # --- Pods -------------------------------------------------------------------------------------------

    def pod_input(self, pod: Pod) -> PodInput:
        """What the caches and the last plan have about a pod."""
        plan, uid = self._cluster_state.reasons.plan, pod.metadata.uid
        target = self._cluster_state.nominations.target_of(uid) or ""
        claim = self.claim_of(pod.spec.node_name or target)
        return PodInput(
            pod=pod,
            now_s=self._clock.now_s(),
            unplaced=plan.unplaced.get(uid) if plan is not None else None,
            planned=plan.claims.get(uid) if plan is not None else None,
            planned_s=plan.at_s if plan is not None else None,
            target=target,
            claim=claim,
            row=self.inventory.of_claim(claim.metadata.name) if claim is not None else None,
            gang=self._cluster_state.gang_of(pod),
        )

    def claim_of(self, target: str) -> NodeClaim | None:
        """Of the name of a Node or a NodeClaim."""
        if not target:
            return None
        found = self._caches.of(NodeClaim).get(("", target))
        return found if found is not None else self.inventory.claim_of_node(target)

    def pod_names(self, uid: str) -> list[str]:
        """namespace/name; empty if the pod is deleted."""
        return [_full_name(pod) for pod in self._pods_by_uid.get(uid)]

    async def pending(self) -> PendingReport:
        await self.inventory.see_changed()
        found: dict[tuple[str, str], list[Pod]] = {}
        waiting = list(self.inventory.waiting())
        plan, nominations = self._cluster_state.reasons.plan, self._cluster_state.nominations
        now_s = self._clock.now_s()
        for number, pod in enumerate(waiting, start=1):
            uid = pod.metadata.uid
            unplaced = plan.unplaced.get(uid) if plan is not None else None
            planned = plan.claims.get(uid) if plan is not None else None
            target = nominations.target_of(uid) or ""
            known = PodInput(pod, now_s, unplaced, planned=planned, target=target)
            found.setdefault(pods.group(known), []).append(pod)
            if number % _GROUPED_AT_ONCE == 0:
                await self._clock.sleep(0)
        largest = heapq.nlargest(_PENDING_GROUPS_MAX, found.items(), key=lambda one: (len(one[1]), one[0]))
        return PendingReport(
            at=now_s, total=len(waiting), groups=tuple(_group(*key, of) for key, of in largest)
        )

    # --- The rest ---------------------------------------------------------------------------------------

    async def status(self) -> StatusReport:
        await self.inventory.see_changed()
        process, plan = self._sources.process, self._cluster_state.reasons.plan
        listed, pending = await self.reservations(), await self.pending()
        rows, prices = self.inventory.rows(), self.prices()
        kinds = _kinds(rows)
        states = Counter(row.state for row in rows if row.node_claim)
        return StatusReport(
            at=self._clock.now_s(),
            version=process.version,
            cluster=process.cluster,
            kubernetes_version=process.kubernetes_version(),
            leader=process.name,
            leading_since=process.leading_since_s(),
            problem=process.problem(),
            nodes=len(self._caches.of(Node)),
            launching=states[inventory.LAUNCHING] + states[inventory.STARTING],
            draining=states[inventory.DRAINING],
            groups=tuple(_node_groups(kinds, prices)),
            pods=len(self._caches.of(Pod)),
            pending=pending.total,
            pending_groups=pending.groups[:_STATUS_GROUPS_MAX],
            costs=_costs(kinds, prices, listed),
            last_hour=self._last_hour(),
            failing=process.failing(),
            planned_at=plan.at_s if plan is not None else None,
            gangs=sum(gang.is_waiting for gang in self._cluster_state.gangs()),
            reservations=len(listed.items),
            slots=sum(row.total for row in listed.items if row.window != "ended"),
            slots_used=sum(row.here for row in listed.items),
            slots_free=sum(row.free for row in listed.items),
            computed=self._sources.computed,
        )

    def _last_hour(self) -> LastHour:
        count = functools.partial(self._sources.decisions.count, within_s=_HOUR_S)
        return LastHour(
            launches=count(DecisionType.LAUNCHED),
            launch_failures=count(DecisionType.LAUNCH_FAILED),
            disruptions=count(DecisionType.DISRUPTION),
            removals=count(DecisionType.REMOVAL),
            interruptions=count(DecisionType.INTERRUPTION),
        )

    def decisions(self, *, after: int = 0, limit: int = 100, search: str = "") -> DecisionsReport:
        now_s = self._clock.now_s()
        kept = self._sources.decisions.newest(decision_log.MAX if search else limit, after)
        found = (one for one in kept if search in one.text or search in one.name)
        items = tuple(row(one) for _, one in zip(range(limit), found, strict=False))
        return DecisionsReport(at=now_s, since=self._sources.decisions.since_s, items=items)

    async def plan(self) -> PlanReport:
        await self.inventory.see_changed()
        plan, nominations = self._cluster_state.reasons.plan, self._cluster_state.nominations
        by_target: defaultdict[str, list[str]] = defaultdict(list)
        for uid, target in nominations:
            by_target[target].append(uid)
        launching = [
            one for one in self.inventory.rows() if one.state in (inventory.LAUNCHING, inventory.STARTING)
        ]
        shown = tuple(self._planned(one, by_target[one.node_claim]) for one in launching[:_LAUNCHING_MAX])
        return PlanReport(
            at=self._clock.now_s(),
            planned_at=plan.at_s if plan is not None else None,
            usd_per_hour=usd(plan.price_nano_usd_per_hour) if plan is not None else 0.0,
            first_fit_usd_per_hour=usd(plan.baseline_nano_usd_per_hour) if plan is not None else 0.0,
            launching=shown,
            more_launching=len(launching) - len(shown),
            nominated=len(nominations),
        )

    def _planned(self, one: NodeRow, uids: list[str]) -> PlannedNode:
        found = [name for uid in uids[:_EXAMPLES_MAX] for name in self.pod_names(uid)]
        return PlannedNode(
            node_claim=one.node_claim,
            pods=tuple(found),
            pod_count=len(uids),
            text=claims.offering(one, self._caches.of(NodeClaim).get(("", one.node_claim))),
        )

    async def search(self, text: str) -> SearchReport:
        await self.inventory.see_changed()
        hits: list[SearchHit] = []
        for looked, hit in enumerate(self._searched(text.lower()), start=1):
            if hit is not None:
                hits.append(hit)
            if len(hits) > _HITS_MAX:
                break
            if looked % _SEARCHED_AT_ONCE == 0:
                await self._clock.sleep(0)
        return SearchReport(at=self._clock.now_s(), items=tuple(hits[:_HITS_MAX]), more=len(hits) > _HITS_MAX)

    def _searched(self, text: str) -> Iterator[SearchHit | None]:
        """One value for each object: a hit, or None. Names of objects are lower case."""
        for one in self._cluster_state.reservations:
            about = f"{one.instance_type} in {one.zone}"
            yield SearchHit(kind="reservation", name=one.id, text=about) if text in one.id else None
        for pool in list(self._caches.of(NodePool)):
            name = pool.metadata.name
            yield SearchHit(kind="nodepool", name=name) if text in name else None
        for row_ in self.inventory.rows():
            is_hit = text in row_.name or text in row_.node_claim
            kind = "node" if row_.name != row_.node_claim else "nodeclaim"
            yield SearchHit(kind=kind, name=row_.name, text=claims.offering(row_)) if is_hit else None
        for cache in filter(None, map(self._caches.find, _SEARCHED)):
            for obj in list(cache):
                meta = obj.metadata
                is_hit = text in meta.name or text in f"{meta.namespace}/{meta.name}"
                hit = SearchHit(kind=obj.kind.lower(), namespace=meta.namespace, name=meta.name)
                yield hit if is_hit else None
        for gang in self._cluster_state.gangs():
            if gang.source in LABELLED:
                namespace, _, name = gang.name.partition("/")
                hit = SearchHit(kind=gang.source.lower(), namespace=namespace, name=name)
                yield hit if text in gang.name else None
        for pod in list(self._caches.of(Pod)):
            meta = pod.metadata
            if text not in meta.name and text not in f"{meta.namespace}/{meta.name}":
                yield None
                continue
            about = pod.spec.node_name or "pending"
            yield SearchHit(kind="pod", namespace=meta.namespace, name=meta.name, text=about)


def row(one: Decision) -> DecisionRow:
    return DecisionRow(
        id=one.id,
        at=one.at_s,
        type=one.type,
        kind=one.kind,
        namespace=one.namespace,
        name=one.name,
        text=one.text,
        reasons=one.reasons,
    )


def _full_name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _group(code: str, text: str, of: list[Pod]) -> PendingGroup:
    created = [times.epoch_s_or_none(pod.metadata.creation_timestamp) for pod in of]
    return PendingGroup(
        code=code,
        text=text,
        pods=len(of),
        examples=tuple(sorted(map(_full_name, of[:_EXAMPLES_MAX]))),
        oldest=min((at for at in created if at is not None), default=None),
    )


def _kinds(rows: Iterable[NodeRow]) -> _Kinds:
    return Counter(
        (row.capacity_type, row.zone, row.node_pool, row.instance_type)
        for row in rows
        if row.node_claim and row.capacity_type
    )


def _node_groups(kinds: _Kinds, prices: Prices) -> Iterator[NodeGroup]:
    counts: Counter[tuple[str, str, str]] = Counter()
    nano: Counter[tuple[str, str, str]] = Counter()
    for (capacity_type, zone, pool, instance_type), number in kinds.items():
        key = (capacity_type, zone, pool)
        counts[key] += number
        nano[key] += number * (paid_nano(prices, capacity_type, instance_type, zone) or 0)
    for key in sorted(counts)[:GROUPS_MAX]:
        capacity_type, zone, pool = key
        yield NodeGroup(
            capacity_type=capacity_type,
            zone=zone,
            node_pool=pool,
            nodes=counts[key],
            usd_per_hour=usd(nano[key]),
        )


def _costs(kinds: _Kinds, prices: Prices, listed: ReservationsReport) -> Costs:
    nano: Counter[str] = Counter()
    unknown = 0
    for (capacity_type, zone, _, instance_type), number in kinds.items():
        price = prices.nano(capacity_type, instance_type, zone)
        nano[capacity_type] += number * (price or 0)
        unknown += number if price is None else 0
    return Costs(
        on_demand=usd(nano[names.ON_DEMAND]),
        spot=usd(nano[names.SPOT]),
        reserved=usd(nano[names.RESERVED]),
        idle=listed.idle_usd_per_hour,
        unknown_nodes=unknown,
    )


def reservation_row(report: ReservationsReport, id_: str) -> ReservationRow | None:
    return next((one for one in report.items if one.id == id_), None)
