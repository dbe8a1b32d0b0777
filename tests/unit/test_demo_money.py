"""What the demo costs with reservations and without them, from the ledger of the simulated EC2."""

from ec2_region import HOUR_S, START_S, Region
from holdfast.demo.money import Cost, Meter

PRICE = 96_000_000  # m5.large, nano-USD per hour


def test_used_slot_costs_as_much_as_on_demand_and_an_idle_slot_is_paid_for_in_addition() -> None:
    region = Region(boot_s=0)
    region.reserve(total=3)
    region.launch()
    region.wait(HOUR_S)
    expected = Cost(reservations=3 * PRICE, used=PRICE, unreserved=0)
    assert Meter(region.state).per_hour() == expected
    assert Meter(region.state).total(START_S, region.state.now_s) == expected
    assert (expected.paid, expected.without_reservations, expected.idle) == (3 * PRICE, PRICE, 2 * PRICE)


def test_instances_on_demand_cost_the_same_with_and_without_reservations() -> None:
    region = Region(boot_s=0)
    region.launch()
    region.wait(2 * HOUR_S)
    total = Meter(region.state).total(START_S + HOUR_S, region.state.now_s)
    assert total == Cost(reservations=0, used=0, unreserved=PRICE)
    assert total.paid == total.without_reservations


def test_total_contains_instances_that_ec2_has_removed() -> None:
    region = Region(boot_s=0, shutdown_s=1)
    region.reserve(total=1)
    (instance,) = region.launch()
    meter = Meter(region.state)
    region.wait(HOUR_S)
    assert meter.per_hour().idle == 0
    region.call("TerminateInstances", InstanceIds=[instance.id])
    region.wait(5 * HOUR_S)
    assert instance.id not in {one.id for one in region.state.instances}
    total = meter.total(START_S, region.state.now_s)
    assert total == Cost(reservations=6 * PRICE, used=PRICE, unreserved=0)
    assert (meter.per_hour().idle, total.idle) == (PRICE, 5 * PRICE)
