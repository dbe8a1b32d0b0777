"""CreateFleet and RunInstances of the simulated EC2.

The table of reservations is tested in tests/contract/test_sim_ec2_fleet_table.py.
"""

from dataclasses import replace
from typing import Any

import pytest

from ec2_region import OTHER, START_S, ZONES, Region, config, errors, pools
from holdfast.sim.ec2 import control, prices
from holdfast.sim.ec2.faults import Partial
from holdfast.sim.ec2.setup import ACCOUNT, PlacementGroup

ONLY = "capacity-reservations-only"
BLOCK = "capacity-block"
INTERRUPTIBLE = "interruptible-capacity-reservation"
DAY_S = 86400


def block(region: Region, **fields: Any) -> Any:
    plain: dict[str, Any] = {"kind": BLOCK, "criteria": "targeted", "end_s": START_S + DAY_S}
    return region.reserve("p5.48xlarge", "b", **(plain | fields))


def fleet_error(region: Region, *configs: dict[str, Any], kind: str = "on-demand", **params: Any) -> str:
    target = {"DefaultTargetCapacityType": kind, "TotalTargetCapacity": params.pop("count", 1)}
    return region.refusal(
        "CreateFleet", LaunchTemplateConfigs=list(configs), TargetCapacitySpecification=target, **{"Type": "instant", **params}
    ).code  # fmt: skip


# --- Responses --------------------------------------------------------------------------------------


def test_one_fleet_launches_at_most_1000_instances_each_with_its_own_id_and_address() -> None:
    region = Region()
    answer = region.fleet(config(region.template(), "m5.large/a"), count=1000)
    made = region.launched(answer)
    assert len({i.id for i in made}) == len({i.private_ip for i in made}) == 1000
    assert answer["Errors"] == []
    assert (
        fleet_error(region, config(region.template(), "m5.large/a"), count=1001)
        == "InvalidTargetCapacitySpecification"
    )


@pytest.mark.fact("aws-15.2")
def test_fleet_instances_and_errors_name_their_override() -> None:
    region = Region()
    control.limit_pool(region.state, "m5.large", ZONES["a"], "on-demand", 2)
    subnet = region.setup.subnets[0].id
    wanted = config(region.template(), "m5.large/a", SubnetId=subnet, Priority=0.5)
    answer = region.fleet(wanted, count=3)
    (group,), (error,) = answer["Instances"], answer["Errors"]
    for each in (group, error):
        override = each["LaunchTemplateAndOverrides"]["Overrides"]
        assert override["InstanceType"] == "m5.large"
        assert override["AvailabilityZone"] == "us-west-2a"
        assert override["SubnetId"] == subnet
        assert override["Priority"] == 0.5
        assert each["LaunchTemplateAndOverrides"]["LaunchTemplateSpecification"]["Version"] == "1"
        assert each["Lifecycle"] == "on-demand"
    assert len(group["InstanceIds"]) == 2
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"


def test_a_fleet_with_too_few_instances_has_an_error() -> None:
    region = Region(rules=[Partial(at_most=2)])
    answer = region.fleet(config(region.template(), "m5.large/a"), count=5)
    assert pools(answer) == {"m5.large/a": 2}
    assert errors(answer) == [("m5.large/a", "InsufficientInstanceCapacity")]


def test_instances_have_the_tags_of_the_call_and_of_ec2() -> None:
    region = Region()
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "ml"}]}]
    answer = region.fleet(config(region.template(), "m5.large/a"), TagSpecifications=tags)
    (instance,) = region.launched(answer)
    assert instance.tags["team"] == "ml"
    assert instance.tags["aws:ec2:fleet-id"] == answer["FleetId"]
    assert instance.tags["aws:ec2launchtemplate:version"] == "1"


# --- Allocation strategies --------------------------------------------------------------------------


def test_lowest_price_fills_the_cheapest_pool_first_and_ignores_priorities() -> None:
    region = Region()
    control.limit_pool(region.state, "m5.large", ZONES["a"], "on-demand", 2)
    template = region.template()
    dear, cheap = config(template, "m5.2xlarge/a", Priority=0), config(template, "m5.large/a", Priority=9)
    answer = region.fleet(dear, cheap, count=3)
    assert pools(answer) == {"m5.large/a": 2, "m5.2xlarge/a": 1}


