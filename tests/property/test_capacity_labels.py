"""The capacity labels of NodeClaims and Nodes agree with the instances two lists after any change of labels or instances."""

import random
from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import aws
from holdfast.core.reservations import capacity_type
from holdfast.model.reservations import State

NODES = 4
STEPS = 5
TWO_LISTS_S = 150


async def start(env: AppEnvironment) -> None:
    slots = [env.reserve(total=2) for _ in range(2)]
    terms = [{"id": one.id} for one in slots]
    await env.node_class(capacityReservationSelectorTerms=terms)
    await env.node_pool(
        requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")],
        disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
    )
    await env.deploy("web", NODES, cpu="1500m")
    await env.until_running(NODES)


async def change_claim(env: AppEnvironment, dice: random.Random) -> None:
    await change_labels(env, dice, dice.choice(await env.claims()))


async def change_node(env: AppEnvironment, dice: random.Random) -> None:
    await change_labels(env, dice, dice.choice(await env.nodes()))


async def change_labels(env: AppEnvironment, dice: random.Random, obj: Any) -> None:
    others: list[dict[str, str | None]] = [
        {names.CAPACITY_TYPE: "on-demand", aws.CAPACITY_RESERVATION_ID: None},
        {aws.CAPACITY_RESERVATION_ID: "cr-0"},
    ]
    await env.kube.patch(obj, {"metadata": {"labels": dice.choice(others)}})


async def cancel(env: AppEnvironment, dice: random.Random) -> None:
    """No watch and no notice shows it."""
    found = [one for one in env.ec2.region.reservations if one.state == "active"]
    if found:
        env.cancel(dice.choice(found))


async def restart(env: AppEnvironment, _: random.Random) -> None:
    await env.restart()


async def nothing(_env: AppEnvironment, _: random.Random) -> None:
    pass


CHANGES: tuple[Any, ...] = (change_claim, change_claim, change_node, change_node, cancel, restart, nothing)


@pytest.mark.parametrize("seed", range(6))
def test_capacity_labels_agree_with_the_instances(seed: int) -> None:
    dice = random.Random(seed)

    async def program(env: AppEnvironment) -> None:
        await start(env)
        for _ in range(STEPS):
            await dice.choice(CHANGES)(env, dice)
            await env.sleep(TWO_LISTS_S + dice.choice((0, 7, 33)))
            cloud = env.app.cloud
            reservations = (await cloud.reservations()).reservations
            ended = frozenset(one.id for one in reservations if one.state is State.GONE)
            of_id = {one.provider_id: one for one in await cloud.instances()}
            claims, nodes = await env.claims(), await env.nodes()
            assert len(claims) == len(nodes) == NODES
            for obj, id_ in (
                *((claim, claim.status.provider_id) for claim in claims),
                *((node, node.spec.provider_id) for node in nodes),
            ):
                assert not capacity_type.changes(obj.metadata.labels, of_id[id_ or ""], cloud.labels, ended)

    app_environment.run(program)
