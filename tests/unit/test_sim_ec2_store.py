"""The simulated EC2 has the same state after a restart."""

from ec2_region import HOUR_S, START_S, Region, config
from holdfast.sim.ec2 import checkers, store


def restart(before: Region) -> Region:
    after = Region(seed=8)
    after.clock.seconds = before.clock.seconds
    store.load(after.state, store.dump(before.state))
    checkers.check(after.state)
    return after


def test_a_restart_preserves_the_state_of_ec2() -> None:
    region = Region(boot_s=20)
    reservation = region.reserve(criteria="targeted", end_s=START_S + HOUR_S)
    template = region.targeting(reservation)
    wanted = config(template, "m5.large/a")
    answer = region.fleet(wanted, ClientToken="t-1")
    instances = region.call("DescribeInstances")
    after = restart(region)
    assert after.call("DescribeInstances") == instances
    assert after.fleet(wanted, ClientToken="t-1") == answer
    (shown,) = after.call("DescribeLaunchTemplates", LaunchTemplateNames=[template])["LaunchTemplates"]
    assert (
        shown == region.call("DescribeLaunchTemplates", LaunchTemplateNames=[template])["LaunchTemplates"][0]
    )
    for each in (region, after):
        each.wait(HOUR_S)
        (instance,) = each.launched(answer)
        assert (instance.state, instance.reservation_id) == ("running", "")
    ends_s = region.state.now_s
    assert after.state.ledger.nano_usd(START_S, ends_s) == region.state.ledger.nano_usd(START_S, ends_s)
