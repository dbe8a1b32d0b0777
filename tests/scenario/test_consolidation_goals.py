"""Goals 5 and 6 of the design of capacity reservations: consolidation into reservations, and between them."""

import dataclasses
from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, pool
from holdfast import names
from holdfast.core.disruption.inputs import ReleaseSlots
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Reservation

RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
TAGS = {"team": "ml"}
BY_TAG: dict[str, Any] = {"capacityReservationSelectorTerms": [{"tags": TAGS}]}
ALWAYS = dataclasses.replace(
    app_environment.SETTINGS,
    disruption=dataclasses.replace(app_environment.SETTINGS.disruption, release_slots=ReleaseSlots.ALWAYS),
)


async def mixed_pool(env: AppEnvironment, *kinds: str, types: tuple[str, ...] = ("m5.large",)) -> None:
    """A NodePool that allows reserved and these capacity types, of a class that selects reservations by their tags."""
    await env.node_class(**BY_TAG)
    await env.node_pool(
        requirements=[
            app_environment.instance_types(*types),
            app_environment.capacity_types("reserved", *kinds),
        ],
        disruption={"budgets": [{"nodes": "100%"}], "consolidateAfter": "30s"},
    )


async def is_reserved(env: AppEnvironment, slots: Reservation, count: int) -> bool:
    """Whether all nodes are in the reservation, on EC2 and by their labels, and all pods run there."""
    nodes = await env.nodes()
    labels = {(n.metadata.labels[names.CAPACITY_TYPE], n.metadata.labels.get(RESERVATION)) for n in nodes}
    return (
        labels == {("reserved", slots.id)}
        and env.in_reservation(slots) == len(env.ec2_instances) == len(nodes) == count
        and len(await env.running()) == count
    )


@pytest.mark.fact("Q-9", "D-30", "aws-10.5.2")
@pytest.mark.parametrize("kind", ["on-demand", "spot"])
@pytest.mark.parametrize("becomes", ["purchased", "freed"])
def test_on_demand_and_spot_nodes_move_into_a_reservation_that_becomes_available(
    kind: str, becomes: str
) -> None:
    """Goal 5."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2, tags=TAGS, elsewhere=2) if becomes == "freed" else None
        await mixed_pool(env, kind)
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        assert {node.metadata.labels[names.CAPACITY_TYPE] for node in await env.nodes()} == {kind}
        if slots is None:
            slots = env.reserve(total=2, tags=TAGS)
        else:
            control.give(env.ec2.region, slots.id, 2)

        async def moved() -> bool:
            assert slots is not None
            return await is_reserved(env, slots, 2)

        await env.until(moved, within_s=900)
        await env.sleep(1800)
        assert await moved()
        assert len(env.all_ec2_instances()) == 4  # each node moved once
        assert len({pod.metadata.uid for pod in env.ever(Pod)}) == 4

    app_environment.run(program)


@pytest.mark.parametrize("after_s", [5, 20, 35, 50])
def test_pods_move_into_a_new_reservation_whenever_it_is_counted(after_s: int) -> None:
    """Counts and the status of the class are read once a minute, at different times. A pass between the two knows the free
    slots, and no NodePool that offers them: its result must not keep the slots idle until consolidation is tried again."""

    async def program(env: AppEnvironment) -> None:
        first = env.reserve(total=2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": first.id}, {"tags": {"app": "web"}}])
        await env.node_pool(
            requirements=[
                app_environment.instance_types("m5.large", "c5.xlarge"),
                app_environment.capacity_types("reserved", "on-demand"),
            ],
            disruption={"budgets": [{"nodes": "100%"}]},
        )
        await env.deploy("web", 4, cpu="1500m")
        await env.until_running(4)
        await env.sleep(after_s)
        new = env.reserve(total=2, tags={"app": "web"})

        async def is_used() -> bool:
            return env.in_reservation(new) == 2

        await env.until(is_used, within_s=120)

    app_environment.run(program)


@pytest.mark.fact("Q-28")
@pytest.mark.parametrize(
    ("fields", "pods"),
    [
        ({"platform": "Windows"}, {}),
        ({}, {"nodeSelector": {names.ZONE: "us-west-2b"}}),
        ({"instance_type": "m5.xlarge"}, {"nodeSelector": {names.INSTANCE_TYPE: "m5.large"}}),
        ({"instance_type": "c5.large"}, {}),  # the NodePool does not allow the type
    ],
    ids=["platform", "zone", "type-of-pod", "type-of-nodepool"],
)
def test_nodes_do_not_move_into_a_reservation_of_another_platform_zone_or_type(
    fields: dict[str, Any], pods: dict[str, Any]
) -> None:
    async def program(env: AppEnvironment) -> None:
        await mixed_pool(env, "on-demand", types=("m5.large", "m5.xlarge"))
        await env.deploy("web", 1, **ONE_PER_NODE | pods)
        await env.until_running(1)
        (before,) = env.ec2_instances
        wanted: dict[str, Any] = {"total": 1, "tags": TAGS}
        slots = env.reserve(**wanted | fields)
        await env.sleep(900)
        assert [instance.id for instance in env.ec2_instances] == [before.id]
        assert env.free(slots) == 1

    app_environment.run(program)


async def node_in_larger_reservation(env: AppEnvironment) -> tuple[Reservation, Reservation]:
    """Two reservations of one slot, and a node in the larger one whose pods would fit the smaller one now."""
    large, small = env.reserve("m5.2xlarge", 1, tags=TAGS), env.reserve("m5.large", 1, tags=TAGS)
    await pool(env, large, small, types=("m5.2xlarge", "m5.large"), kinds=("reserved",))
    await env.deploy("web", 4, **ONE_PER_NODE)
    await env.until_running(4)
    assert (env.in_reservation(large), env.in_reservation(small)) == (1, 0)
    await env.scale("web", 1)
    return large, small


@pytest.mark.fact("Q-10", "D-31")
def test_node_in_a_larger_reservation_moves_to_a_smaller_one_with_release_slots_always() -> None:
    """Goal 6, as the design has it and as Karpenter does it."""

    async def program(env: AppEnvironment) -> None:
        large, small = await node_in_larger_reservation(env)

        async def moved() -> bool:
            return await is_reserved(env, small, 1)

        await env.until(moved, within_s=900)
        await env.sleep(1800)
        assert await moved()
        assert env.free(large) == 1
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program, settings=ALWAYS)


@pytest.mark.fact("Q-10", "D-31")
def test_node_in_a_larger_reservation_moves_by_default_once_a_pod_needs_that_slot() -> None:
    """Goal 6 by default: unused slots are paid for as well, so a move that no pod needs saves nothing."""

    async def program(env: AppEnvironment) -> None:
        large, small = await node_in_larger_reservation(env)
        await env.sleep(1800)
        assert (env.in_reservation(large), env.in_reservation(small)) == (1, 0)
        await env.deploy("big", 1, cpu="7")

        async def moved() -> bool:
            return bool(await env.running("big")) and len(await env.running()) == 1

        await env.until(moved, within_s=900)
        assert (env.in_reservation(large), env.in_reservation(small)) == (1, 1)

    app_environment.run(program)
