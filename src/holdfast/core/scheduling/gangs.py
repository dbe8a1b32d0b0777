"""solve(request) -> plan, for requests with gangs: of each gang enough members have a node in the plan, or none.

Provisioning, disruption simulations and `holdfast plan` call it. `solve.solve` knows no gangs. This module chooses the
gangs that it gets, and adds the reasons of the others. Without gangs it returns the plan of `solve.solve`. `gang_holds`
keeps free slots for the first gang that does not fit, if a setting enables it.

Gangs that do not fit together are tried in the order of their ranks: a gang is left out only if it does not fit together
with gangs of higher rank and pods of higher priority alone. So smaller gangs and single pods never take the capacity
that a gang of higher rank needs in the same plan. The number of solves is bounded by `Settings.gang_candidates`; gangs
that were not tried by then are placed if they fit into what is left.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from holdfast import names
from holdfast.core.scheduling import gang_holds
from holdfast.core.scheduling import solve as single
from holdfast.core.scheduling.gang_holds import Hold
from holdfast.core.scheduling.input import displaced
from holdfast.core.scheduling.input.columns import CatalogCache
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output import reservation_reasons
from holdfast.core.scheduling.output.plan import Plan, PlannedClaim, Unplaced
from holdfast.model import requirement, wording
from holdfast.model.gangs import Gang
from holdfast.model.pods import PodShape, PodView
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import NodeView, Snapshot

_LAST: Final = 2**63  # a time after that of every gang
_HOLD_TRIES: Final = 8  # gangs that may never fit, each of which costs a solve
_FULL_WITH_MEMBERS: Final = (
    "has no free slot left for the other pods; one becomes free when an instance in it terminates"
)


def solve(request: SolveRequest, catalogs: CatalogCache | None = None) -> Plan:
    """The plan for a request. The arguments are those of `solve.solve`."""
    if not request.snapshot.gangs:
        return single.solve(request, catalogs)
    return _Planning(request, catalogs or CatalogCache()).plan()


def whole_claims(
    snapshot: Snapshot, plan: Plan, allowed: Sequence[PlannedClaim], present: frozenset[str]
) -> tuple[PlannedClaim, ...]:
    """The allowed claims of the plan, without those with members of gangs that would lack nodes if only these claims are
    created. `present`: the pods of the plan that still exist."""
    planned = _with_node(plan, plan.claims)
    forming = tuple(_forming(snapshot.gangs, planned))
    allowed = tuple(allowed)
    while True:
        unplaced = planned - (_with_node(plan, allowed) & present)
        lacking = {pod for one in forming if not one.is_whole(unplaced) for pod in one.pods}
        remaining = tuple(claim for claim in allowed if lacking.isdisjoint(claim.pods))
        if remaining == allowed:
            return allowed
        allowed = remaining


def launched_together(
    snapshot: Snapshot, plan: Plan, claims: Sequence[PlannedClaim]
) -> tuple[tuple[PlannedClaim, ...], ...]:
    """The claims that must be launched all or none, in groups of at least two: claims with members of a gang that needs
    nodes, and claims that share a node with those of other gangs."""
    gang_of = {
        pod: one.gang.key
        for one in _forming(snapshot.gangs, _with_node(plan, plan.claims))
        for pod in one.pods
    }
    first_gang: dict[str, str] = {}  # by gang, another one with which it shares a node
    by_gang: dict[str, list[PlannedClaim]] = {}
    for claim in claims:
        keys = sorted({_first(first_gang, gang_of[pod]) for pod in claim.pods if pod in gang_of})
        for other in keys[1:]:
            first_gang[other] = keys[0]
            by_gang[keys[0]] = [*by_gang.get(keys[0], ()), *by_gang.pop(other, ())]
        if keys:
            by_gang.setdefault(keys[0], []).append(claim)
    return tuple(tuple(found) for found in by_gang.values() if len(found) > 1)


def incomplete(gang: Gang, ready: int) -> Reason:
    """Why no plan has the gang, whatever capacity there is. `ready`: members that have a node or can be planned now."""
    if gang.least is None:
        text = "does not exist; its pods are planned once it does"
    elif len(gang.bound | gang.unbound) < gang.least:
        exist = wording.some(len(gang.bound | gang.unbound))
        text = (
            "lacks the pod that it needs"
            if gang.least == 1
            else f"has {exist} of the {gang.least} pods that it needs"
        )
    elif gang.least == 1:
        text = "the pod that it needs has no node and cannot be planned now"
    else:
        some = _only(ready, gang.least)
        text = f"{some} pods that it needs {wording.have(ready)} a node or can be planned now"
    return Reason(ReasonCode.GANG_INCOMPLETE, text, (gang.name,), gang.source)


def _first(first_gang: Mapping[str, str], gang: str) -> str:
    while gang in first_gang:
        gang = first_gang[gang]
    return gang


def _with_node(plan: Plan, claims: Iterable[PlannedClaim]) -> AbstractSet[str]:
    """The pods of these claims, and those on existing nodes."""
    on_nodes = {pod for one in plan.placed for pod in one.pods}
    return on_nodes.union(*(claim.pods for claim in claims))


@dataclass(frozen=True, slots=True)
class _Forming:
    """A gang with members to place."""

    gang: Gang
    pods: frozenset[str]  # members to place
    located: int  # members with a node
    needed: int  # how many of `pods` need a node, at least

    def is_whole(self, unplaced: AbstractSet[str]) -> bool:
        return len(self.pods - unplaced) >= self.needed


_Gangs = tuple[_Forming, ...]


class _Planning:
    """One plan. Every trial is a `solve` with some of the gangs."""

    def __init__(self, request: SolveRequest, catalogs: CatalogCache) -> None:
        self._request = request
        self._catalogs = catalogs
        self._tries_left = request.settings.gang_candidates
        snapshot = request.snapshot
        self._pods = {pod.uid: pod for pod in (*snapshot.pending, *displaced.displaced(snapshot))}
        self._why: dict[str, tuple[Reason, ...]] = {}  # by key of a gang, why it is left out
        self._waits: dict[str, Unplaced] = {}  # members of these gangs that wait for a slot
        found = sorted(_forming(snapshot.gangs, self._pods.keys()), key=lambda one: one.gang.rank)
        self._gangs = tuple(found)
        self._priorities: dict[str, int] | None = None  # by uid, once ranks decide
        self._hold: Hold | None = None  # of the first gang that does not fit
        self._hold_tries_left = _HOLD_TRIES

    def plan(self) -> Plan:
        complete = tuple(one for one in self._gangs if len(one.pods) >= one.needed)
        for one in self._gangs:
            if len(one.pods) < one.needed:
                self._why[one.gang.key] = (_incomplete(one),)
        plan = self._solve(complete, explain=True)
        if self._are_whole(complete, plan):
            return self._finished(plan, complete)
        self._rank(None)
        accepted = self._admit((), complete)
        decided = self._why.keys() | {one.gang.key for one in accepted}
        untried = tuple(one for one in complete if one.gang.key not in decided)
        return self._with_single_pods(accepted, untried)

    def _rank(self, hold: Hold | None) -> None:
        self._hold = hold
        self._priorities = _ranked(self._gangs, self._pods.values(), hold)

    def _admit(self, accepted: _Gangs, ranked: _Gangs) -> _Gangs:
        """The accepted gangs, and those of `ranked` that fit together with them and with gangs of higher rank."""
        if not ranked or not self._tries_left:
            return accepted
        self._tries_left -= 1
        plan = self._solve((*accepted, *ranked), above=ranked[-1].gang.priority)
        if self._are_whole((*accepted, *ranked), plan):
            return (*accepted, *ranked)
        if len(ranked) == 1:
            self._leave_out(ranked[0], plan)
            return accepted
        first = _likely(ranked, plan)
        return self._admit(self._admit(accepted, ranked[:first]), ranked[first:])

    def _with_single_pods(self, accepted: _Gangs, untried: _Gangs) -> Plan:
        """The plan of the accepted gangs with all pods that are in no gang, and with those of the untried gangs that fit
        into what is left."""
        chosen = (*accepted, *untried)
        plan = self._solve(chosen, explain=True)
        unplaced = _unplaced(plan)
        for one in untried:
            if not one.is_whole(unplaced):
                self._leave_out(one, plan)
        fitting = tuple(one for one in untried if one.gang.key not in self._why)
        if (*accepted, *fitting) != chosen:
            plan = self._solve((*accepted, *fitting), explain=True)
        if self._are_whole((*accepted, *fitting), plan):
            return self._finished(plan, (*accepted, *fitting))
        if fitting:
            for one in fitting:
                self._leave_out(one, plan)
            plan = self._solve(accepted, explain=True)
            if self._are_whole(accepted, plan):
                return self._finished(plan, accepted)
        # Single pods use capacity that an accepted gang needs. They are planned again once the gang has its nodes.
        lowest = min(one.gang.priority for one in accepted)
        plan = self._solve(accepted, above=lowest, explain=True)
        if self._hold is not None and not self._are_whole(accepted, plan):
            self._rank(None)  # the last of them was accepted before another gang held slots
            plan = self._solve(accepted, above=lowest, explain=True)
        assert self._are_whole(accepted, plan), "the last gangs were accepted by the same solve"
        return self._finished(plan, accepted, above=lowest)

    # --- One trial ------------------------------------------------------------------------------------

    def _solve(self, chosen: _Gangs, *, above: int | None = None, explain: bool = False) -> Plan:
        """The plan with these gangs, and with pods in no gang; `above`: only those of a higher priority."""
        excluded = self._excluded(chosen, above)
        snapshot = _without(self._request.snapshot, excluded, self._priorities)
        request = replace(
            self._request,
            snapshot=snapshot,
            explain_slots=explain and self._request.explain_slots,
            explain_claims=explain and self._request.explain_claims,
        )
        if self._hold is not None:
            pins = dict.fromkeys(self._hold.pods, self._hold.in_slots)
            snapshot = _pinned(snapshot, pins)
            request = replace(request, snapshot=snapshot)
        plan = single.solve(request, self._catalogs)
        pins = dict(_pins(chosen, plan, snapshot))
        if not pins:
            return plan
        return single.solve(replace(request, snapshot=_pinned(snapshot, pins)), self._catalogs)

    def _excluded(self, chosen: _Gangs, above: int | None) -> set[str]:
        kept = {one.gang.key for one in chosen}
        if self._hold is not None:
            kept.add(self._hold.gang.key)
        excluded = {uid for one in self._gangs if one.gang.key not in kept for uid in one.pods}
        if above is not None:
            members = {uid for one in self._gangs for uid in one.pods}
            excluded |= {
                uid for uid, pod in self._pods.items() if uid not in members and pod.priority <= above
            }
        return excluded

    def _are_whole(self, gangs: Iterable[_Forming], plan: Plan) -> bool:
        unplaced = _unplaced(plan)
        return all(one.is_whole(unplaced) for one in gangs)

    # --- Reasons --------------------------------------------------------------------------------------

    def _leave_out(self, one: _Forming, plan: Plan) -> None:
        if self._hold is not None:
            plan = gang_holds.released(plan, self._hold, self._request.snapshot)
        missing = [found for found in plan.unplaced if found.pod in one.pods]
        in_slots = _in_slots(one, plan)
        details = dict.fromkeys(
            split for found in missing for reason in found.reasons for split in _beside(reason, in_slots)
        )
        self._why[one.gang.key] = (_does_not_fit(one, len(missing), in_slots), *details)
        self._waits |= {found.pod: found for found in missing if found.waits_for is not None}
        if self._hold is None and self._hold_tries_left:
            self._rank(self._hold_for(one, plan))

    def _hold_for(self, one: _Forming, plan: Plan) -> Hold | None:
        snapshot, settings = self._request.snapshot, self._request.settings
        if not gang_holds.may_hold(one.gang, snapshot, settings):
            return None
        self._hold_tries_left -= 1
        others = self._pods.keys() - one.pods
        emptied = _without(gang_holds.emptied(snapshot), others, None)
        alone = single.solve(SolveRequest(emptied, settings), self._catalogs)
        if not one.is_whole(_unplaced(alone)):
            return None
        return gang_holds.hold(one.gang, one.pods, snapshot, settings, plan=plan, alone=alone)

    def _finished(self, plan: Plan, chosen: _Gangs, above: int | None = None) -> Plan:
        """The plan with the pods that are not in it, and the reasons."""
        if self._hold is not None:
            (holds,) = (one for one in self._gangs if one.gang.key == self._hold.gang.key)
            if self._are_whole((holds,), plan):
                chosen = (*chosen, holds)
            else:
                plan = gang_holds.released(plan, self._hold, self._request.snapshot)
                self._why[holds.gang.key] += (self._hold.reason(self._request.snapshot.taken_s),)
        kept = {one.gang.key for one in chosen}
        reasons = {
            uid: self._why[one.gang.key]
            for one in self._gangs
            if one.gang.key not in kept
            for uid in one.pods
        }
        behind = self._excluded(chosen, above) - reasons.keys()
        if behind:
            first_gangs = tuple(sorted(one.gang.name for one in chosen))
            text = "its pods are placed first; this pod is planned again once they have nodes"
            first = Reason(ReasonCode.BEHIND_GANG, text, first_gangs, chosen[0].gang.source)
            reasons |= dict.fromkeys(behind, (first,))
        left_out = [
            replace(self._waits[uid], reasons=why) if uid in self._waits else Unplaced(uid, why)
            for uid, why in reasons.items()
        ]
        return replace(
            plan,
            unplaced=tuple(sorted((*plan.unplaced, *left_out), key=lambda one: one.pod)),
            baseline_unplaced=plan.baseline_unplaced + len(left_out),
        )


def _forming(gangs: Iterable[Gang], to_place: AbstractSet[str]) -> Iterator[_Forming]:
    """The gangs that need nodes for some of their members. A gang with enough members on nodes places no condition on
    the others: kube-scheduler binds them one by one (PG-8)."""
    for gang in gangs:
        pods = frozenset((gang.unbound | gang.bound) & to_place)
        located = len(gang.bound - pods)
        if not pods:
            continue
        if gang.least is None:
            yield _Forming(gang, pods, located, len(pods) + 1)
        elif located < gang.least:
            yield _Forming(gang, pods, located, gang.least - located)


def _likely(ranked: _Gangs, plan: Plan) -> int:
    """How many of the first gangs are likely to fit without the others: as many as need no more nodes for their members
    than the plan has for members of all of them. At least one, and not all."""
    unplaced = _unplaced(plan)
    left = sum(len(one.pods - unplaced) for one in ranked)
    fitting = 0
    for one in ranked:
        left -= one.needed
        fitting += left >= 0
    return max(1, fitting if fitting < len(ranked) else fitting // 2)


def _unplaced(plan: Plan) -> AbstractSet[str]:
    return {one.pod for one in plan.unplaced}


def _ranked(gangs: Sequence[_Forming], pods: Iterable[PodView], hold: Hold | None) -> dict[str, int]:
    """Priorities that rank members by their gang, and before other pods of equal priority. The planner keeps the packing
    that places the most pods of the highest priority. Pods that may use held slots come before the gang that holds them."""
    ranks = {uid: one.gang.rank for one in gangs for uid in one.pods}
    keys = {pod.uid: ranks.get(pod.uid, (-pod.priority, _LAST, "")) for pod in pods}
    if hold is not None:
        before = (*hold.gang.rank[:2], "")
        keys |= {uid: min(keys[uid], before) for uid in hold.first & keys.keys()}
    order = {key: -number for number, key in enumerate(sorted(set(keys.values())))}
    return {uid: order[key] for uid, key in keys.items()}


def _without(snapshot: Snapshot, excluded: AbstractSet[str], priorities: dict[str, int] | None) -> Snapshot:
    """The snapshot without these pods. Those on nodes that are being deleted are evicted soon, so affinity does not find
    them there."""
    if not excluded and priorities is None:
        return snapshot

    def pod(one: PodView) -> PodView:
        return (
            one
            if priorities is None or one.uid not in priorities
            else one._replace(priority=priorities[one.uid])
        )

    def node(one: NodeView) -> NodeView:
        if not one.deleting or not one.pods:
            return one
        return replace(one, pods=tuple(map(pod, one.without(excluded).pods)))

    return replace(
        snapshot,
        pending=tuple(pod(one) for one in snapshot.pending if one.uid not in excluded),
        nodes=tuple(map(node, snapshot.nodes)),
    )


def _pins(chosen: _Gangs, plan: Plan, snapshot: Snapshot) -> Iterator[tuple[str, Requirement]]:
    """The domain of each member of a gang that the plan has in several domains, although its members are tied to one: that
    with the most of them. The affinity of the members lets pods of different shapes begin in different domains while the
    domain of the first node is not settled."""
    tied = [one for one in chosen if one.gang.together and not one.located]
    labels = {node.name: node.label_map for node in snapshot.nodes} if tied else {}
    for one in tied:
        key = one.gang.together or ""
        domains: Counter[str] = Counter()
        for claim in plan.claims:
            domain = claim.zone if key == names.ZONE else min(claim.requirements.get(key).values, default="")
            domains[domain] += len(one.pods.intersection(claim.pods))
        for placed in plan.placed:
            domains[labels[placed.node].get(key, "")] += len(one.pods.intersection(placed.pods))
        found = sorted((-count, domain) for domain, count in domains.items() if count and domain)
        if len(found) > 1:
            pin = requirement.of(key, Operator.IN, (found[0][1],))
            yield from ((uid, pin) for uid in one.pods)


def _pinned(snapshot: Snapshot, pins: dict[str, Requirement]) -> Snapshot:
    shapes: dict[tuple[int, Requirement], PodShape] = {}  # equal shapes stay one object

    def pod(one: PodView) -> PodView:
        pin = pins.get(one.uid)
        if pin is None:
            return one
        known = id(one.shape), pin
        if known not in shapes:
            shapes[known] = _pinned_shape(one.shape, pin)
        return one._replace(shape=shapes[known])

    def node(one: NodeView) -> NodeView:
        return replace(one, pods=tuple(map(pod, one.pods))) if one.deleting else one

    return replace(
        snapshot, pending=tuple(map(pod, snapshot.pending)), nodes=tuple(map(node, snapshot.nodes))
    )


def _pinned_shape(shape: PodShape, pin: Requirement) -> PodShape:
    """Adds the requirement to the volumes: a node selector would change the domains of the pod's spread constraints."""
    alternatives = tuple(one.add(pin) for one in shape.volumes.alternatives or (NO_REQUIREMENTS,))
    return shape._replace(volumes=replace(shape.volumes, alternatives=alternatives))


