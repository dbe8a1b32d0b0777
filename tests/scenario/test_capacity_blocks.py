"""Capacity blocks: listed before they start, used from their start, drained before EC2 terminates their instances.

The real controllers run in virtual time.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import conditions
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodepool import NodePool
from holdfast.sim.api.serving.faults import Refuse
from holdfast.sim.api.serving.front import Request
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Instance, Reservation
from holdfast.state.conversion import times
from objects import nodeclaim

GPU = "p5.48xlarge"
ONE_PER_NODE = {"cpu": "150"}
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def block(env: AppEnvironment, *, starts_in_s: int = 0, lasts_s: int = DAY_S, **more: Any) -> Reservation:
    start_s = env.clock.now_s() + starts_in_s
    return env.reserve(GPU, 2, kind="capacity-block", start_s=start_s, end_s=start_s + lasts_s, **more)


async def node_class(env: AppEnvironment) -> EC2NodeClass:
    return await env.kube.get(EC2NodeClass, "default")


async def with_pool(env: AppEnvironment, *kinds: str, replicas: int = 2, **reservation: str) -> None:
    await env.node_class(capacityReservationSelectorTerms=[reservation])
    await env.node_pool(requirements=[instance_types(GPU), capacity_types(*kinds)])
    await env.deploy("train", replicas, **ONE_PER_NODE)


async def until_s(env: AppEnvironment, moment_s: int) -> None:
    """Advance to this second: skip most of the time and simulate the last two minutes."""
    left_s = moment_s - env.clock.now_s()
    assert left_s >= 0, f"that was {-left_s} s ago"
    if left_s > 3 * MINUTE_S:
        env.skip(left_s - 2 * MINUTE_S)
    await env.sleep(moment_s - env.clock.now_s())


def hour(moment_s: int) -> str:
    """The time of day as messages show it."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%H:%M")


async def deleting(env: AppEnvironment) -> int:
    return sum(claim.metadata.deletion_timestamp is not None for claim in await env.claims())


async def slots_condition(env: AppEnvironment) -> str | None:
    """The reason of the NodePool's condition about its slots. A block that has not started counts as none."""
    found = (await env.kube.get(NodePool, "default")).status.conditions
    condition = conditions.find(found, "CapacityReservationAvailable")
    return None if condition is None else condition.reason


def terminated_by_ec2(env: AppEnvironment) -> list[Instance]:
    return [one for one in env.all_ec2_instances() if one.state_reason[0].startswith("Server.")]


@pytest.mark.fact("Q-37", "aws-6.2.1", "aws-6.2.2", "aws-6.2.3", "W-12", "AW-11", "AW-15", "aws-10.5.5")
def test_capacity_block_is_used_from_its_start_and_drained_before_its_end() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env, starts_in_s=HOUR_S, lasts_s=14 * DAY_S)
        await with_pool(env, "reserved", id=slots.id)
        await env.forbid_evictions("train")
        await env.sleep(2 * MINUTE_S)
        (upcoming,) = (await node_class(env)).status.upcoming_capacity_reservations
        assert (upcoming.id, times.epoch_s(upcoming.start_time)) == (slots.id, slots.start_s)
        assert await env.claims() == []  # no launch before the block starts, and none on demand
        assert await slots_condition(env) is None

        await until_s(env, slots.start_s)
        await env.until_running(2, "train", within_s=60)
        assert env.in_reservation(slots) == 2
        status = (await node_class(env)).status
        assert [(one.id, one.state) for one in status.capacity_reservations] == [(slots.id, "active")]
        assert status.upcoming_capacity_reservations == ()
        await env.sleep(2 * MINUTE_S)
        assert await slots_condition(env) == "LimitExceeded"

        drains_s, reclaims_s = slots.end_s - 40 * MINUTE_S, slots.end_s - 30 * MINUTE_S
        await until_s(env, drains_s - 5)
        assert await deleting(env) == 0
        await env.sleep(10)
        assert await deleting(env) == 2
        for claim in await env.claims():
            assert claim.metadata.annotations[names.TERMINATION_TIMESTAMP] == times.text(reclaims_s)
        events = await env.events("ReservationEnding")
        assert {event.involved_object.kind for event in events} == {"NodeClaim", "Node"}
        ends, reclaimed = hour(slots.end_s), hour(reclaims_s)
        assert {event.message for event in events} == {
            (
                f"block {slots.id} ends at {ends}, and its instances are terminated from {reclaimed} on (UTC): the node is "
                "drained until then, whatever disruption budgets allow"
            )
        }
        assert (await node_class(env)).status.capacity_reservations[0].state == "active"

        await env.sleep(4 * MINUTE_S)
        await env.restart()
        assert len(await env.running("train")) == 2  # the PodDisruptionBudget still blocks evictions
        await env.sleep(reclaims_s - env.clock.now_s() - 1)
        assert env.ec2_instances == []  # the drain ended before EC2 reclaims the instances
        await env.sleep(5)
        assert (await node_class(env)).status.capacity_reservations[0].state == "expiring"
        await until_s(env, slots.end_s + MINUTE_S)
        assert (await node_class(env)).status.capacity_reservations == ()
        assert terminated_by_ec2(env) == []
        assert await env.claims() == []
        assert await env.nodes() == []
        assert len(env.all_ec2_instances()) <= 2  # no launch into the block after its drain

    app_environment.run(program)


