"""Goals 5 and 6 of the design of capacity reservations: consolidation into reservations, and between them."""

import dataclasses
from typing import Any

import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, pool
from holdfast import names
from holdfast.core.disruption.inputs import ReleaseSlots
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Reservation

RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
TAGS = {"team": "ml"}
BY_TAG: dict[str, Any] = {"capacityReservationSelectorTerms": [{"tags": TAGS}]}
ALWAYS = dataclasses.replace(
    app_world.SETTINGS,
    disruption=dataclasses.replace(app_world.SETTINGS.disruption, release_slots=ReleaseSlots.ALWAYS),
)


async def mixed_pool(world: AppWorld, *kinds: str, types: tuple[str, ...] = ("m5.large",)) -> None:
    """A NodePool that allows reserved and these capacity types, of a class that selects reservations by their tags."""
    await world.node_class(**BY_TAG)
    await world.node_pool(
        requirements=[app_world.instance_types(*types), app_world.capacity_types("reserved", *kinds)],
        disruption={"budgets": [{"nodes": "100%"}], "consolidateAfter": "30s"},
    )


async def is_reserved(world: AppWorld, slots: Reservation, count: int) -> bool:
    """Whether all nodes are in the reservation, on EC2 and by their labels, and all pods run there."""
    nodes = await world.nodes()
    labels = {(n.metadata.labels[names.CAPACITY_TYPE], n.metadata.labels.get(RESERVATION)) for n in nodes}
    return (
        labels == {("reserved", slots.id)}
        and world.in_reservation(slots) == len(world.machines) == len(nodes) == count
        and len(await world.running()) == count
    )


@pytest.mark.fact("Q-9", "D-30", "aws-10.5.2")
@pytest.mark.parametrize("kind", ["on-demand", "spot"])
@pytest.mark.parametrize("becomes", ["purchased", "freed"])
def test_on_demand_and_spot_nodes_move_into_a_reservation_that_becomes_available(
    kind: str, becomes: str
) -> None:
    """Goal 5."""

    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=2, tags=TAGS, elsewhere=2) if becomes == "freed" else None
        await mixed_pool(world, kind)
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.until_running(2)
        assert {node.metadata.labels[names.CAPACITY_TYPE] for node in await world.nodes()} == {kind}
        if slots is None:
            slots = world.reserve(total=2, tags=TAGS)
        else:
            control.give(world.ec2.world, slots.id, 2)

        async def moved() -> bool:
            assert slots is not None
            return await is_reserved(world, slots, 2)

        await world.until(moved, within_s=900)
        await world.sleep(1800)
        assert await moved()
        assert len(world.all_machines()) == 4  # each node moved once
        assert len({pod.metadata.uid for pod in world.ever(Pod)}) == 4

    app_world.run(program)


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
    async def program(world: AppWorld) -> None:
        await mixed_pool(world, "on-demand", types=("m5.large", "m5.xlarge"))
        await world.deploy("web", 1, **ONE_PER_NODE | pods)
        await world.until_running(1)
        (before,) = world.machines
        wanted: dict[str, Any] = {"total": 1, "tags": TAGS}
        slots = world.reserve(**wanted | fields)
        await world.sleep(900)
        assert [instance.id for instance in world.machines] == [before.id]
        assert world.free(slots) == 1

    app_world.run(program)


async def node_in_larger_reservation(world: AppWorld) -> tuple[Reservation, Reservation]:
    """Two reservations of one slot, and a node in the larger one whose pods would fit the smaller one now."""
    large, small = world.reserve("m5.2xlarge", 1, tags=TAGS), world.reserve("m5.large", 1, tags=TAGS)
    await pool(world, large, small, types=("m5.2xlarge", "m5.large"), kinds=("reserved",))
    await world.deploy("web", 4, **ONE_PER_NODE)
    await world.until_running(4)
    assert (world.in_reservation(large), world.in_reservation(small)) == (1, 0)
    await world.scale("web", 1)
    return large, small


@pytest.mark.fact("Q-10", "D-31")
def test_node_in_a_larger_reservation_moves_to_a_smaller_one_with_release_slots_always() -> None:
    """Goal 6, as the design has it and as Karpenter does it."""

    async def program(world: AppWorld) -> None:
        large, small = await node_in_larger_reservation(world)

        async def moved() -> bool:
            return await is_reserved(world, small, 1)

        await world.until(moved, within_s=900)
        await world.sleep(1800)
        assert await moved()
        assert world.free(large) == 1
        assert len(world.all_machines()) == 2

    app_world.run(program, settings=ALWAYS)


@pytest.mark.fact("Q-10", "D-31")
def test_node_in_a_larger_reservation_moves_by_default_once_a_pod_needs_that_slot() -> None:
    """Goal 6 by default: unused slots are paid for as well, so a move that no pod needs saves nothing."""

    async def program(world: AppWorld) -> None:
        large, small = await node_in_larger_reservation(world)
        await world.sleep(1800)
        assert (world.in_reservation(large), world.in_reservation(small)) == (1, 0)
        await world.deploy("big", 1, cpu="7")

        async def moved() -> bool:
            return bool(await world.running("big")) and len(await world.running()) == 1

        await world.until(moved, within_s=900)
        assert (world.in_reservation(large), world.in_reservation(small)) == (1, 1)

    app_world.run(program)