def test_prioritized_uses_the_lowest_number_first_and_no_number_last() -> None:
    region = Region()
    template = region.template()
    configs = (
        config(template, "m5.large/a"),
        config(template, "m5.xlarge/a", Priority=2.0),
        config(template, "m5.2xlarge/a", Priority=1.0),
    )
    options: dict[str, Any] = {"OnDemandOptions": {"AllocationStrategy": "prioritized"}}
    for name, left in (("m5.2xlarge", 1), ("m5.xlarge", 1)):
        control.limit_pool(region.state, name, ZONES["a"], "on-demand", left)
    answer = region.fleet(*configs, count=3, **options)
    assert pools(answer) == {"m5.2xlarge/a": 1, "m5.xlarge/a": 1, "m5.large/a": 1}
    assert [i.instance_type for i in region.launched(answer)] == ["m5.2xlarge", "m5.xlarge", "m5.large"]


def test_spot_instances_come_from_the_cheapest_deep_pool_and_have_a_request_id() -> None:
    region = Region()
    wanted = [f"m5.large/{letter}" for letter in ZONES]
    deep = [z for z in ZONES.values() if prices.spot_depth("m5.large", z) >= 5]
    assert deep, "the test needs a deep pool"
    answer = region.fleet(
        config(region.template(), *wanted),
        kind="spot",
        SpotOptions={"AllocationStrategy": "price-capacity-optimized"},
    )
    (instance,) = region.launched(answer)
    cheapest = min(deep, key=lambda z: prices.spot(region.setup, "m5.large", z) or 0)
    assert instance.zone_id == cheapest
    assert instance.lifecycle == "spot"
    assert instance.spot_request_id.startswith("sir-")
    assert answer["Instances"][0]["Lifecycle"] == "spot"


@pytest.mark.parametrize("strategy", ["lowest-price", "capacity-optimized", "capacity-optimized-prioritized"])
def test_each_spot_allocation_strategy_has_its_own_order_of_pools(strategy: str) -> None:
    region = Region()
    names = ("m5.large", "m5a.xlarge", "r5.large", "r5.xlarge", "c5.large")
    template = region.template()
    configs = [config(template, f"{name}/a", Priority=float(-n)) for n, name in enumerate(names)]
    answer = region.fleet(*configs, kind="spot", SpotOptions={"AllocationStrategy": strategy})
    (instance,) = region.launched(answer)
    depths = {name: prices.spot_depth(name, ZONES["a"]) for name in names}
    deepest = [name for name in names if depths[name] == max(depths.values())]
    assert len(deepest) > 1, "the test needs two pools that are equally deep"
    expected = {
        "lowest-price": min(names, key=lambda name: prices.spot(region.setup, name, ZONES["a"]) or 0),
        "capacity-optimized": deepest[0],
        "capacity-optimized-prioritized": deepest[-1],
    }
    assert instance.instance_type == expected[strategy]


def test_spot_never_uses_a_reservation_and_respects_the_maximum_price() -> None:
    region = Region()
    reservation = region.reserve()
    (instance,) = region.launched(region.fleet(config(region.template(), "m5.large/a"), kind="spot"))
    assert instance.reservation_id == ""
    targeted = region.fleet(config(region.targeting(reservation, ONLY), "m5.large/a"), kind="spot")
    assert errors(targeted) == [("m5.large/a", "InvalidParameterCombination")]
    cheap = region.fleet(config(region.template(), "m5.large/a", MaxPrice="0.000001"), kind="spot")
    assert errors(cheap) == [("m5.large/a", "SpotMaxPriceTooLow")]


def test_a_fleet_below_its_min_target_capacity_launches_nothing() -> None:
    region = Region()
    control.limit_pool(region.state, "m5.large", ZONES["a"], "on-demand", 2)
    control.limit_pool(region.state, "m5.large", ZONES["b"], "on-demand", 3)
    wanted = config(region.template(), "m5.large/a", "m5.large/b")
    options = {"MinTargetCapacity": 4, "SingleAvailabilityZone": True}
    nothing = region.fleet(wanted, count=4, OnDemandOptions=options)
    assert nothing["Instances"] == []
    assert {code for _, code in errors(nothing)} == {"InsufficientInstanceCapacity"}
    three = region.fleet(wanted, count=3, OnDemandOptions={**options, "MinTargetCapacity": 3})
    assert pools(three) == {"m5.large/b": 3}
    assert (
        fleet_error(region, wanted, OnDemandOptions={"MinTargetCapacity": 1}) == "InvalidParameterCombination"
    )


