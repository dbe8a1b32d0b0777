"""The sizing beside an independent judge: all sets of periods of some hours, and three weeks."""

import random
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.api.simulation import ReservationPrice, SavingsPlan
from holdfast.api.simulation_results import OnDemandUse, SizingResult
from holdfast.simulate import sizing
from sizing_judge import HOUR_S, Question, best_by_enumeration, best_single, hourly_savings, upper_bound

BEGINS = 1_800_000_000
DAY, WEEK = 24, 168  # hours


def sized(question: Question) -> tuple[SizingResult, ...]:
    use = OnDemandUse(
        instance_type="p5.48xlarge",
        zone="us-east-1a",
        usd_per_hour=float(question.on_demand),
        changes=tuple(question.changes),
    )
    price = ReservationPrice(
        instance_type="p5.48xlarge", usd_per_hour=question.slot, min_duration=f"{question.shortest}h"
    )
    return sizing.size([use], question.begins, question.begins + question.hours * HOUR_S, [price]).results


def slots_by_hour(results: Sequence[SizingResult], question: Question) -> list[int]:
    slots = [0] * question.hours
    for one in results:
        for hour in range((one.begins - question.begins) // HOUR_S, (one.ends - question.begins) // HOUR_S):
            slots[hour] += one.slots
    return slots


def check(results: Sequence[SizingResult], question: Question) -> None:
    """What holds for every answer."""
    slots = slots_by_hour(results, question)
    saved = question.saving(slots)
    assert sum(one.usd_saved for one in results) == pytest.approx(float(saved), abs=1e-6)
    assert sum(one.usd_cost for one in results) == pytest.approx(float(question.slot) * sum(slots), abs=1e-6)
    for one in results:
        assert one.slots > 0
        assert one.ends - one.begins >= question.shortest * HOUR_S
        assert one.usd_saved > 0
        assert len(one.marginal) == one.slots + 1
        assert sum(one.marginal[:-1]) == pytest.approx(one.usd_saved, abs=1e-6)
        assert list(one.marginal) == sorted(one.marginal, reverse=True)
        assert one.marginal[-2] > 0 >= one.marginal[-1]
        begins, ends = (one.begins - question.begins) // HOUR_S, (one.ends - question.begins) // HOUR_S
        less, more = (
            [number + change * (begins <= hour < ends) for hour, number in enumerate(slots)]
            for change in (-1, 1)
        )
        assert question.saving(less) < saved, "one slot less saves less, next to all the others"
        assert float(question.saving(more) - saved) == pytest.approx(one.marginal[-1], abs=1e-6)


HALF_S = HOUR_S // 2
# Slots of these prices pay if they are used for a third of an hour, for half an hour or longer; many sets save the same.
PRICES = st.sampled_from(
    [("1", "0"), ("3", "1"), ("1", "0.5"), ("0.3", "0.2"), ("1", "0.75"), ("98.32", "90.1"), ("1", "1")]
)


@st.composite
def questions(draw: st.DrawFn, most_hours: int = 12) -> Question:
    """Numbers that change each half hour, and at some other times, before and after the simulation too."""
    hours = draw(st.integers(1, most_hours))
    halves = 2 * hours + 2
    numbers = draw(st.lists(st.integers(0, 3), min_size=halves, max_size=halves) | st.just([]))
    changes = [(half * HALF_S, number) for half, number in enumerate(numbers, start=-1)]
    changes += draw(st.lists(st.tuples(st.integers(0, hours * HOUR_S), st.integers(0, 3)), max_size=4))
    on_demand, slot = draw(PRICES)
    return Question(
        changes=[(BEGINS + at, number) for at, number in sorted(changes)],
        begins=BEGINS,
        hours=hours,
        on_demand=on_demand,
        slot=slot,
        shortest=draw(st.integers(1, 5)),
    )


@given(questions())
@settings(max_examples=400)
def test_sizing_finds_the_best_of_all_sets_of_periods(question: Question) -> None:
    results = sized(question)
    check(results, question)
    slots = slots_by_hour(results, question)
    assert (question.saving(slots), sum(slots)) == best_by_enumeration(question)
    assert results == sized(question)


@given(questions(4), st.integers(0, 3000), st.integers(1, 99))
@settings(max_examples=100)
def test_slots_save_at_least_what_is_reported_next_to_a_savings_plan(
    question: Question, milli_usd: int, discount: int
) -> None:
    """The bill of an hour: the commitment, and what it does not cover. All use is of two types with the same numbers."""
    commitment = Fraction(milli_usd, 1000)
    covered = commitment * 100 / (100 - discount)
    uses = [
        OnDemandUse(instance_type=name, zone="a", usd_per_hour=float(usd), changes=tuple(question.changes))
        for name, usd in (("c5.large", question.on_demand), ("m5.large", "0.5"))
    ]
    slot_prices = [
        ReservationPrice(instance_type="c5.large", usd_per_hour=question.slot),
        ReservationPrice(instance_type="m5.large", usd_per_hour="0.2"),
    ]
    plan = SavingsPlan(usd_per_hour=f"{milli_usd / 1000:.3f}", discount_percent=discount)
    until = question.begins + question.hours * HOUR_S
    results = sizing.size(uses, question.begins, until, slot_prices, plan).results
    of_type = {
        name: slots_by_hour([one for one in results if one.instance_type == name], question)
        for name in ("c5.large", "m5.large")
    }
    saved = Fraction(0)
    for hour, row in enumerate(question.running()):
        bill = [Fraction(0), Fraction(0)]  # without the slots, with them
        for name, usd in (("c5.large", question.on_demand), ("m5.large", "0.5")):
            slots = of_type[name][hour]
            bill[0] += Fraction(usd) * int(row.sum()) / HOUR_S
            bill[1] += Fraction(usd) * sum(max(0, int(number) - slots) for number in row) / HOUR_S
        before, after = (max(Fraction(0), amount - covered) for amount in bill)
        slot_cost = Fraction(question.slot) * of_type["c5.large"][hour]
        saved += before - after - slot_cost - Fraction("0.2") * of_type["m5.large"][hour]
    # It can be more: the plan can cover use that got no slot, and the sizing assigned it before.
    assert float(saved) >= sum(one.usd_saved for one in results) - 1e-6
    assert all(one.usd_saved > 0 for one in results)


def office_hours() -> list[tuple[int, int]]:
    """Five days with a curve from 07:00 to 19:00, and a weekend with one instance at noon."""
    curve = {7: 2, 8: 5, 9: 9, 10: 12, 12: 10, 13: 12, 16: 9, 17: 6, 18: 3, 19: 0}
    weekend = {12: 1, 14: 0}
    return [
        (BEGINS + (day * DAY + hour) * HOUR_S + 600, number)
        for day in range(7)
        for hour, number in (curve if day < 5 else weekend).items()
    ]


def training_burst() -> list[tuple[int, int]]:
    """Eight instances for two days, with a restart in the first half, and not from a whole hour on."""
    hours = ((50.4, 8), (70, 0), (71.5, 8), (98.25, 0))
    return [(BEGINS + int(hour * HOUR_S), number) for hour, number in hours]


def overlapping_jobs() -> list[tuple[int, int]]:
    """Two jobs of a day each; the second begins half a day after the first."""
    return [(BEGINS + hour * HOUR_S, number) for hour, number in ((10, 1), (22, 2), (34, 1), (46, 0))]


def flat_with_noise() -> list[tuple[int, int]]:
    dice = random.Random(7)
    return [(BEGINS + at, 6 + dice.randint(-2, 2)) for at in range(0, WEEK * HOUR_S, 1800)]


def test_office_hours_have_the_best_slots_of_each_hour() -> None:
    question = Question(office_hours(), BEGINS, WEEK, on_demand="4.0", slot="2.6")
    results = sized(question)
    check(results, question)
    table = hourly_savings(question, 13)
    best = [max(range(14), key=lambda slots: (of_hour[slots], -slots)) for of_hour in table]
    assert slots_by_hour(results, question) == best


def test_training_burst_has_the_best_begin_end_and_slots() -> None:
    question = Question(training_burst(), BEGINS, WEEK, on_demand="98.32", slot="70.0", shortest=DAY)
    saving, _, (begins, ends), slots = best_single(question)
    (result,) = sized(question)
    check([result], question)
    found = (result.begins - BEGINS) // HOUR_S, (result.ends - BEGINS) // HOUR_S, result.slots
    assert found == (begins, ends, slots)
    assert result.usd_saved == pytest.approx(float(saving))


def test_flat_base_has_the_best_number_of_slots_for_the_week() -> None:
    question = Question(flat_with_noise(), BEGINS, WEEK, on_demand="0.7", slot="0.4", shortest=WEEK)
    saving, _, (begins, ends), slots = best_single(question)
    (result,) = sized(question)
    check([result], question)
    assert (begins, ends, slots) == (0, WEEK, result.slots)
    assert result.usd_saved == pytest.approx(float(saving))


@pytest.mark.parametrize("shortest", [8, DAY])
@pytest.mark.parametrize("week", [office_hours, training_burst, overlapping_jobs, flat_with_noise])
def test_no_set_of_periods_of_a_week_saves_more(
    week: Callable[[], list[tuple[int, int]]], shortest: int
) -> None:
    question = Question(week(), BEGINS, WEEK, on_demand="1.2", slot="0.7", shortest=shortest)
    results = sized(question)
    check(results, question)
    saving = question.saving(slots_by_hour(results, question))
    assert float(saving) == pytest.approx(upper_bound(question), rel=1e-6)


def test_jobs_that_overlap_have_periods_that_cross() -> None:
    question = Question(overlapping_jobs(), BEGINS, WEEK, on_demand="98.32", slot="70.0", shortest=DAY)
    results = sized(question)
    periods = [((one.begins - BEGINS) // HOUR_S, (one.ends - BEGINS) // HOUR_S, one.slots) for one in results]
    assert periods == [(10, 34, 1), (22, 46, 1)]
    assert sum(one.usd_saved for one in results) == pytest.approx(48 * (98.32 - 70.0))
