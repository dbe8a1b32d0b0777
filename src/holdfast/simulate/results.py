"""Turns what a simulation left behind into its result. Pure.

Called by `run` at the end, with everything that was paid for, and with samples of the rest: pods that wait, and slots that
others use.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.api.simulation import SavingsPlan
from holdfast.api.simulation_results import (
    Dollars,
    Event,
    OnDemandUse,
    ReservationResult,
    Timeline,
)
from holdfast.model import prices
from holdfast.sim.ec2.entities import Reservation
from holdfast.sim.ec2.ledger import HOUR_S
from holdfast.simulate import bills
from holdfast.simulate.bills import IN_SLOT, ON_DEMAND, RESERVATIONS, SPOT, Use

DRAIN_LEAD_S = 40 * 60  # before the end of a capacity block
PERCENT = 100


@dataclass(slots=True)
class Samples:
    """Values at equal steps, from the start on."""

    begins_s: int
    step_s: int
    pods_running: list[int] = field(default_factory=list)
    pods_waiting: list[int] = field(default_factory=list)
    elsewhere: Counter[str] = field(default_factory=Counter)  # the sum of slots, by reservation


@dataclass(frozen=True, slots=True)
class Paid:
    """What was paid for until the end of the simulation."""

    uses: Sequence[Use]
    begins_s: int
    until_s: int

    def of(self, *kinds: str) -> list[Use]:
        return [one for one in self.uses if one.kind in kinds]


def reservations(
    paid: Paid, found: Iterable[Reservation], samples: Samples, zone_of: Mapping[str, str]
) -> tuple[ReservationResult, ...]:
    """A row for each reservation, by id."""
    used: dict[str, int] = defaultdict(int)
    for one in paid.of(IN_SLOT):
        used[one.reservation] += one.to_s - one.from_s
    charged: dict[str, list[Use]] = defaultdict(list)
    for one in paid.of(*RESERVATIONS):
        charged[one.reservation].append(one)
    return tuple(
        _reservation(one, charged[one.id], used, _elsewhere_s(one.id, samples), paid, zone_of[one.zone_id])
        for one in sorted(found, key=lambda one: one.id)
    )


def _reservation(
    one: Reservation, charged: list[Use], used: Mapping[str, int], elsewhere_s: int, paid: Paid, zone: str
) -> ReservationResult:
    begins_s = min((each.from_s for each in charged), default=max(one.start_s, paid.begins_s))
    ends_s = max((each.to_s for each in charged), default=min(one.end_s or paid.until_s, paid.until_s))
    slot_s = one.total * max(0, ends_s - begins_s)
    used_s = used.get(one.id, 0) + (used.get(one.lent_to, 0) if one.lent_to else 0)
    elsewhere_s = max(0, min(elsewhere_s, slot_s - used_s))
    idle_s = max(0, slot_s - used_s - elsewhere_s)
    nano = bills.nano_usd(charged)
    return ReservationResult(
        id=one.id,
        kind="interruptible" if one.interruptible else one.kind,
        instance_type=one.instance_type,
        zone=zone,
        total=one.total,
        begins=begins_s,
        ends=max(begins_s, ends_s),
        slot_hours=_hours(slot_s),
        used_hours=_hours(used_s),
        elsewhere_hours=_hours(elsewhere_s),
        idle_hours=_hours(idle_s),
        usd=bills.usd(nano),
        idle_usd=bills.usd(nano * idle_s // slot_s if slot_s else 0),
    )


def _elsewhere_s(id_: str, samples: Samples) -> int:
    return samples.elsewhere[id_] * samples.step_s


def dollars(paid: Paid, rows: Sequence[ReservationResult], plan: SavingsPlan | None) -> Dollars:
    idle = sum(row.idle_usd for row in rows)
    elsewhere = sum(
        row.usd * row.elsewhere_hours / row.slot_hours for row in rows if row.usd and row.slot_hours
    )
    used = sum(row.usd for row in rows) - idle - elsewhere
    spot = bills.usd(bills.nano_usd(paid.of(SPOT)))
    on_demand, committed = _on_demand(paid, plan)
    parts = {
        "reserved_used": used,
        "reserved_idle": idle,
        "reserved_elsewhere": elsewhere,
        "on_demand": on_demand,
        "spot": spot,
        "savings_plan": committed,
    }
    rounded = {name: round(value, 4) + 0.0 for name, value in parts.items()}
    return Dollars(total=round(sum(rounded.values()), 4), **rounded)


def _on_demand(paid: Paid, plan: SavingsPlan | None) -> tuple[float, float]:
    """What is paid on demand, and for the Savings Plan. Each hour of the plan is used or lost."""
    uses = paid.of(ON_DEMAND)
    if plan is None:
        return bills.usd(bills.nano_usd(uses)), 0.0
    commitment = prices.parse(plan.usd_per_hour)
    covers = commitment * PERCENT // (PERCENT - plan.discount_percent)  # at on-demand prices
    on_demand = 0
    for hour_s in range(paid.begins_s, paid.until_s, HOUR_S):
        end_s = min(hour_s + HOUR_S, paid.until_s)
        listed = sum(
            one.nano_usd_per_hour * max(0, min(one.to_s, end_s) - max(one.from_s, hour_s)) for one in uses
        )
        on_demand += max(0, listed // HOUR_S - covers * (end_s - hour_s) // HOUR_S)
    return bills.usd(on_demand), bills.usd(commitment * (paid.until_s - paid.begins_s) // HOUR_S)


def on_demand_use(paid: Paid) -> tuple[OnDemandUse, ...]:
    return tuple(
        OnDemandUse(
            instance_type=instance_type,
            zone=zone,
            usd_per_hour=bills.usd(uses[0].nano_usd_per_hour),
            changes=bills.changes(uses),
        )
        for (instance_type, zone), uses in sorted(bills.by_key(paid.of(ON_DEMAND)).items())
    )


def timeline(paid: Paid, samples: Samples, rows: Sequence[ReservationResult]) -> Timeline:
    count = len(samples.pods_running)

    def nodes(kind: str) -> tuple[int, ...]:
        return _at((one.from_s, one.to_s, 1) for one in paid.of(kind))

    def cost(*kinds: str) -> tuple[float, ...]:
        return tuple(
            map(bills.usd, _at((one.from_s, one.to_s, one.nano_usd_per_hour) for one in paid.of(*kinds)))
        )

    def _at(weights: Iterable[tuple[int, int, int]]) -> tuple[int, ...]:
        return tuple(bills.at_steps(weights, samples.begins_s, samples.step_s, count))

    by_reservation: dict[str, list[Use]] = defaultdict(list)
    for one in paid.of(IN_SLOT):
        by_reservation[one.reservation].append(one)
    slots = {row.id: _at((one.from_s, one.to_s, 1) for one in by_reservation[row.id]) for row in rows}
    prices_of = {row.id: row.usd / row.slot_hours if row.slot_hours else 0.0 for row in rows}
    used = [round(sum(slots[id_][n] * price for id_, price in prices_of.items()), 4) for n in range(count)]
    reserved = cost(*RESERVATIONS)
    return Timeline(
        begins=samples.begins_s,
        step=samples.step_s,
        reserved_nodes=nodes(IN_SLOT),
        on_demand_nodes=nodes(ON_DEMAND),
        spot_nodes=nodes(SPOT),
        pods_running=tuple(samples.pods_running),
        pods_waiting=tuple(samples.pods_waiting),
        usd_reserved_used=tuple(used),
        usd_reserved_idle=tuple(
            round(max(0.0, all_ - one), 4) for all_, one in zip(reserved, used, strict=True)
        ),
        usd_on_demand=cost(ON_DEMAND),
        usd_spot=cost(SPOT),
        slots_used=slots,
    )


def events(found: Iterable[Reservation], begins_s: int, until_s: int) -> list[Event]:
    """Begins, drains and ends of reservations."""
    dated: list[Event] = []
    for one in found:
        what = f"{one.id}, {one.total} x {one.instance_type}"
        dated.append(Event(at=one.start_s, type="reservation-begins", text=f"{what} begins"))
        if one.end_s:
            dated.append(Event(at=one.end_s, type="reservation-ends", text=f"{what} ends"))
            if one.kind == "capacity-block":
                drains_s = one.end_s - DRAIN_LEAD_S
                dated.append(Event(at=drains_s, type="block-drains", text=f"{what} is drained"))
    return sorted((one for one in dated if begins_s < one.at <= until_s), key=lambda one: (one.at, one.text))


def _hours(seconds: int) -> float:
    return round(seconds / HOUR_S, 3)