# --- Reserved capacity ------------------------------------------------------------------------------


@pytest.mark.fact("aws-15.2")
def test_a_capacity_block_is_used_only_by_a_capacity_block_fleet_without_fallback() -> None:
    region = Region()
    reservation = block(region, total=2)
    template = region.targeting(reservation, ONLY, BLOCK)
    answer = region.fleet(config(template, "p5.48xlarge/b"), count=3, kind=BLOCK)
    assert [i.reservation_id for i in region.launched(answer)] == [reservation.id] * 2
    assert errors(answer) == [("p5.48xlarge/b", "ReservationCapacityExceeded")]
    assert fleet_error(region, config(template, "p5.48xlarge/b")) == "InvalidFleetConfig"
    without_market = region.targeting(reservation, ONLY)
    assert fleet_error(region, config(without_market, "p5.48xlarge/b"), kind=BLOCK) == "InvalidFleetConfig"
    as_ordinary = region.fleet(config(without_market, "p5.48xlarge/b"))
    assert errors(as_ordinary) == [("p5.48xlarge/b", "InvalidParameterCombination")]


@pytest.mark.fact("aws-15.2")
def test_a_fleet_with_two_capacity_blocks_is_refused() -> None:
    region = Region()
    one, two = block(region), region.reserve("p5.48xlarge", "c", kind=BLOCK, end_s=START_S + DAY_S)
    configs = (
        config(region.targeting(one, ONLY, BLOCK), "p5.48xlarge/b"),
        config(region.targeting(two, ONLY, BLOCK), "p5.48xlarge/c"),
    )
    assert fleet_error(region, *configs, kind=BLOCK) == "InvalidFleetConfig"


def interruptible_reservation(region: Region) -> Any:
    source = region.reserve(criteria="targeted", total=1)
    region.call(
        "CreateInterruptibleCapacityReservationAllocation", CapacityReservationId=source.id, InstanceCount=1
    )
    return region.state.reservations[region.state.reservations[source.id].lent_to]


@pytest.mark.fact("aws-15.3")
def test_karpenters_fleet_request_launches_into_an_interruptible_reservation() -> None:
    region = Region()
    interruptible = interruptible_reservation(region)
    wanted = config(region.targeting(interruptible, ONLY, INTERRUPTIBLE), "m5.large/a")
    options: dict[str, Any] = {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE]}}
    answer = region.fleet(wanted, count=2, kind="reserved-capacity", **options)
    assert [i.reservation_id for i in region.launched(answer)] == [interruptible.id]
    assert answer["Instances"][0]["Lifecycle"] == INTERRUPTIBLE
    assert errors(answer) == [("m5.large/a", "ReservationCapacityExceeded")]
    assert fleet_error(region, wanted, kind="reserved-capacity") == "InvalidParameterCombination"
    assert fleet_error(region, wanted, **options) == "InvalidParameterCombination"


def test_reserved_capacity_uses_its_targets_by_reservation_type_and_then_falls_back() -> None:
    region = Region()
    ordinary = region.reserve(criteria="targeted", total=1)
    other = region.reserve(criteria="targeted", total=1)  # matches but is not a target
    interruptible = interruptible_reservation(region)
    options: dict[str, Any] = {
        "ReservationTypes": [INTERRUPTIBLE, "on-demand-capacity-reservation"],
        "CapacityReservationTarget": {"CapacityReservationIds": [ordinary.id, interruptible.id]},
    }
    wanted = config(region.template(), "m5.large/a")
    answer = region.fleet(wanted, count=2, kind="reserved-capacity", ReservedCapacityOptions=options)
    assert [i.reservation_id for i in region.launched(answer)] == [interruptible.id, ordinary.id]
    full = region.fleet(wanted, kind="reserved-capacity", ReservedCapacityOptions=options)
    assert errors(full) == [("m5.large/a", "ReservationCapacityExceeded")]
    options["ReservedCapacityFallbackOptions"] = {"MarketTypes": ["on-demand"]}
    (fallback,) = region.launched(
        region.fleet(wanted, kind="reserved-capacity", ReservedCapacityOptions=options)
    )
    assert (fallback.reservation_id, fallback.lifecycle) == ("", "")
    assert region.available(other) == 1


