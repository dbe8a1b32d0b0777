"""What a simulated account paid for, and what is kept of it for weeks."""

from ec2_region import HOUR_S, START_S, Region, config
from holdfast.sim.ec2.setup import ACCOUNT
from holdfast.simulate import bills
from holdfast.simulate.bills import Bills

HOURS = 6


def turned_over(region: Region, found: Bills, count: int) -> None:
    """Launches and terminates an instance, so many times, one an hour."""
    for _ in range(count):
        (instance,) = region.launch()
        region.wait(HOUR_S // 2)
        found.see()
        region.call("TerminateInstances", InstanceIds=[instance.id])
        region.wait(HOUR_S // 2)
        found.see()


def test_what_forgotten_instances_cost_is_kept() -> None:
    region = Region(boot_s=0, shutdown_s=0)
    found = Bills(region.state, ACCOUNT)
    turned_over(region, found, HOURS)
    expected = region.state.ledger.nano_usd(START_S, region.state.now_s)
    region.wait(3 * HOUR_S)
    uses = found.uses(region.state.now_s)
    assert len(uses) == HOURS
    assert {(one.kind, one.instance_type, one.zone) for one in uses} == {
        ("on-demand", "m5.large", "us-west-2a")
    }
    assert len({one.what for one in uses}) == HOURS
    assert bills.seconds(uses) == HOURS * HOUR_S // 2
    assert expected["on-demand", ACCOUNT] <= bills.nano_usd(uses)


def test_a_slot_of_a_forgotten_instance_was_used() -> None:
    region = Region(boot_s=0, shutdown_s=0)
    reservation = region.reserve(total=1)
    found = Bills(region.state, ACCOUNT)
    turned_over(region, found, 1)
    region.wait(3 * HOUR_S)
    (use,) = (one for one in found.uses(region.state.now_s) if one.kind == bills.IN_SLOT)
    assert (use.reservation, use.to_s - use.from_s) == (reservation.id, HOUR_S // 2)


def test_slot_of_an_instance_that_ran_for_minutes_was_used() -> None:
    """Nothing looks at the instance while it runs, and a terminated instance is in no reservation."""
    region = Region(boot_s=0, shutdown_s=0)
    reservation = region.reserve(total=1)
    found = Bills(region.state, ACCOUNT)
    (instance,) = region.launch()
    region.wait(HOUR_S // 6)
    region.call("TerminateInstances", InstanceIds=[instance.id])
    region.wait(HOUR_S // 6)
    (use,) = (one for one in found.uses(region.state.now_s) if one.kind == bills.IN_SLOT)
    assert (use.reservation, use.to_s - use.from_s) == (reservation.id, HOUR_S // 6)


def test_nothing_else_grows_with_the_number_of_launches() -> None:
    region = Region(boot_s=0, shutdown_s=0)
    found = Bills(region.state, ACCOUNT)

    def sizes() -> list[int]:
        region.wait(2 * HOUR_S)
        region.fleet(config(region.template(), "m5.large/a"))
        found.see()
        state = region.state
        return [len(state.ledger.closed), len(state.fleets), len(state.usage.private_ips)]

    turned_over(region, found, 2)
    before = sizes()
    turned_over(region, found, 10)
    after = sizes()
    assert all(later <= earlier + 1 for earlier, later in zip(before, after, strict=True))


def test_a_response_is_repeated_for_two_days() -> None:
    region = Region(boot_s=0)
    template = region.template()
    first = region.fleet(config(template, "m5.large/a"), ClientToken="t")
    region.wait(24 * HOUR_S)
    assert region.fleet(config(template, "m5.large/a"), ClientToken="t") == first
    region.wait(25 * HOUR_S)
    region.fleet(config(template, "m5.large/a"), ClientToken="u")
    assert region.fleet(config(template, "m5.large/a"), ClientToken="t") != first
