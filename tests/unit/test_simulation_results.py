"""What a simulation cost, from what was paid for. The amounts are computed by hand."""

from typing import Any

import pytest

from holdfast.api.simulation import SavingsPlan
from holdfast.sim.ec2.entities import Reservation
from holdfast.simulate import bills, pod_times, results
from holdfast.simulate.bills import NANO, Use
from holdfast.simulate.results import Paid, Samples

HOUR_S = 3600
DAY_S = 24 * HOUR_S
ZONES = {"usw2-az2": "us-west-2a"}


def use(what: str, kind: str, from_h: float, to_h: float, usd: float = 0.1, reservation: str = "") -> Use:
    nano = int(usd * NANO)
    return Use(
        what, kind, "m5.large", "us-west-2a", reservation, nano, int(from_h * HOUR_S), int(to_h * HOUR_S)
    )


def reservation(id_: str = "cr-1", total: int = 2, **fields: Any) -> Reservation:
    plain: dict[str, Any] = {"owner": "1", "instance_type": "m5.large", "zone_id": "usw2-az2", "available": 0}
    return Reservation(id=id_, total=total, created_s=0, start_s=0, **(plain | fields))


def paid(*uses: Use, until_s: int = DAY_S) -> Paid:
    return Paid(uses, 0, until_s)


def samples(elsewhere: int = 0, hours: int = 24) -> Samples:
    found = Samples(0, HOUR_S)
    for _ in range(hours):
        found.pods_running.append(1)
        found.pods_waiting.append(0)
        found.elsewhere.update({"cr-1": elsewhere})
    return found


def test_slots_are_used_or_idle() -> None:
    everything = paid(
        use("cr-1", "reservation", 0, 24, 0.2, "cr-1"), use("i-1", "reserved", 6, 24, 0, "cr-1")
    )
    (row,) = results.reservations(everything, [reservation()], samples(), ZONES)
    assert (row.slot_hours, row.used_hours, row.idle_hours) == (48, 18, 30)
    assert (row.usd, row.idle_usd) == (4.8, 3.0)
    found = results.dollars(everything, [row], None)
    assert (found.reserved_used, found.reserved_idle, found.total) == (1.8, 3.0, 4.8)


def test_slots_that_others_use_are_not_idle() -> None:
    everything = paid(use("cr-1", "reservation", 0, 24, 0.2, "cr-1"))
    (row,) = results.reservations(everything, [reservation()], samples(elsewhere=1), ZONES)
    assert (row.elsewhere_hours, row.idle_hours) == (24, 24)
    assert results.dollars(everything, [row], None).reserved_elsewhere == 2.4


def test_slots_that_are_lent_are_used_in_their_source() -> None:
    source = reservation(lent_to="cr-2", lent=1)
    lent = reservation("cr-2", total=1, interruptible=True, source_id="cr-1")
    everything = paid(
        use("cr-1", "reservation", 0, 24, 0.2, "cr-1"), use("i-1", "reserved", 0, 24, 0, "cr-2")
    )
    rows = {row.id: row for row in results.reservations(everything, [source, lent], samples(), ZONES)}
    assert (rows["cr-1"].used_hours, rows["cr-1"].idle_hours) == (24, 24)
    assert (rows["cr-2"].usd, rows["cr-2"].kind) == (0, "interruptible")
    assert results.dollars(everything, list(rows.values()), None).total == 4.8


def test_block_that_ends_is_paid_for_until_its_end() -> None:
    block = reservation(kind="capacity-block", end_s=12 * HOUR_S)
    (row,) = results.reservations(
        paid(use("cr-1", "capacity-block", 0, 12, 0.2, "cr-1")), [block], samples(), ZONES
    )
    assert (row.slot_hours, row.usd, row.ends) == (24, 2.4, 12 * HOUR_S)
    marks = results.events([block], 0, DAY_S)
    assert [(mark.type, mark.at // 60) for mark in marks] == [
        ("block-drains", 11 * 60 + 20), ("reservation-ends", 12 * 60),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("instances", "on_demand"),
    # 0.4 an hour pays for 0.5 at on-demand prices: five instances.
    [(0, 0.0), (3, 0.0), (5, 0.0), (8, 24 * 0.3)],
)
def test_savings_plan_is_paid_and_covers_what_it_can_each_hour(instances: int, on_demand: float) -> None:
    everything = paid(*(use(f"i-{n}", "on-demand", 0, 24) for n in range(instances)))
    found = results.dollars(everything, [], SavingsPlan(usd_per_hour="0.4", discount_percent=20))
    assert found.savings_plan == 9.6
    assert found.on_demand == pytest.approx(on_demand)
    assert found.total == pytest.approx(9.6 + on_demand)


def test_unused_hours_of_a_savings_plan_do_not_pay_for_others() -> None:
    everything = paid(*(use(f"i-{n}", "on-demand", 0, 1) for n in range(10)), until_s=2 * HOUR_S)
    found = results.dollars(everything, [], SavingsPlan(usd_per_hour="0.4", discount_percent=20))
    assert (found.on_demand, found.savings_plan) == (0.5, 0.8)


def test_on_demand_use_counts_instances_from_each_change_on() -> None:
    (found,) = results.on_demand_use(
        paid(use("i-1", "on-demand", 0, 2), use("i-2", "on-demand", 1, 2), use("i-3", "on-demand", 2, 3))
    )
    assert found.changes == ((0, 1), (HOUR_S, 2), (2 * HOUR_S, 1), (3 * HOUR_S, 0))
    assert found.usd_per_hour == 0.1


def test_timeline_has_the_values_at_each_step() -> None:
    everything = paid(
        use("cr-1", "reservation", 0, 4, 0.2, "cr-1"),
        use("i-1", "reserved", 1, 3, 0, "cr-1"),
        use("i-2", "on-demand", 0.5, 2.5),
        use("i-3", "spot", 3, 4, 0.03),
        until_s=4 * HOUR_S,
    )
    rows = results.reservations(everything, [reservation()], samples(hours=4), ZONES)
    found = results.timeline(everything, samples(hours=4), rows)
    assert found.reserved_nodes == (0, 1, 1, 0)
    assert found.on_demand_nodes == (0, 1, 1, 0)
    assert found.spot_nodes == (0, 0, 0, 1)
    assert found.slots_used == {"cr-1": (0, 1, 1, 0)}
    assert found.usd_reserved_used == (0.0, 0.1, 0.1, 0.0)
    assert found.usd_reserved_idle == (0.2, 0.1, 0.1, 0.2)
    assert found.usd_on_demand == (0.0, 0.1, 0.1, 0.0)


def test_percentile_is_the_nearest_rank() -> None:
    assert [pod_times.percentile([1.0, 2.0, 3.0, 4.0], percent) for percent in (50, 90, 99, 100)] == [
        2,
        4,
        4,
        4,
    ]
    assert pod_times.percentile([], 50) == 0
    assert bills.usd(123_456_789) == 0.1235