def test_reserved_capacity_targets_ids_or_resource_groups_but_not_both() -> None:
    region = Region()
    one, two = region.reserve(criteria="targeted", total=1), region.reserve(criteria="targeted", total=1)
    group = control.add_group(region.state, account=ACCOUNT, name="g", members=(one.id, two.id))
    target: dict[str, Any] = {"CapacityReservationResourceGroupArns": [group.id]}
    options = {"ReservationTypes": ["on-demand-capacity-reservation"], "CapacityReservationTarget": target}
    wanted = config(region.template(), "m5.large/a")
    answer = region.fleet(wanted, count=2, kind="reserved-capacity", ReservedCapacityOptions=options)
    assert [i.reservation_id for i in region.launched(answer)] == [one.id, two.id]
    target["CapacityReservationIds"] = [one.id]
    both = fleet_error(region, wanted, kind="reserved-capacity", ReservedCapacityOptions=options)
    assert both == "InvalidParameterCombination"


def test_reservations_only_without_a_target_uses_only_open_reservations() -> None:
    region = Region()
    open_one = region.reserve(total=1)
    region.reserve(total=1, criteria="targeted")
    template = region.template(CapacityReservationSpecification={"CapacityReservationPreference": ONLY})
    answer = region.fleet(config(template, "m5.large/a"), count=2)
    assert [i.reservation_id for i in region.launched(answer)] == [open_one.id]
    assert errors(answer) == [("m5.large/a", "ReservationCapacityExceeded")]


# --- Errors and limits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "pool", "code"),
    [
        ({"ImageId": "ami-0ffffffffffffffff"}, "m5.large/a", "InvalidAMIID.NotFound"),
        ({"SecurityGroupIds": ["sg-0"]}, "m5.large/a", "InvalidGroup.NotFound"),
        ({"IamInstanceProfile": {"Name": "gone"}}, "m5.large/a", "InvalidParameterValue"),
        ({"SecurityGroups": ["no-name"]}, "m5.large/a", "InvalidGroup.NotFound"),
        ({"Placement": {"GroupName": "no-ring"}}, "m5.large/a", "InvalidPlacementGroup.Unknown"),
        (
            {"InstanceRequirements": {"VCpuCount": {"Min": 1}, "MemoryMiB": {"Min": 1}}},
            "m5.large/a",
            "UnsupportedOperation",
        ),
        ({}, "m6g.large/a", "InvalidParameterValue"),  # an x86 image
        ({}, "m5.gigantic/a", "InvalidParameterValue"),
        ({}, "m5n.large/d", "Unsupported"),  # not offered in this zone
    ],
)
def test_an_invalid_override_is_an_error_of_its_pool_only(data: dict[str, Any], pool: str, code: str) -> None:
    region = Region(has_profile=lambda name: name != "gone")
    answer = region.fleet(config(region.template(**data), pool), config(region.template(), "m5.2xlarge/b"))
    assert errors(answer) == [(pool, code)]
    assert pools(answer) == {"m5.2xlarge/b": 1}


def test_a_mismatch_of_zone_subnet_or_vpc_is_an_error_of_the_pool() -> None:
    region = Region()
    template = region.template(SecurityGroups=["holdfast-nodes"])
    (first, second), group = region.setup.subnets[:2], region.setup.security_groups[0]

    def code(pool: str, **fields: str) -> str:
        (error,) = region.fleet(config(template, pool, **fields))["Errors"]
        return str(error["ErrorCode"])

    unknown = {"InstanceType": "m5.large", "AvailabilityZone": "us-west-2z"}
    answer = region.fleet(config(template) | {"Overrides": [unknown]})
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["InvalidParameterValue"]
    assert code("m5.large/a", SubnetId=second.id) == "InvalidParameterValue"
    assert code("m5.large/a", SubnetId="subnet-0") == "InvalidSubnetID.NotFound"
    region.state.setup = replace(region.setup, security_groups=(replace(group, vpc_id="vpc-2"),))
    assert code("m5.large/a", SubnetId=first.id) == "InvalidParameter"
    assert len(region.state.instances) == 0


def test_an_override_replaces_fields_of_the_launch_template() -> None:
    region = Region()
    template = region.template(ImageId="ami-0ffffffffffffffff", IamInstanceProfile={"Name": "one"})
    profile = {"IamInstanceProfile": {"Name": "two"}, "ImageId": region.setup.images[0].id}
    (instance,) = region.launched(region.fleet(config(template, "m5.large/a", **profile)))
    assert (instance.spec.image_id, instance.spec.profile) == (region.setup.images[0].id, "two")


