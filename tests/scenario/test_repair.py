"""Repair of unhealthy nodes: a reserved node is rebooted first, because that keeps its slot."""

import dataclasses
from typing import Any

import pytest

import app_environment
import cluster_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, condition_of, kernel_is, pool
from holdfast import names
from holdfast.api.nodes import Node
from holdfast.sim.cluster import timings
from holdfast.sim.ec2.entities import Instance, Reservation

REPAIR = dataclasses.replace(
    app_environment.SETTINGS,
    disruption=dataclasses.replace(app_environment.SETTINGS.disruption, node_repair=True),
)
TOLERATED_S = 30 * 60


async def one_slot(
    env: AppEnvironment, *, kinds: tuple[str, ...] = ("reserved",), pods: Any = None, **template: Any
) -> Reservation:
    """A reservation with one slot and a node in it; `kinds` are the capacity types of the NodePool."""
    slots = env.reserve(total=1)
    await pool(env, slots, kinds=kinds, **template)
    await env.deploy("web", 1, **ONE_PER_NODE | (pods or {}))
    await env.until_running(1)
    return slots


async def rebooting(env: AppEnvironment) -> bool:
    return any(taint.key == names.REBOOTING_TAINT for node in await env.nodes() for taint in node.spec.taints)


async def until_rebooted(env: AppEnvironment, before: Node) -> None:
    async def is_rebooted() -> bool:
        (found,) = await env.nodes()
        return found.status.node_info.boot_id != before.status.node_info.boot_id and not await rebooting(env)

    await env.until(is_rebooted, within_s=600)


@pytest.mark.fact("NC-39a", "W-24", "NC-17", "E-3", "M-2")
def test_unhealthy_reserved_node_is_drained_and_rebooted_in_its_slot() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await one_slot(env)
        (node,), (instance,), (pod,) = await env.nodes(), env.ec2_instances, await env.running()
        await kernel_is(env, "False")
        await env.sleep(TOLERATED_S - 60)
        assert env.ec2_instances[0].boots == instance.boots  # still tolerated
        await env.until(lambda: rebooting(env), within_s=120)
        assert env.ec2_instances[0].boots == instance.boots  # not before its pods are evicted
        (claim,) = await env.claims()
        assert condition_of(claim, "Rebooting") == ("True", "RebootRequested")
        assert condition_of(claim, "Initialized") == ("True", "Initialized")
        assert (await env.nodes())[0].metadata.labels[names.INITIALIZED] == "true"
        await until_rebooted(env, node)
        (evicted,) = await env.events("Evicted")
        assert evicted.involved_object.name == pod.metadata.name
        await kernel_is(env, "True")
        await env.until_running(1)
        (claim,) = await env.claims()
        assert condition_of(claim, "Rebooting") == ("False", "RebootSucceeded")
        assert [one.id for one in env.all_ec2_instances()] == [instance.id]
        assert env.in_reservation(slots) == 1
        value = env.app.metrics.value
        assert value("karpenter_nodes_reboots_total", {"result": "succeeded"}) == 1
        assert 0 < (value("karpenter_nodes_reboot_recovery_duration_seconds_sum", {}) or 0) < 600
        assert value("karpenter_nodes_reboot_duration_seconds_count", {"result": "succeeded"}) == 1
        await env.sleep(TOLERATED_S)
        assert [one.id for one in env.ec2_instances] == [instance.id]  # no second reboot, no replacement

    app_environment.run(program, settings=REPAIR)


def test_pod_that_is_missing_in_the_cache_is_evicted_before_its_node_is_rebooted() -> None:
    async def program(env: AppEnvironment) -> None:
        await one_slot(env)
        (node,) = await env.nodes()
        await kernel_is(env, "False")
        await env.until(lambda: rebooting(env), within_s=TOLERATED_S + 120)
        env.line.silence("pods")
        bound = cluster_environment.pod_spec(cpu="10m") | {"nodeName": node.metadata.name}
        document = {"metadata": {"name": "late", "namespace": "default"}, "spec": bound}
        await env.create("/api/v1/namespaces/default/pods", document)
        await until_rebooted(env, node)
        evicted = {event.involved_object.name for event in await env.events("Evicted")}
        assert "late" in evicted

    app_environment.run(program, settings=REPAIR)


