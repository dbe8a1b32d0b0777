"""Capacity blocks: listed before they start, used from their start, drained before EC2 terminates their instances.

The real controllers run in virtual time.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast import names
from holdfast.api import conditions
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodepool import NodePool
from holdfast.sim.api.serving.faults import Refuse
from holdfast.sim.api.serving.front import Request
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Instance, Reservation
from holdfast.state.conversion import times

GPU = "p5.48xlarge"
ONE_PER_NODE = {"cpu": "150"}
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def block(world: AppWorld, *, starts_in_s: int = 0, lasts_s: int = DAY_S, **more: Any) -> Reservation:
    start_s = world.clock.now_s() + starts_in_s
    return world.reserve(GPU, 2, kind="capacity-block", start_s=start_s, end_s=start_s + lasts_s, **more)


async def node_class(world: AppWorld) -> EC2NodeClass:
    return await world.kube.get(EC2NodeClass, "default")


async def with_pool(world: AppWorld, *kinds: str, replicas: int = 2, **reservation: str) -> None:
    await world.node_class(capacityReservationSelectorTerms=[reservation])
    await world.node_pool(requirements=[instance_types(GPU), capacity_types(*kinds)])
    await world.deploy("train", replicas, **ONE_PER_NODE)


async def until_s(world: AppWorld, moment_s: int) -> None:
    """Advance to this second: skip most of the time and simulate the last two minutes."""
    left_s = moment_s - world.clock.now_s()
    assert left_s >= 0, f"that was {-left_s} s ago"
    if left_s > 3 * MINUTE_S:
        world.skip(left_s - 2 * MINUTE_S)
    await world.sleep(moment_s - world.clock.now_s())


def hour(moment_s: int) -> str:
    """The time of day as messages show it."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%H:%M")


async def deleting(world: AppWorld) -> int:
    return sum(claim.metadata.deletion_timestamp is not None for claim in await world.claims())


def terminated_by_ec2(world: AppWorld) -> list[Instance]:
    return [one for one in world.all_machines() if one.state_reason[0].startswith("Server.")]


@pytest.mark.fact("Q-37", "aws-6.2.1", "aws-6.2.2", "aws-6.2.3", "W-12", "AW-11", "AW-15", "aws-10.5.5")
def test_capacity_block_is_used_from_its_start_and_drained_before_its_end() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world, starts_in_s=HOUR_S, lasts_s=14 * DAY_S)
        await with_pool(world, "reserved", id=slots.id)
        await world.forbid_evictions("train")
        await world.sleep(2 * MINUTE_S)
        (upcoming,) = (await node_class(world)).status.upcoming_capacity_reservations
        assert (upcoming.id, times.epoch_s(upcoming.start_time)) == (slots.id, slots.start_s)
        assert await world.claims() == []  # no launch before the block starts, and none on demand

        await until_s(world, slots.start_s)
        await world.until_running(2, "train", within_s=60)
        assert world.in_reservation(slots) == 2
        status = (await node_class(world)).status
        assert [(one.id, one.state) for one in status.capacity_reservations] == [(slots.id, "active")]
        assert status.upcoming_capacity_reservations == ()

        drains_s, reclaims_s = slots.end_s - 40 * MINUTE_S, slots.end_s - 30 * MINUTE_S
        await until_s(world, drains_s - 5)
        assert await deleting(world) == 0
        await world.sleep(10)
        assert await deleting(world) == 2
        for claim in await world.claims():
            assert claim.metadata.annotations[names.TERMINATION_TIMESTAMP] == times.text(reclaims_s)
        events = await world.events("ReservationEnding")
        assert {event.involved_object.kind for event in events} == {"NodeClaim", "Node"}
        ends, reclaimed = hour(slots.end_s), hour(reclaims_s)
        assert {event.message for event in events} == {
            (
                f"block {slots.id} ends at {ends}, and its instances are terminated from {reclaimed} on (UTC): the node is "
                "drained until then, whatever disruption budgets allow"
            )
        }
        assert (await node_class(world)).status.capacity_reservations[0].state == "active"

        await world.sleep(4 * MINUTE_S)
        await world.restart()
        assert len(await world.running("train")) == 2  # the PodDisruptionBudget still blocks evictions
        await world.sleep(reclaims_s - world.clock.now_s() - 1)
        assert world.machines == []  # the drain ended before EC2 reclaims the instances
        await world.sleep(5)
        assert (await node_class(world)).status.capacity_reservations[0].state == "expiring"
        await until_s(world, slots.end_s + MINUTE_S)
        assert (await node_class(world)).status.capacity_reservations == ()
        assert terminated_by_ec2(world) == []
        assert await world.claims() == []
        assert await world.nodes() == []
        assert len(world.all_machines()) <= 2  # no launch into the block after its drain

    app_world.run(program)


