"""Disruption in the running controllers: emptiness, moves into reservations, consolidation and drift."""

import dataclasses

import pytest

import app_environment
from app_environment import AppEnvironment
from disruption_environment import (
    ONE_PER_NODE,
    condition_of,
    drift_all,
    is_new,
    kinds_of_nodes,
    pool,
    tainted,
)
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.disruption.inputs import ReleaseSlots
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Reservation

ALWAYS_RELEASED = dataclasses.replace(
    app_environment.SETTINGS,
    disruption=dataclasses.replace(app_environment.SETTINGS.disruption, release_slots=ReleaseSlots.ALWAYS),
)

# --- Emptiness ----------------------------------------------------------------------------------------


@pytest.mark.fact("D-15")
def test_empty_nodes_are_deleted_and_used_nodes_remain() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        await env.deploy("web", 4, **ONE_PER_NODE)
        await env.until_running(4)
        before = {claim.metadata.name for claim in await env.claims()}
        await env.scale("web", 1)
        await env.sleep(180)
        (claim,) = await env.claims()
        assert claim.metadata.name in before
        assert len(env.ec2_instances) == len(await env.nodes()) == 1
        assert len(await env.running()) == 1
        assert len(env.all_ec2_instances()) == 4  # no replacement was launched

    app_environment.run(program)


def test_consolidate_after_never_keeps_empty_nodes() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",), consolidate_after="Never")
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        await env.scale("web", 0)
        await env.sleep(600)
        assert len(await env.claims()) == 2

    app_environment.run(program)


def test_pods_move_from_on_demand_nodes_to_empty_nodes_in_slots() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await pool(env, slots, consolidate_after="0s")
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        await env.deploy("api", 2, **ONE_PER_NODE)
        await env.until_running(2, "api")
        assert await kinds_of_nodes(env) == ["on-demand", "on-demand", "reserved", "reserved"]
        before = {one.id for one in env.all_ec2_instances()}
        await env.scale("web", 0)

        async def moved() -> bool:
            return await kinds_of_nodes(env) == ["reserved", "reserved"]

        await env.until(moved, within_s=300)
        await env.until_running(2, "api")
        assert env.in_reservation(slots) == 2 == len(env.ec2_instances)
        assert {one.id for one in env.all_ec2_instances()} == before  # no instance was launched

    app_environment.run(program)


def test_empty_nodes_in_slots_are_deleted_if_no_pods_move_to_them() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await pool(env, slots)
        await env.deploy("web", 3, **ONE_PER_NODE)
        await env.until_running(3)
        await env.scale("web", 0)
        await env.sleep(180)
        assert not await env.claims()
        assert env.free(slots) == 2

    app_environment.run(program)


# --- Into reservations --------------------------------------------------------------------------------


@pytest.mark.fact("D-30")
def test_on_demand_nodes_move_into_slots_that_another_cluster_frees() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3, elsewhere=3)
        await pool(env, slots)
        await env.deploy("web", 3, **ONE_PER_NODE)
        await env.until_running(3)
        assert await kinds_of_nodes(env) == ["on-demand"] * 3
        control.give(env.ec2.region, slots.id, 3)

        async def moved() -> bool:
            return await kinds_of_nodes(env) == ["reserved"] * 3

        await env.until(moved, within_s=900)
        await env.until_running(3)
        assert env.in_reservation(slots) == 3 == len(env.ec2_instances)
        assert not any(map(tainted, await env.nodes()))

    app_environment.run(program)


@pytest.mark.fact("D-31", "Q-10")
def test_node_moves_from_a_large_slot_to_a_small_one_if_its_pods_fit() -> None:
    async def program(env: AppEnvironment) -> None:
        big, small = env.reserve("c6a.48xlarge", 1), env.reserve("c6a.large", 1)
        await pool(env, big, small, types=("c6a.48xlarge", "c6a.large"), kinds=("reserved",))
        await env.deploy("web", 50, cpu="1500m")
        await env.until_running(50)
        assert (env.in_reservation(big), env.in_reservation(small)) == (1, 0)
        await env.scale("web", 1)

        async def moved() -> bool:
            return (env.in_reservation(big), env.in_reservation(small)) == (0, 1)

        await env.until(moved, within_s=900)
        await env.until_running(1)

    app_environment.run(program, settings=ALWAYS_RELEASED)


@pytest.mark.parametrize("restarts", [False, True])
def test_moved_pod_is_not_moved_again_for_ten_minutes_even_after_a_restart(*, restarts: bool) -> None:
    async def program(env: AppEnvironment) -> None:
        big, small = env.reserve("m5.xlarge", 1, elsewhere=1), env.reserve("m5.large", 1, elsewhere=1)
        await pool(env, big, small, types=("m5.large", "m5.xlarge"))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)

        async def is_in(slots: Reservation) -> bool:
            return env.in_reservation(slots) == 1 == len(await env.claims()) == len(await env.running())

        control.give(env.ec2.region, big.id, 1)
        await env.until(lambda: is_in(big), within_s=600)
        (pod,) = await env.pods()
        if restarts:
            await env.restart()
        control.give(env.ec2.region, small.id, 1)
        waited_s = await env.until(lambda: is_in(small), within_s=1500)
        assert pod.metadata.creation_timestamp is not None
        evicted = next(e for e in await env.events("Evicted") if e.involved_object.name == pod.metadata.name)
        assert evicted.first_timestamp is not None
        until_moved_s = (evicted.first_timestamp - pod.metadata.creation_timestamp).total_seconds()
        assert 600 <= until_moved_s < 700, waited_s

    app_environment.run(program, settings=ALWAYS_RELEASED)


