"""CreateFleet: requests equal to Karpenter's, and how responses are read."""

from typing import Any

import pytest

from aws_builders import reservation
from aws_launches import TOKEN, capacity_type, chosen, claim, fleet, resolved, selecting
from holdfast import errors
from holdfast.cloud.aws.client import answers
from holdfast.cloud.aws.launch import fleets
from holdfast.cloud.aws.launch.fleets import Failure, Launched

RESERVED = capacity_type("reserved")


def overrides_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for config in request["LaunchTemplateConfigs"] for each in config["Overrides"]]


def overrides(request: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (each["InstanceType"], each["AvailabilityZone"], each["SubnetId"]) for each in overrides_of(request)
    ]


def test_reserved_request_equals_karpenters() -> None:
    request = fleet(claim(RESERVED), selecting(), reservation("cr-1"))
    (config,) = request.pop("LaunchTemplateConfigs")
    tags = {tag["Key"]: tag["Value"] for tag in request["TagSpecifications"][0]["Tags"]}
    assert [spec["ResourceType"] for spec in request.pop("TagSpecifications")] == [
        "instance",
        "volume",
        "fleet",
    ]
    assert tags == {
        "kubernetes.io/cluster/blue": "owned",
        "eks:eks-cluster-name": "blue",
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }
    assert request == {
        "Type": "instant",
        "ClientToken": "token-1",
        "OnDemandOptions": {"AllocationStrategy": "lowest-price"},
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": "on-demand", "TotalTargetCapacity": 1},
    }
    assert config["LaunchTemplateSpecification"]["Version"] == "$Latest"
    assert config["Overrides"] == [
        {
            "InstanceType": "m5.large",
            "AvailabilityZone": "us-west-2a",
            "SubnetId": "subnet-a",
            "ImageId": "ami-x86",
            "Priority": 1.0,
        }
    ]


@pytest.mark.fact("Q-23", "aws-5.7.2")
@pytest.mark.parametrize("allowed", ["reserved", "on-demand", "spot"])
def test_no_request_has_a_usage_strategy(allowed: str) -> None:
    request = fleet(claim(capacity_type(allowed)), selecting(), reservation("cr-1"))
    assert "CapacityReservationOptions" not in request.get("OnDemandOptions", {})
    assert "UsageStrategy" not in str(request)
    strategies = {"reserved": "lowest-price", "on-demand": "prioritized", "spot": None}
    assert request.get("OnDemandOptions", {}).get("AllocationStrategy") == strategies[allowed]


@pytest.mark.parametrize(
    ("fields", "target", "options"),
    [
        ({}, "on-demand", {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}),
        ({"kind": "capacity-block"}, "capacity-block", {}),
        (
            {"interruptible": True},
            "reserved-capacity",
            {"ReservedCapacityOptions": {"ReservationTypes": ["interruptible-capacity-reservation"]}},
        ),
    ],
)
def test_target_capacity_type_follows_the_kind_of_reservation(
    fields: dict[str, Any], target: str, options: dict[str, Any]
) -> None:
    request = fleet(claim(RESERVED), selecting(), reservation("cr-1", **fields))
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == target
    assert {key: request[key] for key in request if key.endswith("Options")} == options


@pytest.mark.fact("aws-5.7.3")
def test_on_demand_offers_every_type_in_every_zone_cheapest_first() -> None:
    request = fleet(claim(capacity_type("on-demand")), resolved())
    assert overrides(request) == [
        ("m5.large", "us-west-2a", "subnet-a"),
        ("m5.large", "us-west-2b", "subnet-b"),
        ("m5.xlarge", "us-west-2a", "subnet-a"),
        ("m5.xlarge", "us-west-2b", "subnet-b"),
    ]


def test_on_demand_overrides_are_prioritized_in_the_order_of_the_choice() -> None:
    request = fleet(claim(capacity_type("on-demand")), resolved())
    assert request["OnDemandOptions"] == {"AllocationStrategy": "prioritized"}
    assert [each["Priority"] for each in overrides_of(request)] == [0, 1, 2, 3]