@pytest.mark.fact("NC-39a")
def test_node_is_rebooted_with_pods_that_cannot_be_evicted_within_the_grace_period() -> None:
    async def program(env: AppEnvironment) -> None:
        await one_slot(env, terminationGracePeriod="2m")
        await env.forbid_evictions()
        (node,), (instance,), (pod,) = await env.nodes(), env.ec2_instances, await env.running()
        await kernel_is(env, "False")
        await env.sleep(TOLERATED_S - 60)
        await env.until(lambda: rebooting(env), within_s=120)
        await env.sleep(110)
        assert env.ec2_instances[0].boots == instance.boots
        await until_rebooted(env, node)
        await env.until_running(1)
        assert [one.metadata.uid for one in await env.running()] == [pod.metadata.uid]
        assert await env.events("Evicted") == []

    app_environment.run(program, settings=REPAIR)


def silence_instance(env: AppEnvironment) -> None:
    """The instance stops responding, also after a reboot."""
    (instance,) = env.ec2_instances
    env.ec2.region.put_instance(instance, silent=True)


async def assert_replaced_in_its_slot(env: AppEnvironment, slots: Reservation, before: Instance) -> None:
    """At most one instance runs, always in the slot, and the slot is held while the old instance terminates."""

    async def is_new() -> bool:
        found = env.ec2_instances
        assert len(found) <= 1
        assert all(one.reservation_id == slots.id for one in found)
        held = [c for c in await env.claims() if names.WAITS_FOR_INSTANCE in c.metadata.annotations]
        assert found or held, "no NodeClaim holds the slot"
        return bool(found) and found[0].id != before.id

    await env.until(is_new, within_s=2 * TOLERATED_S)
    await env.until_running(1)
    assert len(env.all_ec2_instances()) == 2


def test_reserved_node_that_is_unhealthy_after_a_reboot_is_replaced_in_its_slot() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await one_slot(env)
        (node,), (instance,) = await env.nodes(), env.ec2_instances
        await kernel_is(env, "False")
        await env.sleep(TOLERATED_S)
        await until_rebooted(env, node)
        await env.sleep(200)
        assert [one.id for one in env.ec2_instances] == [
            instance.id
        ]  # the node's agent gets time to report the new state
        await assert_replaced_in_its_slot(env, slots, instance)
        assert await env.events("RebootFailed") == []

    app_environment.run(program, settings=REPAIR)


@pytest.mark.fact("NC-39a", "E-3")
def test_reserved_node_that_fails_to_reboot_is_replaced_in_its_slot() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await one_slot(env)
        (instance,) = env.ec2_instances
        silence_instance(env)
        await env.sleep(TOLERATED_S)
        await env.until(lambda: rebooting(env), within_s=300)
        await assert_replaced_in_its_slot(env, slots, instance)
        assert len(await env.events("RebootFailed")) == 1
        assert env.app.metrics.value("karpenter_nodes_reboots_total", {"result": "recovery_timeout"}) == 1

    app_environment.run(program, settings=REPAIR)


def test_unhealthy_node_is_not_repaired_without_the_feature_gate() -> None:
    async def program(env: AppEnvironment) -> None:
        await one_slot(env)
        (instance,) = env.ec2_instances
        await kernel_is(env, "False")
        await env.sleep(TOLERATED_S + 600)
        assert env.ec2_instances[0].boots == instance.boots

    app_environment.run(program)


MIXED = ("reserved", "on-demand")