@pytest.mark.parametrize("starts_in_s", [301, 302, 303, 304, 305])
def test_nodes_are_launched_within_two_seconds_of_the_start_of_a_block(starts_in_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env, starts_in_s=starts_in_s)
        await with_pool(env, "reserved", id=slots.id)
        await until_s(env, slots.start_s)
        assert env.all_ec2_instances() == []
        await env.sleep(2)
        assert env.in_reservation(slots) == 2

    app_environment.run(program)


@pytest.mark.fact("aws-6.2.7", "aws-9.4.1")
def test_block_is_drained_before_its_end_after_the_feature_gate_is_disabled() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", "on-demand", id=slots.id)
        await env.until_running(2, "train")
        assert env.in_reservation(slots) == 2
        env.settings = app_environment.without_reserved(env.settings)
        await env.restart()
        await env.sleep(2 * MINUTE_S)
        await until_s(env, slots.end_s - 40 * MINUTE_S - 5)
        assert await deleting(env) == 0
        await env.sleep(15)
        assert await deleting(env) == 2
        await env.until_running(2, "train", within_s=10 * MINUTE_S)
        assert env.in_reservation(slots) == 0
        assert terminated_by_ec2(env) == []

    app_environment.run(program)


def test_pods_of_an_ending_block_run_on_other_nodes_before_ec2_reclaims_it() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", "on-demand", id=slots.id)
        await env.until_running(2, "train")
        assert env.in_reservation(slots) == 2
        await until_s(env, slots.end_s - 40 * MINUTE_S)
        await env.sleep(3 * MINUTE_S)
        kinds = [event.involved_object.kind for event in await env.events("ReservationEnding")]
        assert sorted(kinds) == ["Node", "Node", "NodeClaim", "NodeClaim"]
        await env.until_running(2, "train", within_s=4 * MINUTE_S)
        assert env.in_reservation(slots) == 0
        assert len(env.ec2_instances) == 2
        assert terminated_by_ec2(env) == []

    app_environment.run(program)


def test_extension_one_hour_before_the_end_postpones_the_drain() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", id=slots.id)
        await env.until_running(2, "train")
        before = {pod.metadata.uid for pod in await env.running("train")}
        await until_s(env, slots.end_s - HOUR_S)
        control.set_end(env.ec2.region, slots.id, slots.end_s + DAY_S)
        await env.sleep(25 * MINUTE_S)  # past the start of the old drain
        assert await deleting(env) == 0
        assert {pod.metadata.uid for pod in await env.running("train")} == before
        (listed,) = (await node_class(env)).status.capacity_reservations
        assert listed.end_time is not None
        assert times.epoch_s(listed.end_time) == slots.end_s + DAY_S
        await until_s(env, slots.end_s + DAY_S - 40 * MINUTE_S - 5)
        assert await deleting(env) == 0
        await env.sleep(10)
        assert await deleting(env) == 2

    app_environment.run(program)


def test_extension_two_seconds_before_the_drain_postpones_the_drain() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", id=slots.id)
        await env.until_running(2, "train")
        await until_s(env, slots.end_s - 40 * MINUTE_S - 2)
        control.set_end(env.ec2.region, slots.id, slots.end_s + DAY_S)
        await env.sleep(3 * MINUTE_S)
        assert await deleting(env) == 0

    app_environment.run(program)


def test_earlier_end_of_a_block_moves_its_drain_forward() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", id=slots.id)
        await env.until_running(2, "train")
        await env.sleep(2 * MINUTE_S)
        control.set_end(env.ec2.region, slots.id, env.clock.now_s() + 45 * MINUTE_S)
        await env.sleep(4 * MINUTE_S)
        assert await deleting(env) == 0
        await env.sleep(MINUTE_S + 5)
        assert await deleting(env) == 2

    app_environment.run(program)