@pytest.mark.parametrize("starts_in_s", [301, 302, 303, 304, 305])
def test_nodes_are_launched_within_two_seconds_of_the_start_of_a_block(starts_in_s: int) -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world, starts_in_s=starts_in_s)
        await with_pool(world, "reserved", id=slots.id)
        await until_s(world, slots.start_s)
        assert world.all_machines() == []
        await world.sleep(2)
        assert world.in_reservation(slots) == 2

    app_world.run(program)


@pytest.mark.fact("aws-6.2.7", "aws-9.4.1")
def test_block_is_drained_before_its_end_after_the_feature_gate_is_disabled() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", "on-demand", id=slots.id)
        await world.until_running(2, "train")
        assert world.in_reservation(slots) == 2
        world.settings = app_world.without_reserved(world.settings)
        await world.restart()
        await world.sleep(2 * MINUTE_S)
        await until_s(world, slots.end_s - 40 * MINUTE_S - 5)
        assert await deleting(world) == 0
        await world.sleep(15)
        assert await deleting(world) == 2
        await world.until_running(2, "train", within_s=10 * MINUTE_S)
        assert world.in_reservation(slots) == 0
        assert terminated_by_ec2(world) == []

    app_world.run(program)


def test_pods_of_an_ending_block_run_on_other_nodes_before_ec2_reclaims_it() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", "on-demand", id=slots.id)
        await world.until_running(2, "train")
        assert world.in_reservation(slots) == 2
        await until_s(world, slots.end_s - 40 * MINUTE_S)
        await world.sleep(3 * MINUTE_S)
        kinds = [event.involved_object.kind for event in await world.events("ReservationEnding")]
        assert sorted(kinds) == ["Node", "Node", "NodeClaim", "NodeClaim"]
        await world.until_running(2, "train", within_s=4 * MINUTE_S)
        assert world.in_reservation(slots) == 0
        assert len(world.machines) == 2
        assert terminated_by_ec2(world) == []

    app_world.run(program)


def test_extension_one_hour_before_the_end_postpones_the_drain() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", id=slots.id)
        await world.until_running(2, "train")
        before = {pod.metadata.uid for pod in await world.running("train")}
        await until_s(world, slots.end_s - HOUR_S)
        control.set_end(world.ec2.world, slots.id, slots.end_s + DAY_S)
        await world.sleep(25 * MINUTE_S)  # past the start of the old drain
        assert await deleting(world) == 0
        assert {pod.metadata.uid for pod in await world.running("train")} == before
        (listed,) = (await node_class(world)).status.capacity_reservations
        assert listed.end_time is not None
        assert times.epoch_s(listed.end_time) == slots.end_s + DAY_S
        await until_s(world, slots.end_s + DAY_S - 40 * MINUTE_S - 5)
        assert await deleting(world) == 0
        await world.sleep(10)
        assert await deleting(world) == 2

    app_world.run(program)


def test_extension_two_seconds_before_the_drain_postpones_the_drain() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", id=slots.id)
        await world.until_running(2, "train")
        await until_s(world, slots.end_s - 40 * MINUTE_S - 2)
        control.set_end(world.ec2.world, slots.id, slots.end_s + DAY_S)
        await world.sleep(3 * MINUTE_S)
        assert await deleting(world) == 0

    app_world.run(program)


def test_earlier_end_of_a_block_moves_its_drain_forward() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", id=slots.id)
        await world.until_running(2, "train")
        await world.sleep(2 * MINUTE_S)
        control.set_end(world.ec2.world, slots.id, world.clock.now_s() + 45 * MINUTE_S)
        await world.sleep(4 * MINUTE_S)
        assert await deleting(world) == 0
        await world.sleep(MINUTE_S + 5)
        assert await deleting(world) == 2

    app_world.run(program)


