"""On-demand nodes that run when a reservation for them is created.

EC2 changes the reservation of stopped instances only, so no running instance is attached to a reservation. EC2 moves
instances with the preference `open` into an open reservation by itself: then the node is reserved, uses one slot, costs
nothing more and stays. The pods of other nodes move into the free slot.
"""

from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.app import explaining
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2.entities import Reservation

TEAM = {"team": "blue"}
SELECTS: dict[str, Any] = {"capacityReservationSelectorTerms": [{"tags": TEAM}]}
ONE_PER_NODE = {"cpu": "1500m"}  # of an m5.large
MINUTE_S = 60


async def one_on_demand(env: AppEnvironment, *types: str, cpu: str = "1500m", **spec: Any) -> None:
    """One node with one pod of the Deployment `web`."""
    await env.node_class(**spec)
    kinds = capacity_types("reserved", "on-demand")
    await env.node_pool(requirements=[instance_types(*(types or ("m5.large",))), kinds])
    await env.deploy("web", 1, cpu=cpu)
    await env.until_running(1)
    assert await capacity(env) == ["on-demand"]


async def with_joined_node(
    env: AppEnvironment, *types: str, total: int = 1, cpu: str = "1500m", terms_first: bool = False
) -> Reservation:
    """An on-demand node whose instance EC2 moved into an open reservation that its class selects. `terms_first`: the class
    has the terms before the reservation exists."""
    await one_on_demand(env, *types, cpu=cpu)  # without terms: its instance has the preference `open`
    if terms_first:
        await select(env)
        await env.sleep(5 * MINUTE_S)
    slots = env.reserve(env.ec2_instances[0].instance_type, total, criteria="open", tags=TEAM)
    assert env.in_reservation(slots) == 1
    if not terms_first:
        await select(env)
    await env.until(lambda: has(env, "reserved"), within_s=150)
    return slots


async def select(env: AppEnvironment) -> None:
    found = await env.kube.get(EC2NodeClass, "default")
    await env.kube.patch(found, {"spec": SELECTS}, only_if_unchanged=True)


async def has(env: AppEnvironment, *expected: str) -> bool:
    return await capacity(env) == list(expected)


async def capacity(env: AppEnvironment) -> list[str]:
    """The capacity types of all nodes."""
    return sorted(one.metadata.labels.get(names.CAPACITY_TYPE, "") for one in await env.nodes())


async def pods(env: AppEnvironment, app: str = "web") -> dict[str, str]:
    """The node of every pod by uid."""
    found = [one for one in await env.all(Pod) if one.metadata.labels["app"] == app]
    return {pod.metadata.uid: pod.spec["nodeName"] for pod in found}


# --- EC2 moves the instance -----------------------------------------------------------------------------


@pytest.mark.fact("aws-6.1.2")
@pytest.mark.parametrize("first", ["terms", "reservation"])
def test_node_that_ec2_moved_into_a_slot_uses_one_slot_and_stays(first: str) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await with_joined_node(env, total=2, terms_first=first == "terms")
        before = await pods(env)
        await env.deploy("more", 2, **ONE_PER_NODE)  # one slot is free
        await env.until_running(2, "more")
        assert await has(env, "on-demand", "reserved", "reserved")
        assert env.in_reservation(slots) == 2
        await env.sleep(15 * MINUTE_S)
        (row,) = (await explaining.explain(env.app).reports.reservations()).items
        assert (row.total, row.here, row.elsewhere, row.held, row.free) == (2, 2, 0, 0, 0)
        assert await pods(env) == before
        assert len(env.claims_ever()) == len(env.all_ec2_instances()) == 3

    app_environment.run(program)


async def with_a_small_pod_left(env: AppEnvironment) -> None:
    """The pod of the large node is replaced by a small one, for which a cheaper instance type would do."""
    await env.deploy("small", 1, cpu="500m")
    await env.until_running(1, "small")
    await env.scale("web", 0)


def test_node_that_ec2_moved_into_a_slot_is_not_replaced_by_a_cheaper_one_on_demand() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await with_joined_node(env, "m5.large", "m5.xlarge", cpu="2900m")
        await with_a_small_pod_left(env)
        before = await pods(env, "small")
        await env.sleep(20 * MINUTE_S)
        assert env.in_reservation(slots) == 1
        assert await pods(env, "small") == before
        assert len(env.claims_ever()) == 1

    app_environment.run(program)


def test_on_demand_node_of_that_size_is_replaced() -> None:
    """The same without the reservation."""

    async def program(env: AppEnvironment) -> None:
        await one_on_demand(env, "m5.large", "m5.xlarge", cpu="2900m")
        await with_a_small_pod_left(env)
        await env.sleep(20 * MINUTE_S)
        assert [one.instance_type for one in env.ec2_instances] == ["m5.large"]

    app_environment.run(program)


# --- Pods move ------------------------------------------------------------------------------------------


@pytest.mark.fact("AW-08", "aws-5.11.4")
@pytest.mark.parametrize("criteria", ["open", "targeted"])
def test_pods_of_an_on_demand_node_move_into_a_reservation_that_is_created_later(criteria: str) -> None:
    """The class has terms, so its on-demand instances have the preference `none`, and EC2 moves none of them."""

    async def program(env: AppEnvironment) -> None:
        await one_on_demand(env, **SELECTS)
        (first,) = env.ec2_instances
        slots = env.reserve("m5.large", 1, criteria=criteria, tags=TEAM)
        assert env.in_reservation(slots) == 0
        await env.until(lambda: has(env, "reserved"), within_s=10 * MINUTE_S)
        await env.until_running(1)
        (second,) = env.ec2_instances
        assert (second.reservation_id, second.id != first.id) == (slots.id, True)
        assert env.asked("ModifyInstanceCapacityReservationAttributes") == 0

    app_environment.run(program)