# --- Consolidation ------------------------------------------------------------------------------------


@pytest.mark.fact("D-24")
def test_underutilized_nodes_are_consolidated() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, types=("m5.xlarge",), kinds=("on-demand",))
        await env.deploy("web", 8, cpu="1700m")
        await env.until_running(8)
        assert len(await env.nodes()) == 4
        await env.scale("web", 4)

        async def fewer() -> bool:
            return len(await env.claims()) == 2

        await env.until(fewer, within_s=900)
        await env.until_running(4)
        assert len(env.ec2_instances) == 2

    app_environment.run(program)


# --- Conditions ---------------------------------------------------------------------------------------


@pytest.mark.fact("NC-42")
def test_consolidatable_is_set_after_consolidate_after_and_removed_by_a_pod_event() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, types=("m5.xlarge",), kinds=("on-demand",), consolidate_after="2m")
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await env.sleep(60)
        (claim,) = await env.claims()
        assert condition_of(claim, "Consolidatable") is None
        await env.sleep(120)
        (claim,) = await env.claims()
        assert condition_of(claim, "Consolidatable") == ("True", "Consolidatable")
        await env.scale("web", 2)
        await env.until_running(2)
        await env.sleep(15)
        (claim,) = await env.claims()
        assert condition_of(claim, "Consolidatable") is None

    app_environment.run(program)


# --- Drift --------------------------------------------------------------------------------------------


def test_changed_template_replaces_each_node_before_it_is_deleted() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",), budgets=[{"nodes": "1"}])
        await env.deploy("web", 3, **ONE_PER_NODE)
        await env.until_running(3)
        await drift_all(env)
        await env.sleep(2)
        reasons = [condition_of(claim, "Drifted") for claim in await env.claims()]
        assert ("True", "NodePoolDrifted") in reasons

        async def rolled() -> bool:
            nodes = await env.nodes()
            assert len([node for node in nodes if not tainted(node)]) >= 2  # one node at a time
            return len(nodes) == 3 and all(map(is_new, nodes))

        await env.until(rolled, within_s=1200)
        await env.until_running(3)
        assert len(env.all_ec2_instances()) == 6
        assert not any(map(tainted, await env.nodes()))

    app_environment.run(program)


def test_a_class_that_selects_another_reservation_replaces_its_nodes() -> None:
    async def program(env: AppEnvironment) -> None:
        old, new = env.reserve(total=2), env.reserve(total=2)
        await pool(env, old, kinds=("reserved",))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        assert env.in_reservation(old) == 2
        found = await env.kube.get(EC2NodeClass, "default")
        terms = [{"id": new.id}]
        await env.kube.patch(
            found, {"spec": {"capacityReservationSelectorTerms": terms}}, only_if_unchanged=True
        )

        async def moved() -> bool:
            return (env.in_reservation(old), env.in_reservation(new)) == (0, 2)

        await env.until(moved, within_s=1800)
        await env.until_running(2)

    app_environment.run(program)


@pytest.mark.fact("Q-29")
def test_expired_reservation_drifts_nodes_of_a_reserved_only_nodepool() -> None:
    async def program(env: AppEnvironment) -> None:
        ends_s = env.clock.now_s() + 600
        old, new = env.reserve(total=1, end_s=ends_s), env.reserve(total=1, elsewhere=1)
        never = "Never"  # so that only drift disrupts the node
        await pool(env, old, new, kinds=("reserved",), consolidate_after=never)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (before,), (pod,) = await env.claims(), await env.running()
        await env.sleep(ends_s - env.clock.now_s() - 5)
        assert condition_of(await env.kube.get(NodeClaim, before.metadata.name), "Drifted") is None

        async def drifted() -> bool:
            found = await env.kube.get(NodeClaim, before.metadata.name)
            return condition_of(found, "Drifted") == ("True", "RequirementsDrifted")

        await env.until(drifted, within_s=420)
        await env.sleep(600)  # no slot is free for a replacement: no pod is evicted
        assert [one.metadata.uid for one in await env.running()] == [pod.metadata.uid]
        assert len(env.all_ec2_instances()) == 1
        control.give(env.ec2.region, new.id, 1)

        async def replaced() -> bool:
            return env.in_reservation(new) == 1 and await env.is_deleted(NodeClaim, before.metadata.name)

        await env.until(replaced, within_s=600)
        await env.until_running(1)

    app_environment.run(program)