@pytest.mark.parametrize("stops_s", [1, 30])
def test_pods_of_a_mixed_nodepool_wait_for_the_reboot_of_their_node(stops_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        slow = {"annotations": {timings.STOPS_AFTER: str(stops_s)}, "terminationGracePeriodSeconds": 60}
        await one_slot(env, kinds=MIXED, pods=slow)
        (node,), (instance,) = await env.nodes(), env.ec2_instances
        await kernel_is(env, "False")
        await env.sleep(TOLERATED_S - 60)
        await env.until(lambda: rebooting(env), within_s=120)
        await env.sleep(10)
        await until_rebooted(env, node)
        await kernel_is(env, "True")
        await env.until_running(1)
        assert [one.id for one in env.all_ec2_instances()] == [instance.id]

    app_environment.run(program, settings=REPAIR)


def test_evicted_pods_wait_at_most_ten_minutes_for_a_reboot_and_other_pods_do_not_wait() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve("m5.xlarge", total=1)
        await pool(env, slots, types=("m5.large", "m5.xlarge"))
        await env.deploy("web", 1, cpu="3")
        await env.until_running(1)
        await kernel_is(env, "False")
        await env.sleep(TOLERATED_S - 60)
        await env.until(lambda: rebooting(env), within_s=120)
        silence_instance(env)  # so the reboot fails
        await env.deploy("other", 1, cpu="300m")
        assert await env.until_running(1, "other") < 60
        await env.restart(after_s=20)
        await env.sleep(480)
        assert await env.running() == []
        await env.until_running(1, within_s=150)
        assert await rebooting(env)

    app_environment.run(program, settings=REPAIR)


def test_started_reboot_is_completed_after_the_feature_gate_is_disabled() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await one_slot(env)
        (instance,) = env.ec2_instances
        await kernel_is(env, "False")
        await env.sleep(TOLERATED_S - 60)
        await env.until(lambda: rebooting(env), within_s=120)
        silence_instance(env)
        env.settings = app_environment.SETTINGS
        await env.restart(after_s=20)
        await assert_replaced_in_its_slot(env, slots, instance)
        assert len(await env.events("RebootFailed")) == 1

    app_environment.run(program, settings=REPAIR)


# --- Crashes ----------------------------------------------------------------------------------------------

WRITES = 15  # from the end of the toleration until the pod runs again
BEFORE_REBOOT = 7  # after this write a reboot could happen twice, so the restarted process replaces the node


def writes_of_repair(crash_at: int | None) -> int:
    """The number of writes; the process crashes once, after the effect of write `crash_at` and before its answer."""
    write_counts: list[int] = []

    async def program(env: AppEnvironment) -> None:
        slots = await one_slot(env)
        (node,), (instance,) = await env.nodes(), env.ec2_instances
        await kernel_is(env, "False")
        await env.sleep(TOLERATED_S - 60)
        crashing, first = env.crashing, len(env.crashing.writes)
        if crash_at is not None:
            crashing.crash_after_write(first + crash_at, after_effect=True)
        healthy = False

        async def is_over() -> bool:
            nonlocal healthy
            if env.crashing.crashed.is_set():
                await env.restart()
            if crash_at == BEFORE_REBOOT:
                return env.ec2_instances != [instance] and len(await env.running()) == 1
            (now,) = await env.nodes()
            if not healthy and now.status.node_info.boot_id != node.status.node_info.boot_id:
                healthy = True
                await kernel_is(env, "True")
            (claim,) = await env.claims()
            is_rebooted = condition_of(claim, "Rebooting") == ("False", "RebootSucceeded")
            return is_rebooted and len(await env.running()) == 1

        await env.until(is_over, within_s=2400)
        await env.sleep(60)
        write_counts.append(len(crashing.writes) - first)
        assert crashing.crashed.is_set() == (crash_at is not None)
        await env.sleep(TOLERATED_S)
        assert not await rebooting(env)
        (after,) = env.ec2_instances
        assert (after.id == instance.id, after.boots) == (
            (False, 1) if crash_at == BEFORE_REBOOT else (True, 2)
        )
        assert env.in_reservation(slots) == 1 == len(await env.running())

    app_environment.run(program, settings=REPAIR)
    return write_counts[0]


def test_repair_makes_as_many_writes_as_the_crash_test_covers() -> None:
    assert writes_of_repair(None) == WRITES


@pytest.mark.parametrize("write", range(WRITES))
def test_restart_recovers_from_a_crash_at_any_write_of_a_repair(write: int) -> None:
    writes_of_repair(write)
