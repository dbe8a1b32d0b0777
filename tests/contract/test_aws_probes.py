"""Dry runs find missing permissions of an EC2NodeClass before anything is launched."""

from typing import Any

import pytest

from aws_launch_world import JOINED, LaunchWorld, resolve
from aws_world import REGION, condition, run
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.launch.templates import LaunchContext
from holdfast.cloud.aws.nodeclass.resolve import VALIDATION
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import faults

MINE = {"tags": {"team": "ml"}}
TAGS = {"team": "ml"}


@pytest.fixture
def world() -> LaunchWorld:
    return LaunchWorld()


def verdict(node_class: EC2NodeClass) -> tuple[str, str]:
    return condition(node_class, VALIDATION)[:2]


def deny(world: LaunchWorld, operation: str, times: int = 99) -> None:
    world.ec2.world.faults.add(faults.Denied(operation=operation, times=times))


@pytest.mark.fact("aws-1.5.9")
def test_successful_dry_runs_make_the_class_ready_and_launch_nothing(world: LaunchWorld) -> None:
    node_class = resolve(world, world.node_class())
    assert condition(node_class, "Ready")[0] == "True"
    assert world.asked("CreateFleet") == world.asked("RunInstances") == 1
    assert world.machines == []


@pytest.mark.fact("aws-1.5.9")
@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
    ],
)
def test_missing_permission_is_the_reason_of_the_condition(
    world: LaunchWorld, operation: str, reason: str
) -> None:
    deny(world, operation)
    node_class = resolve(world, world.node_class())
    assert verdict(node_class) == ("False", reason)
    assert operation in condition(node_class, VALIDATION)[2]
    assert condition(node_class, "Ready")[0] == "False"


@pytest.mark.fact("aws-1.5.9")
def test_unknown_instance_profile_is_the_reason_of_the_condition() -> None:
    world = LaunchWorld(has_profile=lambda name: name != "typo")
    node_class = resolve(world, world.node_class(role=None, instanceProfile="typo"))
    assert verdict(node_class) == ("False", "InstanceProfileNotFound")


@pytest.mark.fact("aws-1.5.9")
def test_too_long_user_data_is_the_reason_of_the_condition(world: LaunchWorld) -> None:
    node_class = resolve(world, world.node_class(userData="#" * 20_000))
    assert verdict(node_class) == ("False", "UserDataSizeLimitExceeded")


@pytest.mark.fact("aws-1.5.9")
def test_throttled_dry_run_leaves_the_condition_unknown(world: LaunchWorld) -> None:
    world.ec2.world.faults.add(faults.Throttled(operation="CreateFleet", times=4))
    node_class = resolve(world, world.node_class())
    assert verdict(node_class) == ("Unknown", "CouldNotRead")
    assert verdict(resolve(world, node_class)) == ("True", "ValidationSucceeded")


@pytest.mark.fact("aws-1.5.7")
def test_success_is_cached_for_30_minutes_and_failure_for_5_minutes(world: LaunchWorld) -> None:
    node_class = resolve(world, world.node_class())
    world.clock.advance(1799)
    node_class = resolve(world, node_class)
    assert world.asked("RunInstances") == 1
    world.clock.advance(1)
    deny(world, "RunInstances", times=1)
    node_class = resolve(world, node_class)
    assert verdict(node_class)[0] == "False"
    world.clock.advance(299)
    assert verdict(resolve(world, node_class))[0] == "False"
    world.clock.advance(1)
    assert verdict(resolve(world, node_class))[0] == "True"


@pytest.mark.fact("aws-1.5.7")
def test_changed_class_is_validated_again(world: LaunchWorld) -> None:
    resolve(world, world.node_class())
    deny(world, "RunInstances")
    assert verdict(resolve(world, world.node_class()))[0] == "True"
    assert verdict(resolve(world, world.node_class(userData="echo")))[0] == "False"


@pytest.mark.fact("aws-1.5.8")
def test_dry_runs_can_be_switched_off(world: LaunchWorld) -> None:
    world.new_process(around=LaunchContext(cluster=JOINED, region=REGION, dry_runs=False))
    deny(world, "RunInstances")
    assert verdict(resolve(world, world.node_class()))[0] == "True"
    assert world.asked("CreateFleet") == world.asked("CreateLaunchTemplate") == 0


class DeniesReservations:
    """EC2 for an account that may launch instances, but not into reservations."""

    def __init__(self, world: LaunchWorld) -> None:
        self._ec2 = world.ec2

    def call(self, operation: str, params: Any, caller: Any) -> dict[str, Any]:
        if operation == "RunInstances":
            name = params["LaunchTemplate"]["LaunchTemplateName"]
            template = next(t for t in self._ec2.world.templates if t.name == name)
            if "CapacityReservationTarget" in template.versions[0].get(
                "CapacityReservationSpecification", {}
            ):
                raise ApiError("UnauthorizedOperation", "no capacity-reservation/* for you", 403)
        return self._ec2.call(operation, params, caller)


@pytest.mark.fact("aws-1.5.10", "AW-18")
def test_dry_run_checks_the_permission_to_launch_into_reservations(world: LaunchWorld) -> None:
    world.reserve(total=1, tags=TAGS)
    node_class = world.node_class(capacityReservationSelectorTerms=[MINE])
    assert verdict(resolve(world, node_class))[0] == "True"
    world.new_process()
    world.endpoint.services = {**world.endpoint.services, "ec2": DeniesReservations(world)}
    refused = resolve(world, node_class)
    assert verdict(refused) == ("False", "RunInstancesAuthCheckFailed")
    assert "capacity-reservation/*" in condition(refused, VALIDATION)[2]


@pytest.mark.fact("aws-1.5.9", "aws-1.5.11")
def test_dry_run_uses_the_launch_template_of_the_cheapest_type(
    world: LaunchWorld,
) -> None:
    node_class = resolve(world, world.node_class())
    (template,) = world.ec2.world.templates
    types_by_cost = sorted(
        (cost, instance_type.name)
        for instance_type in run(world.cloud.instance_types(node_class))
        for cost in [o.cost_nano_usd_per_hour for o in instance_type.offerings if o.launchable]
        if cost
    )
    (request,) = [call.params for call in world.endpoint.log if call.operation == "RunInstances"]
    assert request["InstanceType"] == types_by_cost[0][1]
    assert request["LaunchTemplate"]["LaunchTemplateName"] == template.name
