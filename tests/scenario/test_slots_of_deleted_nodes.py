"""Nodes in slots that expire, or that are deleted by a user or by EC2: the slot is held for the replacement, nothing is
launched on demand, and each pod is restarted once. The real controllers run in virtual time."""

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import drift_all
from holdfast import names
from holdfast.api.nodepool import NodePool
from holdfast.api.pods import Pod
from holdfast.app.settings import Settings
from holdfast.core.disruption.inputs import MixedPools
from holdfast.core.scheduling.input.request import Packing
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Reservation

LARGE = instance_types("m5.large")
PACKINGS = pytest.mark.parametrize("packing", list(Packing))
Cause = Callable[[AppEnvironment], Awaitable[None]]


def packed(packing: Packing, **disruption: Any) -> Settings:
    planning = dataclasses.replace(app_environment.SETTINGS.planning, packing=packing)
    changed = dataclasses.replace(app_environment.SETTINGS.disruption, **disruption)
    return dataclasses.replace(app_environment.SETTINGS, planning=planning, disruption=changed)


async def in_full_reservation(env: AppEnvironment, nodes: int = 1, **template: Any) -> Reservation:
    """Pods, each alone on a node in a slot; the NodePool may launch on demand as well."""
    slots = env.reserve(total=nodes)
    await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    await env.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")], **template)
    await env.deploy("web", nodes, cpu="1500m")
    await env.until_running(nodes)
    await env.sleep(130)  # until a count shows the launches
    return slots


async def delete_claims(env: AppEnvironment) -> None:
    for claim in await env.claims():
        await env.kube.delete(claim)


async def delete_nodes(env: AppEnvironment) -> None:
    for node in await env.nodes():
        await env.kube.delete(node)


async def until_replaced(
    env: AppEnvironment, slots: Reservation, nodes: int = 1, running: int | None = None
) -> None:
    """Until so many new nodes run in the slots; at no time does an instance run outside them."""
    old = {instance.id for instance in env.ec2_instances if instance.state == "running"}

    async def replaced() -> bool:
        assert all(instance.reservation_id == slots.id for instance in env.ec2_instances)
        new = {instance.id for instance in env.ec2_instances if instance.state == "running"} - old
        return len(new) == nodes and len(await env.running()) == (running or nodes)

    await env.until(replaced, within_s=600)


def restarts(env: AppEnvironment, pods: int = 1) -> int:
    return len({pod.metadata.uid for pod in env.ever(Pod)}) - pods


@pytest.mark.fact("W-5")
@PACKINGS
@pytest.mark.parametrize("cause", [delete_claims, delete_nodes])
def test_a_node_that_a_user_deletes_is_replaced_in_its_slot(packing: Packing, cause: Cause) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await in_full_reservation(env)
        await cause(env)
        await until_replaced(env, slots)
        await env.sleep(120)
        assert len(env.all_ec2_instances()) == 2
        assert restarts(env) == 1
        held = {"reason": "held", "nodepool": "default", "min_values_relaxed": "false"}
        assert env.app.metrics.value("karpenter_nodeclaims_created_total", held) == 1

    app_environment.run(program, settings=packed(packing))


@pytest.mark.fact("W-5")
@PACKINGS
def test_a_node_that_expires_is_replaced_in_its_slot(packing: Packing) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await in_full_reservation(env, expireAfter="10m")
        await env.sleep(300)
        await until_replaced(env, slots)
        await env.sleep(120)
        assert len(env.all_ec2_instances()) == 2
        assert restarts(env) == 1

    app_environment.run(program, settings=packed(packing))


@pytest.mark.fact("W-5")
def test_an_unhealthy_instance_is_replaced_in_its_slot() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await in_full_reservation(env)
        control.impair(env.ec2.region, env.ec2_instances[0].id)
        await until_replaced(env, slots)
        await env.sleep(120)
        assert len(env.all_ec2_instances()) == 2
        assert restarts(env) == 1

    app_environment.run(program)


def test_several_nodes_that_are_deleted_at_once_are_each_replaced_in_their_slot() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await in_full_reservation(env, nodes=3)
        await delete_claims(env)
        await until_replaced(env, slots, nodes=3)
        await env.sleep(120)
        assert len(env.all_ec2_instances()) == 6
        assert restarts(env, pods=3) == 3

    app_environment.run(program)