@pytest.mark.parametrize("lasts_s", [HOUR_S + second for second in (0, 3, 6, 9)])
def test_drain_of_a_block_starts_within_a_second_of_its_time(lasts_s: int) -> None:
    """Dates are read every ten seconds. The four blocks end at four moments of these ten seconds."""

    async def program(world: AppWorld) -> None:
        slots = block(world, lasts_s=lasts_s)
        await with_pool(world, "reserved", id=slots.id)
        await world.until_running(2, "train")
        await until_s(world, slots.end_s - 40 * MINUTE_S)
        await world.sleep(1)
        assert await deleting(world) == 2

    app_world.run(program)


@pytest.mark.fact("AW-15")
def test_ultraservers_are_drained_half_an_hour_earlier() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world, ultraserver=True)
        await with_pool(world, "reserved", id=slots.id)
        await world.until_running(2, "train")
        await until_s(world, slots.end_s - 70 * MINUTE_S - 5)
        assert await deleting(world) == 0
        await world.sleep(10)
        assert await deleting(world) == 2
        await until_s(world, slots.end_s - 60 * MINUTE_S + 5)
        assert (await node_class(world)).status.capacity_reservations[0].state == "expiring"
        assert terminated_by_ec2(world) == []

    app_world.run(program)


@pytest.mark.parametrize("terms", [[], [{"tags": {"team": "other"}}]], ids=["no terms", "other terms"])
def test_block_that_no_class_selects_any_more_is_still_drained(terms: list[dict[str, Any]]) -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await world.node_pool(
            requirements=[instance_types(GPU), capacity_types("reserved", "on-demand")],
            disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
        )
        await world.deploy("train", 2, **ONE_PER_NODE)
        await world.until_running(2, "train")
        change = {"spec": {"capacityReservationSelectorTerms": terms}}
        await world.kube.patch(await node_class(world), change, only_if_unchanged=True)
        await world.sleep(5 * MINUTE_S)
        assert (await node_class(world)).status.capacity_reservations == ()
        await world.restart()  # the new process does not know what was selected
        await world.sleep(5 * MINUTE_S)
        assert await deleting(world) == 0  # the budget allows no disruption for drift
        await until_s(world, slots.end_s - 40 * MINUTE_S - 5)
        assert world.in_reservation(slots) == 2
        await world.sleep(10)
        assert await deleting(world) == 2
        await world.sleep(9 * MINUTE_S)
        assert terminated_by_ec2(world) == []
        assert world.in_reservation(slots) == 0
        await world.until_running(2, "train")

    app_world.run(program)


@pytest.mark.parametrize("behind_s", [-1200, 1200])
def test_wrong_clock_of_the_process_does_not_move_the_drain_of_a_block(behind_s: int) -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", id=slots.id)
        await world.until_running(2, "train")
        await until_s(world, slots.end_s - 40 * MINUTE_S - 5)
        assert await deleting(world) == 0
        await world.sleep(10)
        assert await deleting(world) == 2

    app_world.run(program, behind_s=behind_s)


@pytest.mark.parametrize("ahead_s", [-240, 240])
def test_block_is_drained_by_the_clock_of_ec2(ahead_s: int) -> None:
    async def program(world: AppWorld) -> None:
        end_s = world.ec2_clock.now_s() + DAY_S
        slots = world.reserve(
            GPU, 2, kind="capacity-block", start_s=world.ec2_clock.now_s() - MINUTE_S, end_s=end_s
        )
        await with_pool(world, "reserved", id=slots.id)
        await world.until_running(2, "train")
        await world.sleep(5 * MINUTE_S)  # until the offset of EC2's clock is known
        drains_s = end_s - 40 * MINUTE_S - ahead_s
        await until_s(world, drains_s - 5)
        assert await deleting(world) == 0
        (listed,) = (await node_class(world)).status.capacity_reservations
        assert listed.end_time == datetime.fromtimestamp(end_s, UTC)
        await world.sleep(10)
        assert await deleting(world) == 2
        deadlines = {c.metadata.annotations[names.TERMINATION_TIMESTAMP] for c in await world.claims()}
        assert deadlines == {times.text(drains_s + 10 * MINUTE_S)}
        await world.sleep(9 * MINUTE_S)
        assert terminated_by_ec2(world) == []

    app_world.run(program, ec2_ahead_s=ahead_s)


def is_request_for(name: str) -> Callable[[Request], bool]:
    return lambda request: name in request.path


