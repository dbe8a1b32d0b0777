"""The published IAM policy allows the calls of the EC2 provider, also for a NodeClaim without a NodePool."""

import dataclasses
from typing import Any

import pytest

import iam_rights
from aws_environment import ACCOUNT, ROLE, condition, run
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest
from holdfast.sim.ec2 import control, setup
from holdfast.sim.guard import Guard
from launch_environment import LaunchEnvironment, capacity_type, resolve
from objects import nodeclaim


@pytest.fixture
def env() -> LaunchEnvironment:
    group = setup.PlacementGroup(id="pg-0a1b2c3d4e5f60718", account=ACCOUNT, name="tight")
    env = LaunchEnvironment(placement_groups=(group,))
    env.endpoint.guard = Guard(iam_rights.published(NODE_ROLE=ROLE), ec2=env.ec2, iam=env.iam)
    return env


@pytest.mark.parametrize(
    "spec", [{}, {"capacityReservationSelectorTerms": [{"tags": {"team": "ml"}}]}, {"tags": {"cost": "7"}}]
)
def test_dry_runs_of_a_class_are_allowed(env: LaunchEnvironment, spec: dict[str, Any]) -> None:
    env.reserve(total=1, tags={"team": "ml"})
    node_class = resolve(env, env.node_class(**spec))
    assert condition(node_class, "Ready") == ("True", "Ready", "")
    assert env.asked("CreateFleet") == env.asked("RunInstances") > 0


@pytest.mark.parametrize(
    "labels", [{}, {"karpenter.sh/nodepool": "default"}], ids=["no NodePool", "NodePool"]
)
def test_launch_tag_reboot_terminate_and_release_are_allowed(
    env: LaunchEnvironment, labels: dict[str, str]
) -> None:
    node_class = env.resolve(env.node_class(placementGroupSelector={"name": "tight"}))
    claim = nodeclaim("own", {"labels": labels}, requirements=[capacity_type("spot")])
    request = LaunchRequest(claim, node_class, env.ids.token(), None, env.types(node_class))
    (launched,) = env.launch([request])
    assert isinstance(launched, Instance), launched
    status = {"providerID": launched.provider_id, "nodeName": "node-1", "imageID": launched.image_id}
    run(env.cloud.tag(nodeclaim("own", {"labels": labels}, status)))
    run(env.cloud.reboot(launched.provider_id, "once"))
    (ec2_instance,) = env.ec2_instances
    assert ec2_instance.tags["Name"] == "node-1"
    assert ec2_instance.tags["holdfast.dev/reboot"] == "once"
    assert [one.provider_id for one in env.described()] == [launched.provider_id]
    run(env.cloud.terminate(launched.provider_id))
    assert [one.state for one in env.ec2_instances] == ["shutting-down"]
    run(env.cloud.release(node_class))
    assert list(env.ec2.region.templates) == []
    assert not env.iam.has_profile(node_class.status.instance_profile or "")


def test_a_launch_into_a_group_of_reservations_is_allowed(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, criteria="targeted")
    group = control.add_group(env.ec2.region, account=ACCOUNT, name="paid", members=(slots.id,))
    target = {"capacityReservationTarget": {"capacityReservationResourceGroupArn": group.id}}
    node_class = env.resolve(env.node_class(capacityReservationSpec=target))
    assert env.one(node_class, types=("m5.large",)).reservation_id is None
    assert env.free(slots) == 0


def test_launch_of_a_gang_into_a_capacity_block_is_allowed(env: LaunchEnvironment) -> None:
    """RunInstances, without a fleet."""
    more: dict[str, Any] = {
        "kind": "capacity-block",
        "criteria": "targeted",
        "end_s": env.clock.now_s() + 86_400,
    }
    block = env.reserve("p5.48xlarge", total=2, tags={"team": "ml"}, **more)
    node_class = env.selecting({"tags": {"team": "ml"}})
    requests = env.requests(
        node_class, capacity_type("reserved"), count=2, slot=block.id, types=("p5.48xlarge",)
    )
    found = env.launch([dataclasses.replace(one, gang="train") for one in requests])
    assert [one.reservation_id for one in found if isinstance(one, Instance)] == [block.id] * 2, found