def test_an_override_may_use_a_zone_id_and_no_zone_twice() -> None:
    region = Region()
    template = region.template()
    by_id = config(template) | {"Overrides": [{"InstanceType": "m5.large", "AvailabilityZoneId": ZONES["b"]}]}
    assert pools(region.fleet(by_id)) == {"m5.large/b": 1}
    assert (
        fleet_error(region, config(template, "m5.large/b", AvailabilityZoneId=ZONES["b"]))
        == "InvalidFleetConfig"
    )
    # The same type and zone twice, by name and by id.
    assert fleet_error(region, config(template, "m5.large/b"), by_id) == "InvalidFleetConfig"


def test_a_target_reservation_of_another_type_or_account_is_an_error_of_the_pool() -> None:
    region = Region()
    reservation = region.reserve("m5.xlarge", criteria="targeted")
    answer = region.fleet(config(region.targeting(reservation), "m5.large/a"))
    assert errors(answer) == [("m5.large/a", "InvalidParameterValue")]
    foreign = region.reserve(owner=OTHER)
    not_shared = region.fleet(config(region.targeting(foreign), "m5.large/a"))
    assert errors(not_shared) == [("m5.large/a", "InvalidCapacityReservationId.NotFound")]


def test_a_missing_launch_template_fails_the_call_with_the_code_that_karpenter_checks() -> None:
    region = Region()
    missing = config("karpenter.k8s.aws/1", "m5.large/a")
    assert fleet_error(region, missing) == "InvalidLaunchTemplateName.NotFoundException"
    missing["LaunchTemplateSpecification"] = {"LaunchTemplateId": "lt-0", "Version": "$Latest"}
    assert fleet_error(region, missing) == "InvalidLaunchTemplateId.NotFound"
    known = config(region.template(), "m5.large/a")
    known["LaunchTemplateSpecification"]["Version"] = "2"
    assert fleet_error(region, known) == "InvalidLaunchTemplateId.VersionNotFound"


@pytest.mark.parametrize("kind", ["request", "maintain"])
def test_only_instant_fleets_are_simulated(kind: str) -> None:
    region = Region()
    assert fleet_error(region, config(region.template(), "m5.large/a"), Type=kind) == "UnsupportedOperation"


def test_a_subnet_runs_out_of_addresses_until_an_instance_is_terminated() -> None:
    region = Region()
    subnet = region.setup.subnets[0]

    def free() -> int:
        (shown,) = region.call("DescribeSubnets", SubnetIds=[subnet.id])["Subnets"]
        return int(shown["AvailableIpAddressCount"])

    data: dict[str, Any] = {
        "NetworkInterfaces": [{"DeviceIndex": 0, "Ipv4PrefixCount": 127}]
    }  # 1 + 16 * 127 addresses
    template = region.template(**data)
    answer = region.fleet(config(template, "m5.large/a", SubnetId=subnet.id), count=3)
    assert pools(answer) == {"m5.large/a": 2}
    assert errors(answer) == [("m5.large/a", "InsufficientFreeAddressesInSubnet")]
    assert free() == 4091 - 2 * 2033
    region.wait(60)
    region.call("TerminateInstances", InstanceIds=[region.launched(answer)[0].id])
    assert free() == 4091 - 2 * 2033
    region.wait(30)
    assert free() == 4091 - 2033


def test_reservations_count_against_the_vcpu_quota_and_their_instances_do_not() -> None:
    region = Region(vcpu_limit=10)
    reservation = region.reserve(criteria="targeted", total=2)  # 2 x 2 vCPUs
    inside = config(region.targeting(reservation), "m5.large/a")
    assert errors(region.fleet(inside, count=2)) == []
    outside = region.fleet(config(region.template(), "m5.large/a"), count=5)
    assert pools(outside) == {"m5.large/a": 3}
    assert errors(outside) == [("m5.large/a", "VcpuLimitExceeded")]
    assert errors(region.fleet(config(region.template(), "m5.large/a"), kind="spot")) == []


