"""Slots that are held for the gang that is first in line, so that smaller gangs and single pods do not take them.

Called by `gangs`. With `Settings.gang_hold_s`, the first gang of a plan that does not fit is planned as far as it fits,
before everything of lower rank. `released` removes these nodes from the plan: nothing is launched for a part of a gang,
and nothing else uses its slots. The hold ends `gang_hold_s` after the creation of the gang. Pods that end before the gang
can start may use the slots: they do not delay it.

A gang that would not fit if every slot were free holds nothing: its slots would be idle for nothing.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from holdfast.core.scheduling.input.request import Settings
from holdfast.core.scheduling.output.plan import Placed, Plan, PlannedClaim
from holdfast.model import requirement, wording
from holdfast.model.gangs import Gang
from holdfast.model.pods import PodView
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.snapshot import NodeView, Snapshot

_NO_FREE_SLOT: Final = (ReasonCode.WAITS_FOR_SLOT, ReasonCode.FULL, ReasonCode.HELD)


@dataclass(frozen=True, slots=True)
class Hold:
    gang: Gang
    pods: frozenset[str]  # members without a node
    in_slots: Requirement  # keeps the members in slots: nothing else is held
    until_s: int
    starts_s: int | None  # when enough nodes in slots are empty, if the run times of their pods are known
    first: frozenset[str]  # pods that may use the slots

    def reason(self, now_s: int) -> Reason:
        text = f"slots that are free or become free are held for it until {wording.moment(self.until_s, now_s)} (UTC)"
        return Reason(ReasonCode.HOLDS_SLOTS, text, (self.gang.name,), self.gang.source)


def may_hold(gang: Gang, snapshot: Snapshot, settings: Settings) -> bool:
    if not settings.gang_hold_s or snapshot.cloud_labels.reservation_id is None:
        return False
    return snapshot.taken_s < _until_s(gang, settings)


def emptied(snapshot: Snapshot) -> Snapshot:
    """The snapshot as if every slot were free: without nodes in slots, and without what the ledger subtracts."""
    in_slots = [
        node
        for node in snapshot.nodes
        if _reservation_id(snapshot, node) is not None and not node.deleting  # its pods are planned
    ]
    names = {node.name for node in in_slots}
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name not in names),
        node_pools=tuple(pool.without(in_slots) for pool in snapshot.node_pools),
        claims=tuple(claim for claim in snapshot.claims if claim.reservation_id is None),
        reservations=tuple(replace(one, available=one.total) for one in snapshot.reservations),
        instances=(),
        count_before={},
    )


def hold(
    gang: Gang, pods: frozenset[str], snapshot: Snapshot, settings: Settings, *, plan: Plan, alone: Plan
) -> Hold:
    """`plan`: has the gang as far as it fits now. `alone`: the plan of the gang for `emptied`."""
    key = snapshot.cloud_labels.reservation_id
    assert key is not None, "`may_hold` checks it"
    used = {claim.reservation_id for claim in alone.claims} - {None}
    in_use = [node for node in snapshot.nodes if _reservation_id(snapshot, node) in used]
    there = sum(not pods.isdisjoint(claim.pods) for claim in plan.claims if claim.reservation_id is not None)
    names = {node.name for node in in_use}
    there += sum(not pods.isdisjoint(one.pods) for one in plan.placed if one.node in names)
    starts_s = _starts_s(in_use, sum(claim.reservation_id is not None for claim in alone.claims) - there)
    ids = sorted(one.id for one in snapshot.reservations)
    early = _early(snapshot, starts_s, snapshot.taken_s + settings.start_estimate_s)
    return Hold(
        gang=gang,
        pods=pods,
        in_slots=requirement.of(key, Operator.IN, ids),
        until_s=_until_s(gang, settings),
        starts_s=starts_s,
        first=frozenset(early) - pods,
    )


def released(plan: Plan, held: Hold, snapshot: Snapshot) -> Plan:
    """The plan without the members. Reasons of other pods name the hold instead of full reservations."""
    free = dict(plan.slots_left)
    claims: list[PlannedClaim] = []
    ids: set[str] = set()
    for claim in plan.claims:
        others = tuple(pod for pod in claim.pods if pod not in held.pods)
        if len(others) < len(claim.pods) and claim.reservation_id is not None:
            ids.add(claim.reservation_id)
        if others:
            claims.append(claim._replace(pods=others))
        elif claim.reservation_id in free:
            free[claim.reservation_id] += 1
    of_node = {node.name: _reservation_id(snapshot, node) for node in snapshot.nodes}
    ids |= {id_ for one in plan.placed if not held.pods.isdisjoint(one.pods) and (id_ := of_node[one.node])}
    placed = (Placed(one.node, tuple(pod for pod in one.pods if pod not in held.pods)) for one in plan.placed)
    text = f"keeps its free slots for {held.gang.source} {held.gang.name} until {wording.moment(held.until_s, snapshot.taken_s)} (UTC)"
    unplaced = tuple(
        replace(one, reasons=tuple(_named(one.reasons, ids, text)))
        for one in plan.unplaced
        if one.pod not in held.pods
    )
    return replace(
        plan,
        claims=tuple(
            claim._replace(not_reserved=tuple(_named(claim.not_reserved, ids, text))) for claim in claims
        ),
        placed=tuple(one for one in placed if one.pods),
        unplaced=unplaced,
        baseline_unplaced=max(len(unplaced), plan.baseline_unplaced - (len(plan.unplaced) - len(unplaced))),
        slots_left=tuple((id_, free[id_]) for id_, _ in plan.slots_left),
        not_reserved=tuple(
            replace(one, reasons=tuple(_named(one.reasons, ids, text)))
            for one in plan.not_reserved
            if one.pod not in held.pods
        ),
    )


def _until_s(gang: Gang, settings: Settings) -> int:
    return gang.since_s + settings.gang_hold_s


def _reservation_id(snapshot: Snapshot, node: NodeView) -> str | None:
    return node.label_map.get(snapshot.cloud_labels.reservation_id or "")


def _starts_s(in_use: Iterable[NodeView], lacking: int) -> int | None:
    """When so many nodes are empty; None: not known."""
    ends = sorted(end for end in map(_end_s, in_use) if end is not None)
    return ends[lacking - 1] if 0 < lacking <= len(ends) else None


def _end_s(node: NodeView) -> int | None:
    """When the last pod of a node ends. A pod starts after its creation, so this may be too early, and then fewer pods may
    use the slots than could."""
    ends = [_pod_end_s(pod, pod.created_s) for pod in node.pods if not _is_of_node(pod)]
    return None if not ends or None in ends else max(end for end in ends if end is not None)


def _is_of_node(pod: PodView) -> bool:
    """Whether the pod runs as long as its node does: other pods get its node without its end."""
    return pod.from_daemon_set or pod.mirror


def _pod_end_s(pod: PodView, starts_s: int) -> int | None:
    if pod.run_time is None:
        return None
    lasts_s, ends_s = pod.run_time
    known = [end for end in (None if lasts_s is None else starts_s + lasts_s, ends_s) if end is not None]
    return min(known)


def _early(snapshot: Snapshot, before_s: int | None, starts_s: int) -> Iterator[str]:
    """Pods that do not delay the gang: those of gangs that run already, and those that end before it can start. Of a gang
    all members must end by then."""
    pods = {pod.uid: pod for pod in snapshot.pending}

    def ends_early(uid: str) -> bool:
        end_s = _pod_end_s(pods[uid], starts_s) if uid in pods else None
        return before_s is not None and end_s is not None and end_s <= before_s

    members: set[str] = set()
    for gang in snapshot.gangs:
        members |= gang.unbound
        if not gang.is_waiting or all(map(ends_early, gang.unbound)):
            yield from gang.unbound
    yield from (uid for uid in pods if uid not in members and ends_early(uid))


def _named(reasons: Iterable[Reason], ids: AbstractSet[str], text: str) -> Iterator[Reason]:
    for reason in reasons:
        kept = tuple(id_ for id_ in reason.subjects if id_ in ids) if reason.code in _NO_FREE_SLOT else ()
        others = tuple(id_ for id_ in reason.subjects if id_ not in kept)
        if kept:
            yield replace(reason, text=text, subjects=kept)
        if others or not kept:
            yield replace(reason, subjects=others)
