"""Explains one reservation: who uses its slots, what the idle ones cost, and why they are idle. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.reports import Considered, Explanation, Fact, ReservationRow, SlotUse
from holdfast.model import wording
from holdfast.state.conversion import times

KIND: Final = "reservation"
_USES_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationInput:
    row: ReservationRow
    now_s: int
    uses: Sequence[SlotUse] = ()
    pending: Sequence[
        tuple[str, str]
    ] = ()  # namespace/name of pods that name it as a reason, and that reason
    waiting: int = 0  # pending pods that no plan placed


def explain(known: ReservationInput) -> Explanation:
    row = known.row
    kind = f"{row.kind} reservation" if row.kind != "default" else "reservation"
    return Explanation(
        at=known.now_s,
        kind=KIND,
        name=row.id,
        what=(
            f"The {kind} has {wording.count(row.total, 'slot')} of {row.instance_type} in {row.zone}: {row.here} used "
            f"here, {row.elsewhere} elsewhere, {row.held} held, {row.releasing} being released, {row.free} free. EC2 reports it as {row.state}."
        ),
        since=row.starts,
        why=tuple(_why(known)),
        considered=tuple(Considered(subject=f"pod {name}", text=text) for name, text in known.pending),
        changes=tuple(_changes(row)),
        next=_next(row, known.now_s),
        facts=tuple(_facts(known)),
    )


def _why(known: ReservationInput) -> list[str]:
    row, found = known.row, []
    if not row.node_classes:
        found.append("No node class selects it, so no node is launched into it.")
    if row.window == "upcoming":
        found.append("It has not started. Nodes are launched into it from its start on.")
    elif row.window in ("draining", "reclaiming"):
        found.append("It ends soon: nothing is launched into it any more, and its nodes are drained.")
    elif row.window == "ended":
        found.append("It has ended.")
    if row.idle:
        cost = "" if row.idle_usd_per_hour is None else f", which costs ${row.idle_usd_per_hour:.4f} an hour"
        found.append(f"{wording.count(row.idle, 'slot')} {wording.are(row.idle)} idle{cost}.")
        if row.free and row.node_classes and not known.pending:
            found.append(
                "No pending pod needs a node: slots are used when pods are pending, before anything else is launched."
                if not known.waiting
                else "No pending pod that was not placed could use it."
            )
    elif not row.free and row.window == "open":
        found.append("All slots are used or held.")
    if row.elsewhere:
        found.append(
            f"{wording.count(row.elsewhere, 'slot')} {wording.are(row.elsewhere)} used by instances "
            "of another cluster or account, or by instances that Holdfast did not launch."
        )
    if row.releasing:
        found.append(
            f"{wording.count(row.releasing, 'instance')} in it {wording.are(row.releasing)} terminating; "
            "EC2 releases the slot some minutes later."
        )
    return found


def _changes(row: ReservationRow) -> list[str]:
    found = []
    if not row.node_classes:
        found.append("A term of capacityReservationSelectorTerms in an EC2NodeClass that selects it.")
    elif row.idle and row.window == "open":
        found.append(
            f"Pending pods that allow {row.instance_type} in {row.zone} and the capacity type reserved."
        )
    elif not row.free and row.window == "open":
        found.append("An instance in it that terminates frees a slot.")
    return found


def _next(row: ReservationRow, now_s: int) -> str:
    counted = "EC2's counts are read every minute, and sooner when a slot becomes free."
    if row.window == "upcoming" and row.starts is not None:
        return f"It starts at {wording.moment(row.starts, now_s)} UTC. {counted}"
    if row.ends is not None and row.ends > now_s:
        drains = (
            ""
            if row.drains is None
            else f"; its nodes are drained from {wording.moment(row.drains, now_s)} UTC on"
        )
        return f"It ends at {wording.moment(row.ends, now_s)} UTC{drains}. {counted}"
    return counted


def _facts(known: ReservationInput) -> list[Fact]:
    row = known.row
    found = [
        Fact(name="Owner", value=row.owner),
        Fact(name="Selected by", value=wording.listed(row.node_classes) or "no node class"),
    ]
    if row.ends is not None:
        found.append(Fact(name="Ends", value=times.text(row.ends)))
    found += [
        Fact(
            name=f"Slot {number}",
            value=f"{use.node or use.node_claim or 'an instance without NodeClaim'}, {use.state}",
        )
        for number, use in enumerate(known.uses[:_USES_MAX], start=1)
    ]
    if len(known.uses) > _USES_MAX:
        found.append(Fact(name="More slots", value=str(len(known.uses) - _USES_MAX)))
    return found
