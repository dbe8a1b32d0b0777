"""Disruption in the running controllers: emptiness, moves into reservations, consolidation and drift."""

import dataclasses

import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, kinds_of_nodes, pool, said, tainted
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.disruption.inputs import ReleaseSlots
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Reservation

ALWAYS_RELEASED = dataclasses.replace(
    app_world.SETTINGS,
    disruption=dataclasses.replace(app_world.SETTINGS.disruption, release_slots=ReleaseSlots.ALWAYS),
)

# --- Emptiness ----------------------------------------------------------------------------------------


@pytest.mark.fact("D-15")
def test_empty_nodes_are_deleted_and_used_nodes_remain() -> None:
    async def program(world: AppWorld) -> None:
        await pool(world, kinds=("on-demand",))
        await world.deploy("web", 4, **ONE_PER_NODE)
        await world.until_running(4)
        before = {claim.metadata.name for claim in await world.claims()}
        await world.scale("web", 1)
        await world.sleep(180)
        (claim,) = await world.claims()
        assert claim.metadata.name in before
        assert len(world.machines) == len(await world.nodes()) == 1
        assert len(await world.running()) == 1
        assert len(world.all_machines()) == 4  # no replacement was launched

    app_world.run(program)


def test_consolidate_after_never_keeps_empty_nodes() -> None:
    async def program(world: AppWorld) -> None:
        await pool(world, kinds=("on-demand",), consolidate_after="Never")
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.until_running(2)
        await world.scale("web", 0)
        await world.sleep(600)
        assert len(await world.claims()) == 2

    app_world.run(program)


# --- Into reservations --------------------------------------------------------------------------------


@pytest.mark.fact("D-30")
def test_on_demand_nodes_move_into_slots_that_another_cluster_frees() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=3, elsewhere=3)
        await pool(world, slots)
        await world.deploy("web", 3, **ONE_PER_NODE)
        await world.until_running(3)
        assert await kinds_of_nodes(world) == ["on-demand"] * 3
        control.give(world.ec2.world, slots.id, 3)

        async def moved() -> bool:
            return await kinds_of_nodes(world) == ["reserved"] * 3

        await world.until(moved, within_s=900)
        await world.until_running(3)
        assert world.in_reservation(slots) == 3 == len(world.machines)
        assert not any(map(tainted, await world.nodes()))

    app_world.run(program)


@pytest.mark.fact("D-31", "Q-10")
def test_node_moves_from_a_large_slot_to_a_small_one_if_its_pods_fit() -> None:
    async def program(world: AppWorld) -> None:
        big, small = world.reserve("c6a.48xlarge", 1), world.reserve("c6a.large", 1)
        await pool(world, big, small, types=("c6a.48xlarge", "c6a.large"), kinds=("reserved",))
        await world.deploy("web", 50, cpu="1500m")
        await world.until_running(50)
        assert (world.in_reservation(big), world.in_reservation(small)) == (1, 0)
        await world.scale("web", 1)

        async def moved() -> bool:
            return (world.in_reservation(big), world.in_reservation(small)) == (0, 1)

        await world.until(moved, within_s=900)
        await world.until_running(1)

    app_world.run(program, settings=ALWAYS_RELEASED)


@pytest.mark.parametrize("restarts", [False, True])
def test_moved_pod_is_not_moved_again_for_ten_minutes_even_after_a_restart(*, restarts: bool) -> None:
    async def program(world: AppWorld) -> None:
        big, small = world.reserve("m5.xlarge", 1, elsewhere=1), world.reserve("m5.large", 1, elsewhere=1)
        await pool(world, big, small, types=("m5.large", "m5.xlarge"))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)

        async def is_in(slots: Reservation) -> bool:
            return world.in_reservation(slots) == 1 == len(await world.claims()) == len(await world.running())

        control.give(world.ec2.world, big.id, 1)
        await world.until(lambda: is_in(big), within_s=600)
        (pod,) = await world.pods()
        if restarts:
            await world.restart()
        control.give(world.ec2.world, small.id, 1)
        waited_s = await world.until(lambda: is_in(small), within_s=1500)
        assert pod.metadata.creation_timestamp is not None
        evicted = next(
            e for e in await world.events("Evicted") if e.involved_object.name == pod.metadata.name
        )
        assert evicted.first_timestamp is not None
        until_moved_s = (evicted.first_timestamp - pod.metadata.creation_timestamp).total_seconds()
        assert 600 <= until_moved_s < 700, waited_s

    app_world.run(program, settings=ALWAYS_RELEASED)


