"""The ledger of the simulated EC2: the cost of each hour by kind, account, tag and agent."""

from ec2_region import HOUR_S, START_S, ZONES, Region, config
from holdfast.sim.ec2 import prices
from holdfast.sim.ec2.setup import ACCOUNT

PRICE = 96_000_000  # m5.large, nano-USD per hour
TAG = "karpenter.sh/nodepool"


def launch_tagged(region: Region, pool: str, count: int = 1) -> list[str]:
    specs = [{"ResourceType": "instance", "Tags": [{"Key": TAG, "Value": pool}]}]
    answer = region.fleet(config(region.template(), "m5.large/a"), count=count, TagSpecifications=specs)
    return [i.id for i in region.launched(answer)]


def test_an_instance_is_billed_from_running_to_shutting_down() -> None:
    region = Region(boot_s=100, shutdown_s=500)
    (instance,) = region.launch()
    region.wait(100 + HOUR_S)
    region.call("TerminateInstances", InstanceIds=[instance.id])
    region.wait(HOUR_S)
    assert region.state.ledger.nano_usd(START_S, region.state.now_s) == {("on-demand", ACCOUNT): PRICE}


def test_a_reservation_is_billed_for_all_slots_and_its_instances_for_nothing() -> None:
    region = Region(boot_s=0)
    region.reserve(total=3)
    region.launch()
    region.wait(HOUR_S)
    costs = region.state.ledger.nano_usd(START_S, region.state.now_s)
    assert costs == {("reservation", ACCOUNT): 3 * PRICE, ("reserved", ACCOUNT): 0}


def test_an_instance_is_billed_as_on_demand_after_its_reservation_ends() -> None:
    region = Region(boot_s=0)
    region.reserve(total=1, end_s=START_S + HOUR_S)
    region.launch()
    region.wait(3 * HOUR_S)
    by_hour = region.state.ledger.by_hour(START_S, START_S + 3 * HOUR_S)
    assert [by_hour[START_S + n * HOUR_S]["reservation", ACCOUNT] for n in range(3)] == [PRICE, 0, 0]
    assert [by_hour[START_S + n * HOUR_S]["on-demand", ACCOUNT] for n in range(3)] == [0, PRICE, PRICE]


def test_costs_are_grouped_by_tag_and_hour() -> None:
    region = Region(boot_s=0)
    launch_tagged(region, "web", 2)
    region.wait(HOUR_S)
    launch_tagged(region, "batch")
    region.wait(HOUR_S)
    by_hour = region.state.ledger.by_hour(START_S, region.state.now_s, tag=TAG)
    first, second = by_hour[START_S], by_hour[START_S + HOUR_S]
    assert (first["on-demand", "web"], first["on-demand", "batch"]) == (2 * PRICE, 0)
    assert (second["on-demand", "web"], second["on-demand", "batch"]) == (2 * PRICE, PRICE)


def test_a_spot_instance_is_billed_at_the_spot_price_of_its_zone() -> None:
    region = Region(boot_s=0)
    region.fleet(config(region.template(), "m5.large/b"), kind="spot")
    region.wait(HOUR_S)
    spot = prices.spot(region.setup, "m5.large", ZONES["b"])
    assert region.state.ledger.nano_usd(START_S, region.state.now_s) == {("spot", ACCOUNT): spot}


def test_a_charge_names_the_agent_that_launched_the_instance() -> None:
    region = Region(boot_s=0)
    (instance,) = region.launch()
    region.wait(1)
    assert region.state.ledger.open[instance.id].agent == "test"