def test_nodes_that_are_deleted_one_after_the_other_are_each_replaced_in_their_slot() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await in_full_reservation(env, nodes=2)
        first, second = await env.claims()
        for claim in (first, second):
            await env.kube.delete(claim)
            await until_replaced(env, slots, nodes=1, running=2)
            await env.sleep(130)
        assert len(env.all_ec2_instances()) == 4
        assert restarts(env, pods=2) == 2

    app_environment.run(program)


def test_no_claim_is_written_for_a_node_pool_that_is_deleted_while_a_replacement_is_planned() -> None:
    async def program(env: AppEnvironment) -> None:
        await in_full_reservation(env)
        before = len(env.claims_ever())
        await delete_claims(env)
        await env.sleep(1)  # the decision takes three seconds
        await env.kube.delete(await env.kube.get(NodePool, "default"))
        await env.sleep(300)
        assert len(env.claims_ever()) == before
        assert not env.ec2_instances

    app_environment.run(program, plans_take_s=3)


@pytest.mark.parametrize("after_s", [0.2, 2, 20, 50])
def test_a_restart_keeps_the_slot_held(after_s: float) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await in_full_reservation(env)
        await delete_claims(env)
        await env.sleep(after_s)
        await env.restart()
        await until_replaced(env, slots)
        await env.sleep(120)
        assert len(env.all_ec2_instances()) == 2
        assert restarts(env) == 1
        assert len(env.claims_ever()) == 2

    app_environment.run(program)


def test_no_slot_is_held_for_the_replacement_of_a_node_that_cannot_be_drained() -> None:
    """The disruption budget allows no eviction, so the instance never frees the slot for its replacement."""

    async def program(env: AppEnvironment) -> None:
        await in_full_reservation(env)
        await env.forbid_evictions()
        await delete_claims(env)
        await env.sleep(60)
        assert not [
            claim for claim in await env.claims() if names.WAITS_FOR_INSTANCE in claim.metadata.annotations
        ]
        assert len(await env.running()) == 1

    app_environment.run(program)


async def forbid_evictions(env: AppEnvironment) -> None:
    await env.forbid_evictions()


@pytest.mark.parametrize("cause", [delete_claims, delete_nodes])
@pytest.mark.parametrize("annotated", [True, False])
def test_pod_next_to_one_that_is_never_evicted_does_not_wait_for_the_slot(
    cause: Cause, *, annotated: bool
) -> None:
    """The drain never ends, so the slot never becomes free."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")])
        annotations = {names.DO_NOT_DISRUPT: "true"} if annotated else {}
        await env.deploy("stays", 1, cpu="500m", annotations=annotations)
        await env.deploy("web", 1, cpu="500m")
        await env.until_running(1, "stays")
        await env.until_running(1, "web")
        if not annotated:
            await env.forbid_evictions("stays")
        await env.sleep(130)  # until a count shows the launch
        (node,) = await env.nodes()
        await cause(env)
        await env.sleep(120)
        (web,), (stays,) = await env.running("web"), await env.running("stays")
        assert (web.spec["nodeName"] != node.metadata.name, stays.spec["nodeName"]) == (
            True,
            node.metadata.name,
        )

    app_environment.run(program)


async def annotate_pods(env: AppEnvironment) -> None:
    for pod in await env.pods():
        await env.kube.patch(pod, {"metadata": {"annotations": {names.DO_NOT_DISRUPT: "true"}}})


@pytest.mark.parametrize("block", [forbid_evictions, annotate_pods])
@pytest.mark.parametrize("cause", [delete_claims, delete_nodes, drift_all])
def test_the_slot_is_held_for_pods_that_stay_until_the_termination_grace_period_ends(
    cause: Cause, block: Cause
) -> None:
    """The plan does not count such pods, so the slot was not held, and they were launched on demand."""

    async def program(env: AppEnvironment) -> None:
        slots = await in_full_reservation(env, terminationGracePeriod="5m")
        await block(env)
        await cause(env)
        await until_replaced(env, slots)
        await env.sleep(120)
        assert len(env.all_ec2_instances()) == 2
        assert restarts(env) == 1

    app_environment.run(program)


def test_with_roll_mixed_pools_fallback_a_node_is_launched_on_demand_at_once() -> None:
    async def program(env: AppEnvironment) -> None:
        await in_full_reservation(env)
        await delete_claims(env)
        await env.sleep(10)
        assert {instance.reservation_id for instance in env.ec2_instances} >= {""}

    app_environment.run(program, settings=packed(Packing.COST, roll_mixed_pools=MixedPools.FALLBACK))
