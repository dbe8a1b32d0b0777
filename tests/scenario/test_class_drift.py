"""A changed EC2NodeClass replaces its nodes by nodes that it would launch now.

The real controllers run in virtual time. Consolidation is off, so only drift disrupts nodes.
"""

from typing import Any

import pytest

import app_environment
import aws_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import ONE_PER_NODE, condition_of
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.ec2.entities import Instance

OLD, NEW = [image.id for image in aws_environment.images() if image.name.startswith("AL2023-x86_64")][:2]


async def start(env: AppEnvironment) -> NodeClaim:
    await env.node_class(amiFamily="AL2023", amiSelectorTerms=[{"id": OLD}])
    wanted = [instance_types("m5.large"), capacity_types("on-demand")]
    await env.node_pool(requirements=wanted, disruption={"consolidateAfter": "Never"})
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    (claim,) = await env.claims()
    return claim


def change(env: AppEnvironment, field: str) -> dict[str, Any]:
    """A patch of the class's spec that makes its node drift."""
    setup, (instance,) = env.ec2.region.setup, env.ec2_instances
    other_subnets = [
        one for one in setup.subnets if one.account == instance.account and one.id != instance.subnet_id
    ]
    other_groups = [one for one in setup.security_groups if one.account == instance.account and not one.tags]
    patches: dict[str, dict[str, Any]] = {
        "user_data": {"userData": "echo new"},
        "image_id": {"amiSelectorTerms": [{"id": NEW}]},
        "subnet_id": {"subnetSelectorTerms": [{"id": one.id} for one in other_subnets]},
        "security_groups": {"securityGroupSelectorTerms": [{"id": other_groups[0].id}]},
    }
    return patches[field]


def value_of(instance: Instance, field: str) -> Any:
    return instance.subnet_id if field == "subnet_id" else getattr(instance.spec, field)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("user_data", "NodeClassDrift"),
        ("image_id", "AMIDrift"),
        ("subnet_id", "SubnetDrift"),
        ("security_groups", "SecurityGroupDrift"),
    ],
)
def test_node_that_drifted_from_its_class_is_replaced(field: str, reason: str) -> None:
    async def program(env: AppEnvironment) -> None:
        old, (before,) = await start(env), env.ec2_instances
        await env.sleep(600)
        assert [one.metadata.name for one in await env.claims()] == [old.metadata.name]
        found = await env.kube.get(EC2NodeClass, "default")
        await env.kube.patch(found, {"spec": change(env, field)}, only_if_unchanged=True)

        async def replaced() -> bool:
            return await env.is_deleted(NodeClaim, old.metadata.name)

        await env.until(replaced, within_s=900)
        await env.until_running(1)
        assert reason in {(condition_of(one, "Drifted") or ("", ""))[1] for one in env.ever(NodeClaim)}
        (after,), (claim,) = env.ec2_instances, await env.claims()
        assert condition_of(claim, "Drifted") is None
        assert value_of(after, field) != value_of(before, field)
        await env.sleep(600)
        assert [one.metadata.name for one in await env.claims()] == [
            claim.metadata.name
        ]  # no further replacement

    app_environment.run(program)
