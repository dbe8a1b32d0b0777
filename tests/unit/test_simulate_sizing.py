"""Sizing: which slots would have paid for themselves."""

import msgspec
import pytest

from holdfast import errors
from holdfast.api import scenario_schema
from holdfast.api.meta import ObjectMeta, to_wire
from holdfast.api.simulation import ReservationPrice, SavingsPlan
from holdfast.api.simulation_results import OnDemandUse, Sizing, SizingResult
from holdfast.api.world import World, WorldSpec
from holdfast.sim import world_reading
from holdfast.sim.cloud_setup import CloudSetup
from holdfast.simulate import sizing

BEGINS = 1_800_000_000
HOUR = 3600
DAY = 24 * HOUR


def use(
    *changes: tuple[float, int], instance_type: str = "m5.large", zone: str = "us-east-1a", usd: float = 1.0
) -> OnDemandUse:
    """Changes are hours after the start, and numbers."""
    moments = tuple((BEGINS + round(hour * HOUR), number) for hour, number in changes)
    return OnDemandUse(instance_type=instance_type, zone=zone, usd_per_hour=usd, changes=moments)


def price(usd: str, *, instance_type: str = "m5.large", at_least: str = "1h") -> ReservationPrice:
    return ReservationPrice(instance_type=instance_type, usd_per_hour=usd, min_duration=at_least)


def sized(*uses: OnDemandUse, prices: tuple[ReservationPrice, ...], hours: float = 24) -> Sizing:
    return sizing.size(uses, BEGINS, BEGINS + round(hours * HOUR), prices)


def periods(answer: Sizing) -> list[tuple[float, float, int]]:
    return [((r.begins - BEGINS) / HOUR, (r.ends - BEGINS) / HOUR, r.slots) for r in answer.results]


def test_slots_are_recommended_for_the_hours_in_which_they_pay() -> None:
    answer = sized(use((2, 3), (10, 1), (20, 0)), prices=(price("0.6"),))
    assert answer.results == (
        SizingResult(
            instance_type="m5.large",
            zone="us-east-1a",
            begins=BEGINS + 2 * HOUR,
            ends=BEGINS + 20 * HOUR,
            slots=1,
            usd_cost=10.8,
            usd_saved=7.2,
            marginal=(7.2, -10.8),
        ),
        SizingResult(
            instance_type="m5.large",
            zone="us-east-1a",
            begins=BEGINS + 2 * HOUR,
            ends=BEGINS + 10 * HOUR,
            slots=2,
            usd_cost=9.6,
            usd_saved=6.4,
            marginal=(3.2, 3.2, -4.8),
        ),
    )
    assert answer.notes == ()


def test_marginal_value_falls_to_the_first_slot_that_does_not_pay() -> None:
    answer = sized(use((0, 3), (12, 2), (18, 1)), prices=(price("0.6", at_least="24h"),))
    (result,) = answer.results
    assert result.slots == 2
    assert result.marginal == pytest.approx((24 - 14.4, 18 - 14.4, 12 - 14.4))
    assert result.usd_saved == pytest.approx(9.6 + 3.6)


def test_slot_that_would_be_idle_too_long_is_not_recommended() -> None:
    assert periods(sized(use((0, 1), (0.6, 0)), prices=(price("0.59"),))) == [(0, 1, 1)]
    assert periods(sized(use((0, 1), (0.6, 0)), prices=(price("0.60"),))) == []


def test_period_spans_a_pause_that_is_shorter_than_the_shortest_reservation() -> None:
    busy = use((0, 1), (3, 0), (4, 1), (7, 0))
    assert periods(sized(busy, prices=(price("0.5"),))) == [(0, 3, 1), (4, 7, 1)]
    assert periods(sized(busy, prices=(price("0.5", at_least="4h"),))) == [(0, 7, 1)]


def test_period_that_only_breaks_even_is_not_recommended() -> None:
    """Two hours cost as much as an hour and a half on demand."""
    two_hours = (price("0.75", at_least="2h"),)
    assert periods(sized(use((5, 1), (6.5, 0)), prices=two_hours)) == []
    assert periods(sized(use((5.5, 1), (7, 0)), prices=two_hours)) == []
    assert periods(sized(use((5, 4), (6.5, 2), (6.75, 0)), prices=two_hours)) == [(5, 7, 2)]


def test_shortest_duration_is_rounded_up_to_whole_hours() -> None:
    busy = use((1, 1), (3, 0))
    ((begins, ends, slots),) = periods(sized(busy, prices=(price("0.1", at_least="121m"),)))
    assert (ends - begins, slots) == (3, 1)


def test_nothing_is_recommended_without_on_demand_use() -> None:
    assert sized(prices=(price("0.1"),)) == Sizing()
    assert sized(use(), prices=(price("0.1"),)) == Sizing()
    assert sized(use((0, 0)), prices=(price("0"),)) == Sizing()


@pytest.mark.parametrize("usd", ["1.0", "1.000000001", "7"])
def test_slot_that_costs_as_much_as_on_demand_or_more_is_not_recommended(usd: str) -> None:
    answer = sized(use((0, 5)), prices=(price(usd),))
    assert answer.results == ()
    assert answer.notes == (
        "No slots are recommended of m5.large: a slot does not cost less than an on-demand instance.",
    )


def test_smallest_saving_counts() -> None:
    answer = sized(use((0, 5)), prices=(price("0.999999999"),))
    assert periods(answer) == [(0, 24, 5)]
    assert answer.results[0].usd_saved == pytest.approx(24 * 5e-9)


def test_reservation_that_is_longer_than_the_simulation_is_not_recommended() -> None:
    answer = sized(use((0, 5)), prices=(price("0.1", at_least="25h"),))
    assert answer.results == ()
    assert answer.notes == (
        "No slots are recommended of m5.large: minDuration is longer than the simulated time, 24 whole hours.",
    )


