"""Which slots would have paid for themselves, from the on-demand use that a simulation left.

`simulate --size` calls it. A slot costs its price in each hour of its period, used or not. The k-th further slot of a type
in a zone saves the on-demand price while at least k on-demand instances run there. Periods have whole hours from the
start of the simulation and at least the `minDuration` of the price; a rest of less than an hour at the end is left out.
There may be several periods, which overlap or do not. Of all such sets `size` finds one that saves the most and, among
those, has the fewest slot-hours. Each result saves more than it costs, also if all the others are reserved.

All amounts are integers of nano-USD times seconds. docs/sizing.md describes what the answer does not cover.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Final

from holdfast import errors
from holdfast.api.ec2nodeclass.selectors import CapacityReservationSelectorTerm
from holdfast.api.simulation import ReservationPrice, SavingsPlan
from holdfast.api.simulation_results import OnDemandUse, Sizing, SizingResult
from holdfast.api.world import Reservation
from holdfast.model import prices, wording
from holdfast.simulate import sizing_periods, sizing_use
from holdfast.simulate.sizing_periods import Gains
from holdfast.simulate.sizing_use import HOUR_S, Steps
from holdfast.state.conversion import times

RECOMMENDED_TAG: Final = "holdfast.dev/recommended"
SELECTOR_TERM: Final = CapacityReservationSelectorTerm(tags={RECOMMENDED_TAG: "true"})
"""What `capacityReservationSelectorTerms` of an EC2NodeClass needs to select the recommended reservations."""

_PERCENT: Final = 100
_ID_DIGITS: Final = 17  # of a reservation id of EC2, in hex
_NANO_USD_S_PER_USD: Final = prices.NANO_USD_PER_USD * HOUR_S


@dataclass(frozen=True, slots=True)
class _Price:
    slot: int  # nano-USD an hour
    shortest: int  # hours


@dataclass(frozen=True, slots=True)
class _Use:
    """The on-demand use of one instance type in one zone."""

    instance_type: str
    zone: str
    on_demand: int  # nano-USD an hour of one instance
    price: _Price | None
    steps: list[Steps]  # by hour

    @property
    def pays_at_best(self) -> bool:
        """Whether a slot that is always used pays for itself."""
        return self.price is not None and self.price.slot < self.on_demand

    @property
    def sort_key(self) -> tuple[str, str]:
        return self.instance_type, self.zone


def size(
    on_demand: Iterable[OnDemandUse],
    begins: int,
    until: int,
    reservation_prices: Iterable[ReservationPrice],
    savings_plan: SavingsPlan | None = None,
) -> Sizing:
    """The slots that would have paid for themselves between `begins` and `until`, seconds since the epoch."""
    if until < begins:
        raise errors.InvalidInput("the simulated time ends before it begins")
    hours = (until - begins) // HOUR_S
    slot_prices = _slot_prices(reservation_prices)
    uses = [_use(one, begins, hours, slot_prices) for one in on_demand]
    for key, number in Counter(use.sort_key for use in uses).items():
        if number > 1:
            raise errors.InvalidInput(f"the on-demand use of {' in '.join(key)} is listed {number} times")
    uses = sorted((use for use in uses if any(use.steps)), key=lambda use: use.sort_key)
    notes = list(_notes(uses, hours, savings_plan))
    if savings_plan:
        uses = _without_covered(uses, savings_plan, hours)
    results = [result for use in uses if use.pays_at_best for result in _results(use, begins)]
    return Sizing(results=tuple(results), notes=tuple(notes))


def reservations(results: Iterable[SizingResult]) -> tuple[Reservation, ...]:
    """The recommended slots as reservations of a World, to simulate again with them. An EC2NodeClass selects them by
    SELECTOR_TERM."""
    return tuple(
        Reservation(
            id=_reservation_id(one),
            instance_type=one.instance_type,
            zone=one.zone,
            total=one.slots,
            instance_match_criteria="targeted",
            start=datetime.fromtimestamp(one.begins, UTC),
            end=datetime.fromtimestamp(one.ends, UTC),
            tags=dict(SELECTOR_TERM.tags),
        )
        for one in results
    )


def _reservation_id(result: SizingResult) -> str:
    """Made up. The same type, zone and period have the same id."""
    text = f"{result.instance_type} {result.zone} {result.begins} {result.ends}"
    return f"cr-{hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]}"


def _slot_prices(reservation_prices: Iterable[ReservationPrice]) -> dict[str, _Price]:
    slot_prices: dict[str, _Price] = {}
    for one in reservation_prices:
        if one.instance_type in slot_prices:
            raise errors.InvalidInput(f"reservationPrices has {one.instance_type} more than once; keep one")
        shortest_s = times.duration_s(one.min_duration)
        if shortest_s is None:
            raise errors.InvalidInput(
                f"the minDuration {one.min_duration!r} of {one.instance_type} is not a duration such as 24h"
            )
        shortest = max(1, -(-shortest_s // HOUR_S))
        slot_prices[one.instance_type] = _Price(prices.parse(one.usd_per_hour), shortest)
    return slot_prices


def _use(one: OnDemandUse, begins: int, hours: int, slot_prices: dict[str, _Price]) -> _Use:
    where = f"the on-demand use of {one.instance_type} in {one.zone}"
    if any(later < earlier for (earlier, _), (later, _) in pairwise(one.changes)):
        raise errors.InvalidInput(f"{where} is not sorted by time")
    if any(number < 0 for _, number in one.changes):
        raise errors.InvalidInput(f"{where} has a number of instances below 0")
    return _Use(
        instance_type=one.instance_type,
        zone=one.zone,
        on_demand=prices.parse(one.usd_per_hour),
        price=slot_prices.get(one.instance_type),
        steps=sizing_use.hourly(one.changes, begins, hours),
    )


def _notes(uses: Sequence[_Use], hours: int, savings_plan: SavingsPlan | None) -> Iterable[str]:
    """What was left out, and why."""
    without_price = [use.instance_type for use in uses if use.price is None]
    if without_price:
        yield f"No slots are recommended of {_types(without_price)}: reservationPrices has no price."
    free = [use.instance_type for use in uses if use.price and not use.on_demand]
    if free:
        yield f"No slots are recommended of {_types(free)}: the on-demand price is not known."
    expensive = [use.instance_type for use in uses if use.price and 0 < use.on_demand <= use.price.slot]
    if expensive:
        yield f"No slots are recommended of {_types(expensive)}: a slot does not cost less than an on-demand instance."
    short = [
        use.instance_type for use in uses if use.price and use.pays_at_best and use.price.shortest > hours
    ]
    if short:
        yield (
            f"No slots are recommended of {_types(short)}: minDuration is longer than "
            f"the simulated time, {wording.count(hours, 'whole hour')}."
        )
    if savings_plan:
        yield (
            "Slots replace only use that the Savings Plan does not cover. "
            "The plan is assumed to cover first the instances for which slots save the least."
        )


def _types(instance_types: Iterable[str]) -> str:
    return wording.listed(list(dict.fromkeys(instance_types)))


def _without_covered(uses: Sequence[_Use], plan: SavingsPlan, hours: int) -> list[_Use]:
    """The commitment is paid in any case, so a slot saves nothing where the plan covers the use. What a plan covers at
    on-demand prices is the commitment divided by the discounted share, rounded up."""
    committed = prices.parse(plan.usd_per_hour) * HOUR_S * _PERCENT
    covered = -(-committed // (_PERCENT - plan.discount_percent))
    order = sorted(uses, key=lambda use: (_saved_share(use), use.sort_key))
    steps = sizing_use.uncovered([(use.on_demand, use.steps) for use in order], covered, hours)
    remaining = (replace(use, steps=left) for use, left in zip(order, steps, strict=True))
    return sorted(remaining, key=lambda use: use.sort_key)


def _saved_share(use: _Use) -> Fraction:
    """What an always used slot saves of each dollar on demand; 0 if it never pays."""
    if use.price is None or not use.pays_at_best:
        return Fraction(0)
    return 1 - Fraction(use.price.slot, use.on_demand)


def _results(use: _Use, begins: int) -> Iterable[SizingResult]:
    assert use.price is not None
    cost = use.price.slot * HOUR_S
    gains: list[Gains] = [
        tuple((slots, used_s * use.on_demand - cost) for slots, used_s in steps) for steps in use.steps
    ]
    periods = sizing_periods.best(gains, -cost, use.price.shortest)
    for period, of_slots in zip(periods, sizing_periods.marginal(periods, gains, -cost), strict=True):
        yield SizingResult(
            instance_type=use.instance_type,
            zone=use.zone,
            begins=begins + period.begins * HOUR_S,
            ends=begins + period.ends * HOUR_S,
            slots=period.slots,
            usd_cost=_usd(cost * period.slots * (period.ends - period.begins)),
            usd_saved=_usd(sum(of_slots[:-1])),
            marginal=tuple(map(_usd, of_slots)),
        )


def _usd(nano_usd_s: int) -> float:
    return nano_usd_s / _NANO_USD_S_PER_USD