def test_spot_uses_price_capacity_optimized_allocation() -> None:
    request = fleet(claim(capacity_type("spot")), resolved())
    assert request["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"
    assert {each["Priority"] for each in request["LaunchTemplateConfigs"][0]["Overrides"]} == {0.5}


@pytest.mark.fact("Q-22", "Q-31")
def test_the_same_type_and_zone_is_never_sent_twice() -> None:
    request = fleet(
        claim(RESERVED),
        selecting(),
        reservation("cr-1", available=1),
        reservation("cr-2", available=3),
        reservation("cr-3", zone="us-west-2b"),
    )
    assert overrides(request) == [
        ("m5.large", "us-west-2a", "subnet-a"),
        ("m5.large", "us-west-2b", "subnet-b"),
    ]


def test_subnet_without_free_addresses_is_skipped() -> None:
    assert fleets.zonal_subnets(resolved(), {"subnet-a"}) == {
        "us-west-2b": "subnet-b",
        "us-west-2a": "subnet-a2",
    }
    with pytest.raises(errors.InsufficientCapacity, match="subnet"):
        fleets.request(
            chosen(claim(), resolved()),
            [],
            {},
            fleets.Order(count=1, client_token=TOKEN, tags={}),
        )


@pytest.mark.fact("aws-5.7.4")
def test_context_is_sent_unless_min_values_were_relaxed() -> None:
    relaxed = {"annotations": {"karpenter.sh/nodeclaim-min-values-relaxed": "true"}}
    node_class = resolved(context="ctx-1")
    assert fleets.context(claim(), node_class) == "ctx-1"
    assert fleets.context(claim(meta=relaxed), node_class) is None


def template_and_overrides(instance_type: str = "m5.large", zone: str = "us-west-2a") -> dict[str, Any]:
    return {"Overrides": {"InstanceType": instance_type, "AvailabilityZone": zone, "SubnetId": "subnet-a"}}


def test_response_gives_launched_instances_and_failures() -> None:
    response = fleets.read(
        {
            "FleetId": "fleet-1",
            "Instances": [
                {
                    "LaunchTemplateAndOverrides": template_and_overrides(),
                    "InstanceIds": ["i-1", "i-2"],
                    "InstanceType": "m5.large",
                }
            ],
            "Errors": [
                {
                    "LaunchTemplateAndOverrides": template_and_overrides(zone="us-west-2b"),
                    "ErrorCode": "InsufficientInstanceCapacity",
                    "ErrorMessage": "none",
                }
            ],
        }
    )
    assert response.launched == (
        Launched("i-1", "m5.large", "us-west-2a", "subnet-a"),
        Launched("i-2", "m5.large", "us-west-2a", "subnet-a"),
    )
    assert response.failures == (
        Failure("InsufficientInstanceCapacity", "none", "m5.large", "us-west-2b", "subnet-a"),
    )


@pytest.mark.fact("AW-12", "aws-5.8.13")
def test_response_without_details_is_read() -> None:
    response = fleets.read({"FleetId": "fleet-1", "Errors": [{"ErrorCode": "Weird"}]})
    assert response.launched == ()
    assert response.failures == (Failure("Weird", ""),)
    assert fleets.read({"FleetId": "fleet-1"}) == fleets.Answer((), ())


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"FleetId": "fleet-1", "Instances": [{"InstanceIds": ["i-1"]}]},
        {"FleetId": "fleet-1", "Instances": [{"LaunchTemplateAndOverrides": template_and_overrides()}]},
        {
            "FleetId": "fleet-1",
            "Instances": [{"LaunchTemplateAndOverrides": template_and_overrides(), "InstanceIds": ["7"]}],
        },
    ],
)
def test_response_without_instance_ids_is_an_error(response: dict[str, Any]) -> None:
    """A NodeClaim with an incomplete provider id could neither register nor be terminated."""
    with pytest.raises(errors.Unreachable, match="CreateFleet"), answers.reading("CreateFleet"):
        fleets.read(response)


def outcome(*failures: Failure) -> errors.HoldfastError:
    reserved = chosen(
        claim(RESERVED), selecting(), reservation("cr-1"), reservation("cr-2", zone="us-west-2b")
    )
    return fleets.error(reserved, failures)


FULL = Failure("ReservationCapacityExceeded", "full", "m5.large", "us-west-2a")
ICE = Failure("InsufficientInstanceCapacity", "none", "m5.large", "us-west-2b")
SLOWER = Failure("RequestLimitExceeded", "slower")


@pytest.mark.fact("aws-5.8.8", "Q-24", "aws-14.6")
@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ((FULL,), errors.ReservationExhausted),
        ((FULL, ICE), errors.ReservationExhausted),
        ((ICE,), errors.InsufficientCapacity),
        ((FULL, SLOWER), errors.Throttled),
        ((Failure("VcpuLimitExceeded", ""),), errors.InsufficientCapacity),
        ((), errors.Retryable),
        ((Failure("BrandNew", ""),), errors.Retryable),
    ],
)
def test_error_of_a_failed_launch_follows_from_its_failures(
    failures: tuple[Failure, ...], kind: type[errors.HoldfastError]
) -> None:
    assert type(outcome(*failures)) is kind


def test_reservation_exhausted_lists_the_reservations_that_ec2_reports_full() -> None:
    one = outcome(FULL, ICE)
    assert isinstance(one, errors.ReservationExhausted)
    assert one.reservation_ids == ("cr-1",)
    vague = outcome(Failure("ReservationCapacityExceeded", "full"))
    assert isinstance(vague, errors.ReservationExhausted)
    assert vague.reservation_ids == ("cr-1", "cr-2")
