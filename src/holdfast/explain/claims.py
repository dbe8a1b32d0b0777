"""Why a NodeClaim was created and is as it is: the part that explanations of pods, nodes and NodeClaims share. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.api.conditions import Condition
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.reports import Considered, Fact, NodeRow, ReservationRow
from holdfast.core.scheduling.output import remedies
from holdfast.model import wording
from holdfast.model.reasons import Reason
from holdfast.state.conversion import claim_explanations, times

_NO_EXPLANATION: Final = (
    "Its NodeClaim has no explanation: another autoscaler or an earlier release created it."
)
_STEPS: Final = (  # a condition, and what the NodeClaim waits for while it is not True
    (claim_conditions.LAUNCHED, "its instance is being launched"),
    (claim_conditions.REGISTERED, "the instance is launched, and its node has not joined the cluster"),
    (claim_conditions.INITIALIZED, "the node has joined, and is not initialized"),
)


def offering(row: NodeRow, claim: NodeClaim | None = None) -> str:
    """`m5.large in us-west-2a, reserved in cr-1`. Before the launch, what the plan of the claim counts on."""
    planned = claim_explanations.of(claim) if claim is not None and not row.instance_type else None
    if planned is not None:
        found = _offering(planned.instance_type, planned.zone, planned.capacity_type, planned.reservation)
        return f"planned as {found}"
    return _offering(row.instance_type, row.zone, row.capacity_type, row.reservation)


def _offering(instance_type: str, zone: str, capacity_type: str, reservation: str | None) -> str:
    where = " in ".join(filter(None, (instance_type, zone))) or "not launched yet"
    if reservation:
        return f"{where}, reserved in {reservation}"
    return f"{where}, {capacity_type}" if capacity_type else where


def why(claim: NodeClaim) -> tuple[str, ...]:
    found = claim_explanations.of(claim)
    if found is None:
        return (_NO_EXPLANATION,)
    pods = ""
    if found.pod_count:
        listed = wording.listed(found.pods, found.pod_count - len(found.pods))
        shown = f": {listed}" if found.pods else ""  # pods of a ProvisioningRequest have no names yet
        pods = f"The NodeClaim was created for {wording.count(found.pod_count, 'pod')}{shown}."
    return tuple(filter(None, (found.cause, pods)))


def considered(claim: NodeClaim) -> tuple[Considered, ...]:
    """Reservations that it does not use, and why."""
    found = claim_explanations.of(claim)
    if found is None:
        return ()
    return tuple(_considered(one.kind, one.ids, one.text, one.more) for one in found.not_reserved)


def changes(claim: NodeClaim) -> tuple[str, ...]:
    found = claim_explanations.of(claim)
    return found.changes if found is not None else ()


def of_reasons(reasons: Iterable[Reason]) -> tuple[Considered, ...]:
    return tuple(_considered(one.kind, one.subjects, one.text) for one in reasons)


def _considered(kind: str, subjects: Sequence[str], text: str, more: int = 0) -> Considered:
    about = wording.plural(kind, len(subjects) + more) if kind else ""
    return Considered(subject=f"{about} {wording.listed(subjects, more)}".strip(), text=text)


def changes_of(reasons: Iterable[Reason]) -> tuple[str, ...]:
    return remedies.sentences(reasons)


def progress(claim: NodeClaim) -> str:
    """What a NodeClaim waits for; empty: nothing."""
    waits_for = claim.metadata.annotations.get(names.WAITS_FOR_INSTANCE)
    launched = _find(claim, claim_conditions.LAUNCHED)
    if waits_for and (launched is None or launched.status != conditions.TRUE):
        return f"it waits until EC2 releases the slot of instance {waits_for.rpartition('/')[2]}"
    for type_, text in _STEPS:
        found = _find(claim, type_)
        if found is None or found.status != conditions.TRUE:
            problem = found is not None and found.reason not in (None, "", type_, "AwaitingReconciliation")
            return f"{text}: {found.message}" if problem and found is not None and found.message else text
    return ""


def facts(claim: NodeClaim, row: NodeRow) -> list[Fact]:
    found = [
        Fact(name="NodeClaim", value=claim.metadata.name),
        Fact(name="NodePool", value=row.node_pool),
        Fact(name="Instance", value=(claim.status.provider_id or "").rpartition("/")[2]),
        Fact(name="State", value=row.state),
        Fact(name="Price", value=price(row.usd_per_hour, row.capacity_type)),
    ]
    for type_ in (claim_conditions.DRIFTED, claim_conditions.CONSOLIDATABLE):
        condition = _find(claim, type_)
        if condition is not None and condition.status == conditions.TRUE:
            since = times.text(times.epoch_s(condition.last_transition_time))
            text = f"since {since}" + (f": {condition.message}" if condition.message else "")
            found.append(Fact(name=type_, value=text))
    return [fact for fact in found if fact.value]


def counts(row: ReservationRow) -> str:
    if row.window == "upcoming":
        return f"{wording.count(row.total, 'slot')} from its start on"
    return (
        f"{row.free} of {wording.count(row.total, 'slot')} free now: {row.here} used here, {row.elsewhere} by another "
        f"cluster or account, {row.held} held, {row.releasing} being released"
    )


def price(usd_per_hour: float | None, capacity_type: str) -> str:
    if not capacity_type:
        return ""
    if capacity_type == names.RESERVED:
        return "paid with the reservation"
    return "unknown" if usd_per_hour is None else f"${usd_per_hour:.4f} an hour"


def _find(claim: NodeClaim, type_: str) -> Condition | None:
    return conditions.find(claim.status.conditions, type_)