def test_a_reservation_in_a_placement_group_accepts_only_instances_of_that_group() -> None:
    region = Region()
    ring = PlacementGroup(id="pg-1", account=ACCOUNT, name="ring")
    region.state.setup = replace(region.setup, placement_groups=(ring,))
    arn = region.state.arn(ACCOUNT, "placement-group/ring")
    reservation = region.reserve(placement_group_arn=arn)
    (outside,) = region.launch()
    (inside,) = region.launch(Placement={"GroupId": "pg-1"})
    assert (outside.reservation_id, inside.reservation_id) == ("", reservation.id)


def test_instances_are_spread_evenly_over_the_partitions_of_their_placement_group() -> None:
    region = Region()
    wide = PlacementGroup(id="pg-1", account=ACCOUNT, name="wide", strategy="partition", partitions=3)
    region.state.setup = replace(region.setup, placement_groups=(wide,))
    made = [region.launch(Placement={"GroupName": "wide"})[0] for _ in range(6)]
    region.call("TerminateInstances", InstanceIds=[made[1].id])
    (next_one,) = region.launch(Placement={"GroupName": "wide"})
    assert [each.partition for each in (*made, next_one)] == [1, 2, 3, 1, 2, 3, 2]
    (outside,) = region.launch()
    answer = region.call("DescribeInstances", InstanceIds=[made[0].id, outside.id])
    placements = {i["InstanceId"]: i["Placement"] for r in answer["Reservations"] for i in r["Instances"]}
    assert placements[made[0].id]["GroupId"] == "pg-1"
    assert placements[made[0].id]["PartitionNumber"] == 1
    assert "PartitionNumber" not in placements[outside.id]


def test_single_instance_type_uses_the_type_that_has_capacity_for_all() -> None:
    region = Region()
    control.limit_pool(region.state, "m5.large", ZONES["a"], "on-demand", 2)
    wanted = config(region.template(), "m5.large/a", "m5.xlarge/a")
    assert pools(region.fleet(wanted, count=3)) == {"m5.large/a": 2, "m5.xlarge/a": 1}
    control.limit_pool(region.state, "m5.large", ZONES["a"], "on-demand", 2)
    alone = region.fleet(wanted, count=3, OnDemandOptions={"SingleInstanceType": True})
    assert pools(alone) == {"m5.xlarge/a": 3}


def test_an_instance_with_efas_has_an_interface_on_each_network_card() -> None:
    region = Region()
    interfaces = [
        {"DeviceIndex": min(card, 1), "NetworkCardIndex": card, "InterfaceType": "efa"} for card in range(4)
    ]
    template = region.template(NetworkInterfaces=interfaces)
    (instance,) = region.launched(region.fleet(config(template, "p5.48xlarge/a")))
    (shown,) = region.call("DescribeInstances", InstanceIds=[instance.id])["Reservations"][0]["Instances"]
    assert [i["InterfaceType"] for i in shown["NetworkInterfaces"]] == ["efa"] * 4
    assert [i["Attachment"]["NetworkCardIndex"] for i in shown["NetworkInterfaces"]] == [0, 1, 2, 3]


# --- RunInstances -----------------------------------------------------------------------------------


def test_run_instances_launches_between_min_and_max_count_or_nothing() -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted", total=2)
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation.id}}
    params: dict[str, Any] = {
        "ImageId": region.setup.images[0].id,
        "InstanceType": "m5.large",
        "SubnetId": region.setup.subnets[0].id,
        "CapacityReservationSpecification": target,
        "MaxCount": 3,
    }
    assert region.refusal("RunInstances", MinCount=3, **params).code == "ReservationCapacityExceeded"
    assert region.available(reservation) == 2
    answer = region.call("RunInstances", MinCount=1, **params)
    assert [i["CapacityReservationId"] for i in answer["Instances"]] == [reservation.id] * 2
    assert region.available(reservation) == 0


def test_run_instances_parameters_override_the_launch_template() -> None:
    region = Region()
    template = region.template(InstanceType="m5.large", UserData="aGVsbG8=")
    answer = region.call(
        "RunInstances",
        LaunchTemplate={"LaunchTemplateName": template},
        InstanceType="m5.xlarge",
        Placement={"AvailabilityZone": "us-west-2b"},
        MinCount=1,
        MaxCount=1,
    )
    (shown,) = answer["Instances"]
    assert (shown["InstanceType"], shown["Placement"]["AvailabilityZone"]) == ("m5.xlarge", "us-west-2b")
    assert region.state.instances[shown["InstanceId"]].spec.user_data == "aGVsbG8="
