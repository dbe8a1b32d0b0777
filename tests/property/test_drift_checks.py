"""The condition Drifted is the drift from scratch, at most one check after any change, seen by a watch or not."""

import random
from dataclasses import replace
from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import ONE_PER_NODE, condition_of
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.controllers.nodeclaim.drift_checks import AGAIN_S
from holdfast.controllers.nodeclaim.pool_drift import PoolDrift

NODES = 3
STEPS = 4
RESOLVED_S = 70  # a class or a pool that changed has its new hash and status
HOUR_S = 3600


async def start(env: AppEnvironment) -> None:
    await env.node_class(tags={"team": "a"})
    await env.node_pool(
        requirements=[instance_types("m5.large"), capacity_types("on-demand")],
        disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
    )
    await env.deploy("web", NODES, **ONE_PER_NODE)
    await env.until_running(NODES)


async def from_scratch(env: AppEnvironment, claim: NodeClaim) -> str | None:
    node_class = await env.kube.get(EC2NodeClass, "default")
    pool = await env.kube.get(NodePool, "default")
    types = await env.app.cloud.instance_types(node_class)
    found = PoolDrift(env.app.cloud.labels).reason(claim, pool, types, HOUR_S)
    return found or await env.app.cloud.drift(claim, node_class)


async def change_class(env: AppEnvironment, dice: random.Random) -> None:
    found = await env.kube.get(EC2NodeClass, "default")
    await env.kube.patch(found, {"spec": {"tags": {"team": dice.choice("ab")}}})


async def change_pool(env: AppEnvironment, dice: random.Random) -> None:
    found = await env.kube.get(NodePool, "default")
    labels = {"metadata": {"labels": {"team": dice.choice((None, "b"))}}}
    await env.kube.patch(found, {"spec": {"template": labels}})


async def change_instance(env: AppEnvironment, dice: random.Random) -> None:
    """No watch and no notice shows it."""
    instance = dice.choice(env.ec2_instances)
    groups: tuple[str, ...] = instance.spec.security_groups
    others = tuple(one.id for one in env.ec2.region.setup.security_groups if one.account == instance.account)
    spec = replace(instance.spec, security_groups=others if groups != others else groups[:1])
    env.ec2.region.put_instance(instance, spec=spec)


async def restart(env: AppEnvironment, _: random.Random) -> None:
    await env.restart()


async def nothing(_env: AppEnvironment, _: random.Random) -> None:
    pass


CHANGES: tuple[Any, ...] = (change_class, change_pool, change_instance, change_instance, restart, nothing)


@pytest.mark.parametrize("seed", range(6))
def test_drifted_condition_is_the_drift_from_scratch(seed: int) -> None:
    dice = random.Random(seed)

    async def program(env: AppEnvironment) -> None:
        await start(env)
        for _ in range(STEPS):
            await dice.choice(CHANGES)(env, dice)
            await env.sleep(RESOLVED_S + AGAIN_S + dice.choice((5, 60)))
            claims = await env.claims()
            assert len(claims) == NODES
            for claim in claims:
                drifted = condition_of(claim, "Drifted")
                expected = await from_scratch(env, claim)
                assert (drifted[1] if drifted is not None else None) == expected

    app_environment.run(program)