def test_type_without_a_price_is_named() -> None:
    answer = sized(
        use((0, 5)),
        use((0, 1), zone="us-east-1b"),
        use((0, 1), instance_type="c5.large"),
        prices=(price("0.1", instance_type="c5.large"),),
    )
    assert [result.instance_type for result in answer.results] == ["c5.large"]
    assert answer.notes == ("No slots are recommended of m5.large: reservationPrices has no price.",)


def test_unknown_on_demand_price_is_named() -> None:
    answer = sized(use((0, 5), usd=0.0), prices=(price("0.1"),))
    assert answer.results == ()
    assert answer.notes == ("No slots are recommended of m5.large: the on-demand price is not known.",)


def test_zones_are_sized_separately() -> None:
    answer = sized(use((0, 2), zone="b"), use((5, 1), zone="a"), prices=(price("0.5"),))
    assert [(r.zone, r.slots) for r in answer.results] == [("a", 1), ("b", 2)]


def test_use_outside_of_the_simulated_time_does_not_count() -> None:
    answer = sized(use((-5, 4), (-1, 2), (3, 0), (24, 9), (30, 0)), prices=(price("0.5"),))
    assert periods(answer) == [(0, 3, 2)]
    assert sized(use((24, 9)), prices=(price("0.5"),)).results == ()


def test_last_part_of_an_hour_is_left_out() -> None:
    assert periods(sized(use((0, 1)), prices=(price("0.5"),), hours=3.9)) == [(0, 3, 1)]
    assert sized(use((0, 1)), prices=(price("0.5"),), hours=0.9).results == ()


def test_slot_saves_nothing_where_a_savings_plan_covers_the_use() -> None:
    """The plan covers 1.00 / 0.5 = 2.00 USD an hour: two of three instances."""
    plan = SavingsPlan(usd_per_hour="1.00", discount_percent=50)
    answer = sizing.size([use((0, 3))], BEGINS, BEGINS + DAY, [price("0.6")], plan)
    assert periods(answer) == [(0, 24, 1)]
    assert answer.results[0].marginal == pytest.approx((24 * 0.4, -24 * 0.6))
    (note,) = answer.notes
    assert note.startswith("Slots replace only use that the Savings Plan does not cover.")


def test_savings_plan_covers_first_what_no_slot_can_replace() -> None:
    plan = SavingsPlan(usd_per_hour="1.00", discount_percent=50)
    uses = [use((0, 1)), use((0, 2), instance_type="c5.large")]
    answer = sizing.size(uses, BEGINS, BEGINS + DAY, [price("0.6")], plan)
    assert periods(answer) == [(0, 24, 1)]


@pytest.mark.parametrize(
    ("uses", "prices", "message"),
    [
        ([use((5, 1), (4, 2))], [], "the on-demand use of m5.large in us-east-1a is not sorted by time"),
        ([use((5, -1))], [], "the on-demand use of m5.large in us-east-1a has a number of instances below 0"),
        ([use(), use()], [], "the on-demand use of m5.large in us-east-1a is listed 2 times"),
        ([], [price("1"), price("2")], "reservationPrices has m5.large more than once; keep one"),
        ([], [price("1", at_least="1d")], "the minDuration '1d' of m5.large is not a duration such as 24h"),
        ([], [price("cheap")], "price 'cheap' is not a number of USD an hour such as 0.0832"),
    ],
)
def test_bad_input_is_refused(uses: list[OnDemandUse], prices: list[ReservationPrice], message: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        sizing.size(uses, BEGINS, BEGINS + DAY, prices)
    assert str(refused.value) == message


def test_time_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="ends before it begins"):
        sizing.size([], BEGINS, BEGINS - 1, [])


def test_order_of_the_input_does_not_change_the_answer() -> None:
    uses = [
        use((0, 2), zone="b"),
        use((0, 2), zone="a"),
        use((0, 2), instance_type="c5.large"),
    ]
    prices = [price("0.5"), price("0.4", instance_type="c5.large")]
    plan = SavingsPlan(usd_per_hour="1.50", discount_percent=30)
    answer = sizing.size(uses, BEGINS, BEGINS + DAY, prices, plan)
    assert sizing.size(uses[::-1], BEGINS, BEGINS + DAY, prices[::-1], plan) == answer


def test_answer_can_be_written_and_read() -> None:
    answer = sized(use((2, 3), (10, 1)), use((0, 1), instance_type="c5.large"), prices=(price("0.6"),))
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Sizing) == answer


def test_recommended_slots_become_reservations_of_a_world() -> None:
    busy = use((2, 3), (10, 1), (20, 0), zone="us-west-2a")
    answer = sized(busy, prices=(price("0.6"),))
    reserved = sizing.reservations(answer.results)
    assert sizing.reservations(answer.results) == reserved
    world = to_wire(World(metadata=ObjectMeta(name="again"), spec=WorldSpec(reservations=reserved)))
    assert scenario_schema.findings(world, World) == []
    setup = world_reading.read(msgspec.convert(world, World), BEGINS)
    assert isinstance(setup, CloudSetup)
    first, second = setup.reservations
    assert first.id != second.id
    assert (first.instance_type, first.total, first.criteria) == ("m5.large", 1, "targeted")
    assert (first.start_s, first.end_s) == (BEGINS + 2 * HOUR, BEGINS + 20 * HOUR)
    assert (second.start_s, second.end_s, second.total) == (BEGINS + 2 * HOUR, BEGINS + 10 * HOUR, 2)
    assert first.tags == second.tags == sizing.SELECTOR_TERM.tags