@pytest.mark.parametrize("lasts_s", [HOUR_S + second for second in (0, 3, 6, 9)])
def test_drain_of_a_block_starts_within_a_second_of_its_time(lasts_s: int) -> None:
    """Dates are read every ten seconds. The four blocks end at four moments of these ten seconds."""

    async def program(env: AppEnvironment) -> None:
        slots = block(env, lasts_s=lasts_s)
        await with_pool(env, "reserved", id=slots.id)
        await env.until_running(2, "train")
        await until_s(env, slots.end_s - 40 * MINUTE_S)
        await env.sleep(1)
        assert await deleting(env) == 2

    app_environment.run(program)


@pytest.mark.fact("AW-15")
def test_ultraservers_are_drained_half_an_hour_earlier() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env, ultraserver=True)
        await with_pool(env, "reserved", id=slots.id)
        await env.until_running(2, "train")
        await until_s(env, slots.end_s - 70 * MINUTE_S - 5)
        assert await deleting(env) == 0
        await env.sleep(10)
        assert await deleting(env) == 2
        await until_s(env, slots.end_s - 60 * MINUTE_S + 5)
        assert (await node_class(env)).status.capacity_reservations[0].state == "expiring"
        assert terminated_by_ec2(env) == []

    app_environment.run(program)


@pytest.mark.parametrize("terms", [[], [{"tags": {"team": "other"}}]], ids=["no terms", "other terms"])
def test_block_that_no_class_selects_any_more_is_still_drained(terms: list[dict[str, Any]]) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(
            requirements=[instance_types(GPU), capacity_types("reserved", "on-demand")],
            disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
        )
        await env.deploy("train", 2, **ONE_PER_NODE)
        await env.until_running(2, "train")
        change = {"spec": {"capacityReservationSelectorTerms": terms}}
        await env.kube.patch(await node_class(env), change, only_if_unchanged=True)
        await env.sleep(5 * MINUTE_S)
        assert (await node_class(env)).status.capacity_reservations == ()
        await env.restart()  # the new process does not know what was selected
        await env.sleep(5 * MINUTE_S)
        assert await deleting(env) == 0  # the budget allows no disruption for drift
        await until_s(env, slots.end_s - 40 * MINUTE_S - 5)
        assert env.in_reservation(slots) == 2
        await env.sleep(10)
        assert await deleting(env) == 2
        await env.sleep(9 * MINUTE_S)
        assert terminated_by_ec2(env) == []
        assert env.in_reservation(slots) == 0
        await env.until_running(2, "train")

    app_environment.run(program)