def test_failing_writes_to_one_nodeclaim_do_not_delay_other_drains() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", id=slots.id)
        await world.until_running(2, "train")
        await until_s(world, slots.end_s - 40 * MINUTE_S - 5)
        for claim in await world.claims():
            world.line.clear()
            name = claim.metadata.name
            world.line.add(Refuse("InternalError"), is_request_for(name), times=10**6)
            await world.sleep(15)
            others = [one for one in await world.claims() if one.metadata.name != name]
            assert all(one.metadata.deletion_timestamp is not None for one in others)
            failed = {"controller": "reservations.expiration", "result": "error"}
            assert world.app.metrics.value("controller_runtime_reconcile_total", failed)
        world.line.clear()
        await world.sleep(2 * MINUTE_S)
        assert await world.claims() == []
        assert terminated_by_ec2(world) == []

    app_world.run(program)


WRITES = 14  # number of writes of one drain


def writes_of_drain(crash_at: int | None) -> list[str]:
    """Drain a block while the process crashes once, right after write `crash_at`; return all writes."""
    written: list[str] = []

    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", replicas=1, id=slots.id)
        await world.until_running(1, "train")
        await until_s(world, slots.end_s - 40 * MINUTE_S - 1)
        first = len(world.hands.writes)
        if crash_at is not None:
            world.hands.die_at(first + crash_at, after_effect=True)
            await world.hands.dead.wait()
            await world.restart(after_s=5)

        async def is_over() -> bool:
            return not await world.claims() and not await world.nodes()

        await world.until(is_over, within_s=9 * MINUTE_S)
        written.extend(world.hands.writes[first:])
        assert world.machines == []
        assert len(world.all_machines()) == 1
        assert terminated_by_ec2(world) == []

    app_world.run(program)
    return written


def test_drain_makes_as_many_writes_as_the_crash_test_covers() -> None:
    assert len(writes_of_drain(None)) == WRITES


@pytest.mark.parametrize("crash_at", range(WRITES))
def test_drain_completes_after_a_crash_at_any_write(crash_at: int) -> None:
    writes_of_drain(crash_at)


async def failed_scheduling(world: AppWorld, app: str) -> set[str]:
    """The messages of Holdfast's FailedScheduling events for the pods of an app."""
    return {
        event.message or ""
        for event in await world.events("FailedScheduling")
        if event.involved_object.name.startswith(app) and event.source.component == "holdfast"
    }


def test_event_of_a_pending_pod_names_the_end_of_its_block() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world, lasts_s=DAY_S)
        other = world.reserve("m5.large", 1)
        await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}, {"id": other.id}])
        await world.node_pool(requirements=[capacity_types("reserved")])
        await until_s(world, slots.end_s - 35 * MINUTE_S)
        await world.deploy("train", 1, **ONE_PER_NODE)
        await world.sleep(5 * MINUTE_S)
        ends, since = hour(slots.end_s), hour(slots.end_s - 40 * MINUTE_S)
        assert await failed_scheduling(world, "train") == {
            f"block {slots.id} ends at {ends} and takes no new nodes since {since} (UTC)"
        }

    app_world.run(program)


def test_event_of_a_pending_pod_names_the_start_of_its_block() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world, starts_in_s=HOUR_S)
        await with_pool(world, "reserved", replicas=1, id=slots.id)
        await world.sleep(5 * MINUTE_S)
        assert await failed_scheduling(world, "train") == {
            f"block {slots.id} takes nodes from {hour(slots.start_s)} on (UTC)"
        }
        pool = await world.kube.get(NodePool, "default")
        assert conditions.find(conditions.of(pool), "CapacityReservationAvailable") is None

    app_world.run(program)


def test_unlaunched_nodeclaim_is_deleted_when_the_drain_of_its_block_starts() -> None:
    async def program(world: AppWorld) -> None:
        slots = block(world)
        await with_pool(world, "reserved", replicas=0, id=slots.id)
        await until_s(world, slots.end_s - 41 * MINUTE_S)
        world.ec2.world.faults.add(faults.Broken(operation="CreateFleet"))
        await world.scale("train", 1)
        await world.sleep(MINUTE_S - 5)
        (claim,) = await world.claims()
        assert claim.status.provider_id is None
        assert await world.events("ReservationEnding") == []
        await world.sleep(10)
        (event,) = await world.events("ReservationEnding")
        assert event.involved_object.name == claim.metadata.name
        assert await world.claims() == []

    app_world.run(program)