def _incomplete(one: _Forming) -> Reason:
    return incomplete(one.gang, one.located + len(one.pods))


def _in_slots(one: _Forming, plan: Plan) -> Mapping[str, int]:
    """How many members the plan has in slots, by reservation."""
    found: Counter[str] = Counter()
    for claim in plan.claims:
        if claim.reservation_id is not None:
            found[claim.reservation_id] += len(one.pods.intersection(claim.pods))
    return found


def _beside(reason: Reason, in_slots: Mapping[str, int]) -> Iterator[Reason]:
    """The reason of a member without a node. A reservation may be full only because other members use its slots."""
    if reason.text != reservation_reasons.FULL:
        yield reason
        return
    used = tuple(id_ for id_ in reason.subjects if in_slots.get(id_))
    others = tuple(id_ for id_ in reason.subjects if id_ not in used)
    if used:
        yield replace(reason, text=_FULL_WITH_MEMBERS, subjects=used)
    if others:
        yield replace(reason, subjects=others)


def _only(number: int, least: int) -> str:
    return f"only {number} of the {least}" if number else f"none of the {least}"


def _does_not_fit(one: _Forming, missing: int, in_slots: Mapping[str, int]) -> Reason:
    """How many members would have a node, with those in slots by reservation."""
    placed = one.located + len(one.pods) - missing
    if missing <= len(one.pods) - one.needed:
        text = "does not fit together with gangs that were tried before it"
        return Reason(ReasonCode.GANG_DOES_NOT_FIT, text, (one.gang.name,), one.gang.source)
    least = one.gang.least or 0
    text = f"{_only(placed, least)} pods that it needs would have a node"
    if least == 1:
        text = "the pod that it needs would have no node"
    if one.gang.together is not None:
        text += f" with the same {one.gang.together}"
    slots = [f"{count} in {id_}" for id_, count in sorted(in_slots.items()) if count]
    if slots:
        text += f" ({wording.listed(slots)})"
    return Reason(ReasonCode.GANG_DOES_NOT_FIT, text, (one.gang.name,), one.gang.source)