@pytest.mark.parametrize("behind_s", [-1200, 1200])
def test_wrong_clock_of_the_process_does_not_move_the_drain_of_a_block(behind_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", id=slots.id)
        await env.until_running(2, "train")
        await until_s(env, slots.end_s - 40 * MINUTE_S - 5)
        assert await deleting(env) == 0
        await env.sleep(10)
        assert await deleting(env) == 2

    app_environment.run(program, behind_s=behind_s)


@pytest.mark.parametrize("ahead_s", [-240, 240])
def test_block_is_drained_by_the_clock_of_ec2(ahead_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        end_s = env.ec2_clock.now_s() + DAY_S
        slots = env.reserve(
            GPU, 2, kind="capacity-block", start_s=env.ec2_clock.now_s() - MINUTE_S, end_s=end_s
        )
        await with_pool(env, "reserved", id=slots.id)
        await env.until_running(2, "train")
        await env.sleep(5 * MINUTE_S)  # until the offset of EC2's clock is known
        drains_s = end_s - 40 * MINUTE_S - ahead_s
        await until_s(env, drains_s - 5)
        assert await deleting(env) == 0
        (listed,) = (await node_class(env)).status.capacity_reservations
        assert listed.end_time == datetime.fromtimestamp(end_s, UTC)
        await env.sleep(10)
        assert await deleting(env) == 2
        deadlines = {c.metadata.annotations[names.TERMINATION_TIMESTAMP] for c in await env.claims()}
        assert deadlines == {times.text(drains_s + 10 * MINUTE_S)}
        await env.sleep(9 * MINUTE_S)
        assert terminated_by_ec2(env) == []

    app_environment.run(program, ec2_ahead_s=ahead_s)


def is_request_for(name: str) -> Callable[[Request], bool]:
    return lambda request: name in request.path


def test_failing_writes_to_one_nodeclaim_do_not_delay_other_drains() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", id=slots.id)
        await env.until_running(2, "train")
        await until_s(env, slots.end_s - 40 * MINUTE_S - 5)
        for claim in await env.claims():
            env.line.clear()
            name = claim.metadata.name
            env.line.add(Refuse("InternalError"), is_request_for(name), times=10**6)
            await env.sleep(15)
            others = [one for one in await env.claims() if one.metadata.name != name]
            assert all(one.metadata.deletion_timestamp is not None for one in others)
            failed = {"controller": "reservations.expiration", "result": "error"}
            assert env.app.metrics.value("controller_runtime_reconcile_total", failed)
        env.line.clear()
        await env.sleep(2 * MINUTE_S)
        assert await env.claims() == []
        assert terminated_by_ec2(env) == []

    app_environment.run(program)


WRITES = 14  # number of writes of one drain


def writes_of_drain(crash_at: int | None) -> list[str]:
    """Drain a block while the process crashes once, right after write `crash_at`; return all writes."""
    written: list[str] = []

    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", replicas=1, id=slots.id)
        await env.until_running(1, "train")
        await until_s(env, slots.end_s - 40 * MINUTE_S - 1)
        first = len(env.crashing.writes)
        if crash_at is not None:
            env.crashing.crash_after_write(first + crash_at, after_effect=True)
            await env.crashing.crashed.wait()
            await env.restart(after_s=5)

        async def is_over() -> bool:
            return not await env.claims() and not await env.nodes()

        await env.until(is_over, within_s=9 * MINUTE_S)
        written.extend(env.crashing.writes[first:])
        assert env.ec2_instances == []
        assert len(env.all_ec2_instances()) == 1
        assert terminated_by_ec2(env) == []

    app_environment.run(program)
    return written


def test_drain_makes_as_many_writes_as_the_crash_test_covers() -> None:
    assert len(writes_of_drain(None)) == WRITES


@pytest.mark.parametrize("crash_at", range(WRITES))
def test_drain_completes_after_a_crash_at_any_write(crash_at: int) -> None:
    writes_of_drain(crash_at)


async def failed_scheduling(env: AppEnvironment, app: str) -> set[str]:
    """The messages of Holdfast's FailedScheduling events for the pods of an app."""
    return {
        event.message or ""
        for event in await env.events("FailedScheduling")
        if event.involved_object.name.startswith(app) and event.source.component == "holdfast"
    }


def test_event_of_a_pending_pod_names_the_end_of_its_block() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env, lasts_s=DAY_S)
        other = env.reserve("m5.large", 1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}, {"id": other.id}])
        await env.node_pool(requirements=[capacity_types("reserved")])
        await until_s(env, slots.end_s - 35 * MINUTE_S)
        await env.deploy("train", 1, **ONE_PER_NODE)
        await env.sleep(5 * MINUTE_S)
        ends, since = hour(slots.end_s), hour(slots.end_s - 40 * MINUTE_S)
        assert await failed_scheduling(env, "train") == {
            f"block {slots.id} ends at {ends} and takes no new nodes since {since} (UTC)"
        }

    app_environment.run(program)


def test_event_of_a_pending_pod_names_the_start_of_its_block() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env, starts_in_s=HOUR_S)
        await with_pool(env, "reserved", replicas=1, id=slots.id)
        await env.sleep(5 * MINUTE_S)
        drained = datetime.fromtimestamp(slots.end_s - 40 * MINUTE_S, UTC).strftime("%Y-%m-%d %H:%M")
        assert await failed_scheduling(env, "train") == {
            (
                f"block {slots.id} starts at {hour(slots.start_s)} (UTC) with 2 slots, and takes nodes from then on; its "
                f"nodes are drained from {drained} on (UTC), and the pod states no run time"
            )
        }
        pool = await env.kube.get(NodePool, "default")
        assert conditions.find(conditions.of(pool), "CapacityReservationAvailable") is None

    app_environment.run(program)


def test_unlaunched_nodeclaim_is_deleted_when_the_drain_of_its_block_starts() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", replicas=0, id=slots.id)
        await until_s(env, slots.end_s - 41 * MINUTE_S)
        env.ec2.region.faults.add(faults.Broken(operation="CreateFleet"))
        await env.scale("train", 1)
        await env.sleep(MINUTE_S - 5)
        (claim,) = await env.claims()
        assert claim.status.provider_id is None
        assert await env.events("ReservationEnding") == []
        await env.sleep(10)
        (event,) = await env.events("ReservationEnding")
        assert event.involved_object.name == claim.metadata.name
        assert await env.claims() == []

    app_environment.run(program)


def test_nodeclaim_of_another_provider_is_not_drained_with_the_block() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = block(env)
        await with_pool(env, "reserved", replicas=0, id=slots.id)
        reference = {"group": "other.example", "kind": "OtherNodeClass", "name": "default"}
        held = {names.RESERVATION_ID: slots.id}
        await env.kube.create(nodeclaim("foreign", {"annotations": held}, nodeClassRef=reference))
        await until_s(env, slots.end_s - 35 * MINUTE_S)
        (claim,) = await env.claims()
        assert claim.metadata.deletion_timestamp is None
        assert await env.events("ReservationEnding") == []

    app_environment.run(program)
