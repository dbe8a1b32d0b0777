"""A class changes under a running node: it is replaced by one that the class would launch now; the real program, in virtual
time. Nothing is consolidated here, so that nothing but drift moves a node."""

from typing import Any

import pytest

import app_world
import aws_world
from app_world import AppWorld, capacity_types, instance_types
from disruption_world import ONE_PER_NODE, said
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.ec2.entities import Instance

OLD, NEW = [image.id for image in aws_world.images() if image.name.startswith("AL2023-x86_64")][:2]


async def start(world: AppWorld) -> NodeClaim:
    await world.node_class(amiFamily="AL2023", amiSelectorTerms=[{"id": OLD}])
    wanted = [instance_types("m5.large"), capacity_types("on-demand")]
    await world.node_pool(requirements=wanted, disruption={"consolidateAfter": "Never"})
    await world.deploy("web", 1, **ONE_PER_NODE)
    await world.until_running(1)
    (claim,) = await world.claims()
    return claim


def change(world: AppWorld, field: str) -> dict[str, Any]:
    """What is written into the class, so that its node is no longer what it would launch."""
    setup, (machine,) = world.ec2.world.setup, world.machines
    away = [one for one in setup.subnets if one.account == machine.account and one.id != machine.subnet_id]
    group = [one for one in setup.security_groups if one.account == machine.account and not one.tags]
    written: dict[str, dict[str, Any]] = {
        "user_data": {"userData": "echo new"},
        "image_id": {"amiSelectorTerms": [{"id": NEW}]},
        "subnet_id": {"subnetSelectorTerms": [{"id": one.id} for one in away]},
        "security_groups": {"securityGroupSelectorTerms": [{"id": group[0].id}]},
    }
    return written[field]


def seen(machine: Instance, field: str) -> Any:
    return machine.subnet_id if field == "subnet_id" else getattr(machine.spec, field)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("user_data", "NodeClassDrift"),
        ("image_id", "AMIDrift"),
        ("subnet_id", "SubnetDrift"),
        ("security_groups", "SecurityGroupDrift"),
    ],
)
def test_a_node_that_its_class_would_not_launch_any_more_is_replaced(field: str, reason: str) -> None:
    async def program(world: AppWorld) -> None:
        old, (before,) = await start(world), world.machines
        await world.sleep(600)
        assert [one.metadata.name for one in await world.claims()] == [old.metadata.name]
        found = await world.kube.get(EC2NodeClass, "default")
        await world.kube.patch(found, {"spec": change(world, field)}, only_if_unchanged=True)

        async def replaced() -> bool:
            return await world.gone(NodeClaim, old.metadata.name)

        await world.until(replaced, within_s=900)
        await world.until_running(1)
        assert reason in {(said(one, "Drifted") or ("", ""))[1] for one in world.ever(NodeClaim)}
        (after,), (claim,) = world.machines, await world.claims()
        assert said(claim, "Drifted") is None
        assert seen(after, field) != seen(before, field)
        await world.sleep(600)
        assert [one.metadata.name for one in await world.claims()] == [
            claim.metadata.name
        ]  # and that was all

    app_world.run(program)