# --- Consolidation ------------------------------------------------------------------------------------


@pytest.mark.fact("D-24")
def test_underutilized_nodes_are_consolidated() -> None:
    async def program(world: AppWorld) -> None:
        await pool(world, types=("m5.xlarge",), kinds=("on-demand",))
        await world.deploy("web", 8, cpu="1700m")
        await world.until_running(8)
        assert len(await world.nodes()) == 4
        await world.scale("web", 4)

        async def fewer() -> bool:
            return len(await world.claims()) == 2

        await world.until(fewer, within_s=900)
        await world.until_running(4)
        assert len(world.machines) == 2

    app_world.run(program)


# --- Conditions ---------------------------------------------------------------------------------------


@pytest.mark.fact("NC-42")
def test_consolidatable_is_set_after_consolidate_after_and_removed_by_a_pod_event() -> None:
    async def program(world: AppWorld) -> None:
        await pool(world, types=("m5.xlarge",), kinds=("on-demand",), consolidate_after="2m")
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        await world.sleep(60)
        (claim,) = await world.claims()
        assert said(claim, "Consolidatable") is None
        await world.sleep(120)
        (claim,) = await world.claims()
        assert said(claim, "Consolidatable") == ("True", "Consolidatable")
        await world.scale("web", 2)
        await world.until_running(2)
        await world.sleep(15)
        (claim,) = await world.claims()
        assert said(claim, "Consolidatable") is None

    app_world.run(program)


# --- Drift --------------------------------------------------------------------------------------------


def test_changed_template_replaces_each_node_before_it_is_deleted() -> None:
    async def program(world: AppWorld) -> None:
        await pool(world, kinds=("on-demand",), budgets=[{"nodes": "1"}])
        await world.deploy("web", 3, **ONE_PER_NODE)
        await world.until_running(3)
        await drift_all(world)
        await world.sleep(2)
        reasons = [said(claim, "Drifted") for claim in await world.claims()]
        assert ("True", "NodePoolDrifted") in reasons

        async def rolled() -> bool:
            nodes = await world.nodes()
            assert len([node for node in nodes if not tainted(node)]) >= 2  # one node at a time
            return len(nodes) == 3 and all(map(is_new, nodes))

        await world.until(rolled, within_s=1200)
        await world.until_running(3)
        assert len(world.all_machines()) == 6
        assert not any(map(tainted, await world.nodes()))

    app_world.run(program)


def test_a_class_that_selects_another_reservation_replaces_its_nodes() -> None:
    async def program(world: AppWorld) -> None:
        old, new = world.reserve(total=2), world.reserve(total=2)
        await pool(world, old, kinds=("reserved",))
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.until_running(2)
        assert world.in_reservation(old) == 2
        found = await world.kube.get(EC2NodeClass, "default")
        terms = [{"id": new.id}]
        await world.kube.patch(
            found, {"spec": {"capacityReservationSelectorTerms": terms}}, only_if_unchanged=True
        )

        async def moved() -> bool:
            return (world.in_reservation(old), world.in_reservation(new)) == (0, 2)

        await world.until(moved, within_s=1800)
        await world.until_running(2)

    app_world.run(program)


@pytest.mark.fact("Q-29")
def test_expired_reservation_drifts_nodes_of_a_reserved_only_nodepool() -> None:
    async def program(world: AppWorld) -> None:
        ends_s = world.clock.now_s() + 600
        old, new = world.reserve(total=1, end_s=ends_s), world.reserve(total=1, elsewhere=1)
        never = "Never"  # so that only drift disrupts the node
        await pool(world, old, new, kinds=("reserved",), consolidate_after=never)
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        (before,), (pod,) = await world.claims(), await world.running()
        await world.sleep(ends_s - world.clock.now_s() - 5)
        assert said(await world.kube.get(NodeClaim, before.metadata.name), "Drifted") is None

        async def drifted() -> bool:
            found = await world.kube.get(NodeClaim, before.metadata.name)
            return said(found, "Drifted") == ("True", "RequirementsDrifted")

        await world.until(drifted, within_s=420)
        await world.sleep(600)  # no slot is free for a replacement: no pod is evicted
        assert [one.metadata.uid for one in await world.running()] == [pod.metadata.uid]
        assert len(world.all_machines()) == 1
        control.give(world.ec2.world, new.id, 1)

        async def replaced() -> bool:
            return world.in_reservation(new) == 1 and await world.gone(NodeClaim, before.metadata.name)

        await world.until(replaced, within_s=600)
        await world.until_running(1)

    app_world.run(program)
