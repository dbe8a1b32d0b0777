"""Explains one node or NodeClaim: why it was launched, why it is reserved, on demand or on spot, and why it is or is not
disrupted. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.reports import Considered, DecisionRow, Explanation, Fact, NodeRow
from holdfast.core.disruption.commands import Blocker
from holdfast.explain import claims, inventory
from holdfast.model import reservations, wording
from holdfast.model.decisions import Decision
from holdfast.model.reasons import BlockedCode, ReasonCode
from holdfast.model.reservations import Reservation
from holdfast.state.conversion import times

NODE: Final = "node"
CLAIM: Final = "nodeclaim"
_BLOCKERS_MAX: Final = 8
_DECISIONS_MAX: Final = 20
_DELETED: Final = "Its NodeClaim was deleted; the events of the NodeClaim have the cause."
# What would let a node be disrupted, where a user can change it.
_REMEDIES: Final[Mapping[ReasonCode | BlockedCode, str]] = {
    BlockedCode.DO_NOT_DISRUPT: "The node is disrupted only without its do-not-disrupt annotation.",
    BlockedCode.POD_DO_NOT_DISRUPT: "The node is disrupted only without pods that have the do-not-disrupt annotation.",
    BlockedCode.BUDGET_OF_PODS: "The node is disrupted once the PodDisruptionBudget allows an eviction.",
    BlockedCode.BUDGET: "The node is disrupted once a budget of its NodePool allows it.",
    BlockedCode.CONSOLIDATION_OFF: "consolidateAfter: Never in its NodePool turns consolidation off.",
    BlockedCode.COOLING_DOWN: "The node is considered again when --consolidation-cooldown has passed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInput:
    """What is known about a node. `row` has its pods and price."""

    kind: str
    name: str
    row: NodeRow
    now_s: int
    claim: NodeClaim | None = None
    reservation: Reservation | None = None  # whose slot it uses
    blockers: Sequence[Blocker] = ()  # of the last disruption decision
    decided_s: int | None = None  # when that was
    removed: str = ""  # why its NodeClaim was deleted
    command: str = ""  # the reason of the DisruptionCommand that disrupts it
    expires_s: int | None = None


def explain(known: NodeInput) -> Explanation:
    row, claim = known.row, known.claim
    if claim is None:
        return Explanation(
            at=known.now_s,
            kind=known.kind,
            name=known.name,
            what="Holdfast did not launch this node: it has no NodeClaim of a NodePool that Holdfast serves.",
            since=row.created,
            next="Pods are planned onto its free capacity, and Holdfast never disrupts it.",
            facts=_facts(known),
        )
    return Explanation(
        at=known.now_s,
        kind=known.kind,
        name=known.name,
        what=_what(known, claim),
        since=row.created,
        why=(*claims.why(claim), *_disruption(known)),
        considered=(*claims.considered(claim), *_blockers(known)),
        changes=_changes(known, claim),
        next=_next(known),
        facts=_facts(known),
    )


def gone(
    kind: str, name: str, removal: Decision, decisions: Sequence[DecisionRow], now_s: int
) -> Explanation:
    """Of a node or NodeClaim that does not exist any more."""
    return Explanation(
        at=now_s,
        kind=kind,
        name=name,
        what=f"The {'node' if kind == NODE else 'NodeClaim'} does not exist any more.",
        since=removal.at_s,
        why=(f"{removal.text}.", *removal.reasons),
        decisions=tuple(decisions[:_DECISIONS_MAX]),
    )


def _what(known: NodeInput, claim: NodeClaim) -> str:
    row = known.row
    state = {
        inventory.LAUNCHING: "is being launched",
        inventory.STARTING: "is starting",
        inventory.READY: "is ready",
        inventory.NOT_READY: "is not ready",
        inventory.DRAINING: "is draining and will be terminated",
    }[row.state]
    progress = claims.progress(claim) if row.state in (inventory.LAUNCHING, inventory.STARTING) else ""
    about = f"The {'node' if known.kind == NODE else 'NodeClaim'} {state}: {claims.offering(row, claim)}"
    return f"{about}; {progress}." if progress else f"{about}."


def _disruption(known: NodeInput) -> list[str]:
    if known.row.state == inventory.DRAINING:
        return [f"{known.removed}." if known.removed else _DELETED]
    found = [f"It is being disrupted: {known.command}."] if known.command else []
    one = known.reservation
    if one is not None and one.end_s is not None and one.drain_lead_s:
        drains_s = one.end_s - one.drain_lead_s
        if isinstance(reservations.window(one, known.now_s), reservations.Open):
            found.append(
                f"Its reservation ends at {wording.moment(one.end_s, known.now_s)} UTC; the node is drained from "
                f"{wording.moment(drains_s, known.now_s)} UTC on."
            )
        else:
            found.append(
                f"Its reservation ends at {wording.moment(one.end_s, known.now_s)} UTC, so the node is drained."
            )
    return found


def _changes(known: NodeInput, claim: NodeClaim) -> tuple[str, ...]:
    if known.row.state == inventory.DRAINING:
        return ()
    found = [_REMEDIES[one.reason.code] for one in known.blockers if one.reason.code in _REMEDIES]
    return (*claims.changes(claim), *dict.fromkeys(found))


def _blockers(known: NodeInput) -> tuple[Considered, ...]:
    """Why it is not disrupted, by method."""
    if known.row.state == inventory.DRAINING:
        return ()
    shown = [one for one in known.blockers if one.reason.code is not BlockedCode.NOTHING_TO_DO]
    return tuple(
        Considered(subject=f"disruption ({one.method})" if one.method else "disruption", text=one.reason.text)
        for one in shown[:_BLOCKERS_MAX]
    )


def _next(known: NodeInput) -> str:
    if known.row.state == inventory.DRAINING:
        return "Its instance is terminated when its pods are evicted or its termination grace period ends."
    parts = []
    if known.decided_s is not None:
        at = wording.moment(known.decided_s, known.now_s)
        parts.append(f"Disruption is decided again every 10 seconds; the last decision was at {at} UTC.")
    if known.expires_s is not None:
        parts.append(f"It expires at {wording.moment(known.expires_s, known.now_s)} UTC.")
    return " ".join(parts)


def _facts(known: NodeInput) -> tuple[Fact, ...]:
    row = known.row
    found = list(claims.facts(known.claim, row)) if known.claim is not None else []
    if known.kind == CLAIM and row.name != row.node_claim:
        found.append(Fact(name="Node", value=row.name))
    found.append(Fact(name="Pods", value=str(row.pods)))
    if row.created is not None:
        found.append(Fact(name="Created", value=times.text(row.created)))
    return tuple(found)
