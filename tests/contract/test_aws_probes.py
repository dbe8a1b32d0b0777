"""Dry runs find missing permissions of an EC2NodeClass before anything is launched."""

from typing import Any

import pytest

from aws_environment import REGION, condition, run
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.launch.templates import LaunchContext
from holdfast.cloud.aws.nodeclass.resolve import VALIDATION
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import faults
from launch_environment import JOINED, LaunchEnvironment, resolve

MINE = {"tags": {"team": "ml"}}
TAGS = {"team": "ml"}


@pytest.fixture
def env() -> LaunchEnvironment:
    return LaunchEnvironment()


def verdict(node_class: EC2NodeClass) -> tuple[str, str]:
    return condition(node_class, VALIDATION)[:2]


def deny(env: LaunchEnvironment, operation: str, times: int = 99) -> None:
    env.ec2.region.faults.add(faults.Denied(operation=operation, times=times))


@pytest.mark.fact("aws-1.5.9")
def test_successful_dry_runs_make_the_class_ready_and_launch_nothing(env: LaunchEnvironment) -> None:
    node_class = resolve(env, env.node_class())
    assert condition(node_class, "Ready")[0] == "True"
    assert env.asked("CreateFleet") == env.asked("RunInstances") == 1
    assert env.ec2_instances == []


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
    env: LaunchEnvironment, operation: str, reason: str
) -> None:
    deny(env, operation)
    node_class = resolve(env, env.node_class())
    assert verdict(node_class) == ("False", reason)
    assert operation in condition(node_class, VALIDATION)[2]
    assert condition(node_class, "Ready")[0] == "False"


@pytest.mark.fact("aws-1.5.9")
def test_unknown_instance_profile_is_the_reason_of_the_condition() -> None:
    env = LaunchEnvironment(has_profile=lambda name: name != "typo")
    node_class = resolve(env, env.node_class(role=None, instanceProfile="typo"))
    assert verdict(node_class) == ("False", "InstanceProfileNotFound")


@pytest.mark.fact("aws-1.5.9")
def test_too_long_user_data_is_the_reason_of_the_condition(env: LaunchEnvironment) -> None:
    node_class = resolve(env, env.node_class(userData="#" * 20_000))
    assert verdict(node_class) == ("False", "UserDataSizeLimitExceeded")


@pytest.mark.fact("aws-1.5.9")
def test_throttled_dry_run_leaves_the_condition_unknown(env: LaunchEnvironment) -> None:
    env.ec2.region.faults.add(faults.Throttled(operation="CreateFleet", times=4))
    node_class = resolve(env, env.node_class())
    assert verdict(node_class) == ("Unknown", "CouldNotRead")
    assert verdict(resolve(env, node_class)) == ("True", "ValidationSucceeded")


@pytest.mark.fact("aws-1.5.7")
def test_success_is_cached_for_30_minutes_and_failure_for_5_minutes(env: LaunchEnvironment) -> None:
    node_class = resolve(env, env.node_class())
    env.clock.advance(1799)
    node_class = resolve(env, node_class)
    assert env.asked("RunInstances") == 1
    env.clock.advance(1)
    deny(env, "RunInstances", times=1)
    node_class = resolve(env, node_class)
    assert verdict(node_class)[0] == "False"
    env.clock.advance(299)
    assert verdict(resolve(env, node_class))[0] == "False"
    env.clock.advance(1)
    assert verdict(resolve(env, node_class))[0] == "True"


@pytest.mark.fact("aws-1.5.7")
def test_changed_class_is_validated_again(env: LaunchEnvironment) -> None:
    resolve(env, env.node_class())
    deny(env, "RunInstances")
    assert verdict(resolve(env, env.node_class()))[0] == "True"
    assert verdict(resolve(env, env.node_class(userData="echo")))[0] == "False"


@pytest.mark.fact("aws-1.5.8")
def test_dry_runs_can_be_switched_off(env: LaunchEnvironment) -> None:
    env.new_process(around=LaunchContext(cluster=JOINED, region=REGION, dry_runs=False))
    deny(env, "RunInstances")
    assert verdict(resolve(env, env.node_class()))[0] == "True"
    assert env.asked("CreateFleet") == env.asked("CreateLaunchTemplate") == 0


class DeniesReservations:
    """EC2 for an account that may launch instances, but not into reservations."""

    def __init__(self, env: LaunchEnvironment) -> None:
        self._ec2 = env.ec2

    def call(self, operation: str, params: Any, caller: Any) -> dict[str, Any]:
        if operation == "RunInstances":
            name = params["LaunchTemplate"]["LaunchTemplateName"]
            template = next(t for t in self._ec2.region.templates if t.name == name)
            if "CapacityReservationTarget" in template.versions[0].get(
                "CapacityReservationSpecification", {}
            ):
                raise ApiError("UnauthorizedOperation", "no capacity-reservation/* for you", 403)
        return self._ec2.call(operation, params, caller)


@pytest.mark.fact("aws-1.5.10", "AW-18")
def test_dry_run_checks_the_permission_to_launch_into_reservations(env: LaunchEnvironment) -> None:
    env.reserve(total=1, tags=TAGS)
    node_class = env.node_class(capacityReservationSelectorTerms=[MINE])
    assert verdict(resolve(env, node_class))[0] == "True"
    env.new_process()
    env.endpoint.services = {**env.endpoint.services, "ec2": DeniesReservations(env)}
    refused = resolve(env, node_class)
    assert verdict(refused) == ("False", "RunInstancesAuthCheckFailed")
    assert "capacity-reservation/*" in condition(refused, VALIDATION)[2]


@pytest.mark.fact("aws-1.5.9", "aws-1.5.11")
def test_dry_run_uses_the_launch_template_of_the_cheapest_type(
    env: LaunchEnvironment,
) -> None:
    node_class = resolve(env, env.node_class())
    (template,) = env.ec2.region.templates
    types_by_cost = sorted(
        (cost, instance_type.name)
        for instance_type in run(env.cloud.instance_types(node_class))
        for cost in [o.cost_nano_usd_per_hour for o in instance_type.offerings if o.launchable]
        if cost
    )
    (request,) = [call.params for call in env.endpoint.log if call.operation == "RunInstances"]
    assert request["InstanceType"] == types_by_cost[0][1]
    assert request["LaunchTemplate"]["LaunchTemplateName"] == template.name
