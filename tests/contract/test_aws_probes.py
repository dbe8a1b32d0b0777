"""What a class is not allowed to do is found out by dry runs, before anything is launched."""

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
def test_a_class_that_may_be_launched_is_ready_and_nothing_was_launched(world: LaunchWorld) -> None:
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
def test_a_right_that_is_missing_is_named(world: LaunchWorld, operation: str, reason: str) -> None:
    deny(world, operation)
    node_class = resolve(world, world.node_class())
    assert verdict(node_class) == ("False", reason)
    assert operation in condition(node_class, VALIDATION)[2]
    assert condition(node_class, "Ready")[0] == "False"


@pytest.mark.fact("aws-1.5.9")
def test_an_instance_profile_that_ec2_does_not_know_is_named() -> None:
    world = LaunchWorld(has_profile=lambda name: name != "typo")
    node_class = resolve(world, world.node_class(role=None, instanceProfile="typo"))
    assert verdict(node_class) == ("False", "InstanceProfileNotFound")


@pytest.mark.fact("aws-1.5.9")
def test_user_data_that_is_too_long_is_named(world: LaunchWorld) -> None:
    node_class = resolve(world, world.node_class(userData="#" * 20_000))
    assert verdict(node_class) == ("False", "UserDataSizeLimitExceeded")


@pytest.mark.fact("aws-1.5.9")
def test_throttling_is_no_verdict(world: LaunchWorld) -> None:
    world.ec2.world.faults.add(faults.Throttled(operation="CreateFleet", times=4))
    node_class = resolve(world, world.node_class())
    assert verdict(node_class) == ("Unknown", "CouldNotRead")
    assert verdict(resolve(world, node_class)) == ("True", "ValidationSucceeded")


@pytest.mark.fact("aws-1.5.7")
def test_a_verdict_is_kept_for_half_an_hour_and_a_refusal_for_five_minutes(world: LaunchWorld) -> None:
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
def test_a_class_that_was_changed_is_tried_out_again(world: LaunchWorld) -> None:
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
    """EC2 for an account that may launch, and not into reservations."""

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
def test_the_right_to_launch_into_reservations_is_tried_out_too(world: LaunchWorld) -> None:
    world.reserve(total=1, tags=TAGS)
    node_class = world.node_class(capacityReservationSelectorTerms=[MINE])
    assert verdict(resolve(world, node_class))[0] == "True"
    world.new_process()
    world.endpoint.services = {**world.endpoint.services, "ec2": DeniesReservations(world)}
    refused = resolve(world, node_class)
    assert verdict(refused) == ("False", "RunInstancesAuthCheckFailed")
    assert "capacity-reservation/*" in condition(refused, VALIDATION)[2]


@pytest.mark.fact("aws-1.5.9", "aws-1.5.11")
def test_the_template_of_the_dry_run_is_the_one_that_a_launch_of_the_cheapest_type_uses(
    world: LaunchWorld,
) -> None:
    node_class = resolve(world, world.node_class())
    (template,) = world.ec2.world.templates
    everything = sorted(
        (cost, known.name)
        for known in run(world.cloud.instance_types(node_class))
        for cost in [o.cost_nano_usd_per_hour for o in known.offerings if o.launchable]
        if cost
    )
    (request,) = [call.params for call in world.endpoint.log if call.operation == "RunInstances"]
    assert request["InstanceType"] == everything[0][1]
    assert request["LaunchTemplate"]["LaunchTemplateName"] == template.name
