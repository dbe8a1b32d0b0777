"""The published IAM policy allows the calls of the EC2 provider, also for a NodeClaim without a NodePool."""

from typing import Any

import pytest

import iam_rights
from aws_launch_world import LaunchWorld, capacity_type, resolve
from aws_world import ACCOUNT, ROLE, condition, run
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest
from holdfast.sim.ec2 import control, setup
from holdfast.sim.guard import Guard
from objects import nodeclaim


@pytest.fixture
def world() -> LaunchWorld:
    group = setup.PlacementGroup(id="pg-0a1b2c3d4e5f60718", account=ACCOUNT, name="tight")
    world = LaunchWorld(placement_groups=(group,))
    world.endpoint.guard = Guard(iam_rights.published(NODE_ROLE=ROLE), ec2=world.ec2, iam=world.iam)
    return world


@pytest.mark.parametrize(
    "spec", [{}, {"capacityReservationSelectorTerms": [{"tags": {"team": "ml"}}]}, {"tags": {"cost": "7"}}]
)
def test_dry_runs_of_a_class_are_allowed(world: LaunchWorld, spec: dict[str, Any]) -> None:
    world.reserve(total=1, tags={"team": "ml"})
    node_class = resolve(world, world.node_class(**spec))
    assert condition(node_class, "Ready") == ("True", "Ready", "")
    assert world.asked("CreateFleet") == world.asked("RunInstances") > 0


@pytest.mark.parametrize(
    "labels", [{}, {"karpenter.sh/nodepool": "default"}], ids=["no NodePool", "NodePool"]
)
def test_launch_tag_reboot_terminate_and_release_are_allowed(
    world: LaunchWorld, labels: dict[str, str]
) -> None:
    node_class = world.resolve(world.node_class(placementGroupSelector={"name": "tight"}))
    claim = nodeclaim("own", {"labels": labels}, requirements=[capacity_type("spot")])
    request = LaunchRequest(claim, node_class, world.ids.token(), None, world.types(node_class))
    (launched,) = world.launch([request])
    assert isinstance(launched, Instance), launched
    status = {"providerID": launched.provider_id, "nodeName": "node-1", "imageID": launched.image_id}
    run(world.cloud.tag(nodeclaim("own", {"labels": labels}, status)))
    run(world.cloud.reboot(launched.provider_id, "once"))
    (ec2_instance,) = world.machines
    assert ec2_instance.tags["Name"] == "node-1"
    assert ec2_instance.tags["holdfast.dev/reboot"] == "once"
    assert [one.provider_id for one in world.described()] == [launched.provider_id]
    run(world.cloud.terminate(launched.provider_id))
    assert [one.state for one in world.machines] == ["shutting-down"]
    run(world.cloud.release(node_class))
    assert list(world.ec2.world.templates) == []
    assert not world.iam.has_profile(node_class.status.instance_profile or "")


def test_a_launch_into_a_group_of_reservations_is_allowed(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="targeted")
    group = control.add_group(world.ec2.world, account=ACCOUNT, name="paid", members=(slots.id,))
    target = {"capacityReservationTarget": {"capacityReservationResourceGroupArn": group.id}}
    node_class = world.resolve(world.node_class(capacityReservationSpec=target))
    assert world.one(node_class, types=("m5.large",)).reservation_id is None
    assert world.free(slots) == 0
