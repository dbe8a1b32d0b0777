"""Failures between a plan and its instances: lost races, lost answers, crashes. In virtual time."""

import dataclasses

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import aws, conditions
from holdfast.runtime.lease import LeaseSettings
from holdfast.sim.api.serving import faults as api
from holdfast.sim.api.serving.front import Request
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}


async def with_slots(env: AppEnvironment, *reservations: Reservation, kinds: tuple[str, ...]) -> None:
    """A pool that may use these reservations, resolved and ready."""
    await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in reservations])
    await env.node_pool(requirements=[LARGE, capacity_types(*kinds)])
    await env.sleep(20)


async def until_launched(env: AppEnvironment, count: int = 1, within_s: float = 10) -> float:
    async def launched() -> bool:
        return len(env.ec2_instances) == count

    return await env.until(launched, within_s=within_s)


@pytest.mark.fact("R-55", "W-11")
def test_launch_uses_another_free_slot_within_two_seconds_of_a_lost_race() -> None:
    async def program(env: AppEnvironment) -> None:
        first, second = env.reserve(total=1), env.reserve(total=1)
        await with_slots(env, first, second, kinds=("reserved", "on-demand"))
        planned = min(first.id, second.id)
        env.ec2.region.faults.add(faults.Taken(reservation_id=planned, times=1))
        await env.deploy("web", 1, **ONE_PER_NODE)

        async def is_planned() -> bool:
            return bool(await env.claims())

        await env.until(is_planned, within_s=10)
        assert await until_launched(env) <= 2
        (instance,) = env.ec2_instances
        other = max(first.id, second.id)
        assert instance.reservation_id == other
        await env.until_running(1)
        (claim,) = await env.claims()
        assert claim.metadata.annotations[names.RESERVATION_ID] == other
        assert claim.metadata.labels[names.CAPACITY_TYPE] == "reserved"

    app_environment.run(program)


def test_nodeclaim_that_loses_eight_races_for_slots_is_deleted_and_its_pod_planned_again() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = [env.reserve(total=1) for _ in range(10)]
        await with_slots(env, *slots, kinds=("reserved", "on-demand"))
        for one in sorted(slots, key=lambda one: one.id):  # the order in which they are tried
            env.ec2.region.faults.add(faults.Taken(reservation_id=one.id, times=1))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1, within_s=120)
        events = await env.events("InsufficientCapacityError")
        assert any("every slot it moved to was taken meanwhile" in event.message for event in events)
        assert len(await env.claims()) == len(env.ec2_instances) == 1

    app_environment.run(program)


def test_nodeclaim_has_the_zone_of_its_second_instance_after_the_first_terminated() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE, capacity_types("on-demand")])
        await env.sleep(20)
        env.line.add(api.Refuse("InternalError"), _is_status_of_claim, times=1000)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await until_launched(env)
        await env.sleep(1)
        (claim,), (first,) = await env.claims(), env.ec2_instances
        assert claim.metadata.labels[aws.ZONE_ID] == first.zone_id
        control.kill(env.ec2.region, first.id)
        env.ec2.region.faults.add(faults.NoCapacity(zone_id=first.zone_id))
        env.line.clear()
        await env.restart()
        await env.until_running(1, within_s=120)
        assert [one.metadata.name for one in await env.claims()] == [claim.metadata.name]
        (claim,), (node,), (second,) = await env.claims(), await env.nodes(), env.ec2_instances
        assert second.zone_id != first.zone_id
        zone_ids = [one.metadata.labels[aws.ZONE_ID] for one in (claim, node)]
        assert zone_ids == [second.zone_id] * 2

    app_environment.run(program)


def _is_status_of_claim(request: Request) -> bool:
    return request.method == "PATCH" and "/nodeclaims/" in request.path and request.path.endswith("/status")


@pytest.mark.fact("Q-24", "R-55", "W-2", "P-1")
def test_pods_are_planned_again_within_a_second_if_no_slot_is_free() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_slots(env, slots, kinds=("reserved", "on-demand"))
        env.ec2.region.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        before = env.asked("CreateFleet")
        await env.deploy("web", 1, **ONE_PER_NODE)

        async def refused() -> bool:
            return env.asked("CreateFleet") > before

        await env.until(refused, within_s=10)
        assert await until_launched(env) <= 1
        (instance,) = env.ec2_instances
        assert instance.reservation_id == ""
        await env.until_running(1)
        (claim,) = await env.claims()
        assert claim.metadata.labels[names.CAPACITY_TYPE] == "on-demand"
        events = await env.events("InsufficientCapacityError")
        assert {event.involved_object.kind for event in events} == {"NodeClaim", "Pod"}

    app_environment.run(program)


@pytest.mark.fact("NC-5")
def test_lost_answer_to_create_fleet_causes_no_second_launch() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        env.ec2.region.faults.add(faults.Lost(operation="CreateFleet", times=1))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        assert len(env.all_ec2_instances()) == 2
        owned = {claim.status.provider_id for claim in await env.claims()}
        assert len(owned) == 2

    app_environment.run(program)


def test_lost_answer_to_a_creation_during_a_silent_watch_creates_no_second_nodeclaim() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(20)
        env.line.add(api.Delay(60), _is_watch_of_claims, times=1)
        env.line.cut()
        env.line.add(api.Lose(after_effect=True), _creates_a_claim, times=1)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        assert len(env.all_ec2_instances()) == 1
        assert len(env.claims_ever()) == 1

    app_environment.run(program)


def test_lost_answer_to_a_patch_during_a_silent_watch_does_not_delay_the_launch() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(20)
        env.line.add(api.Delay(140), _is_watch_of_claims, times=1)
        env.line.cut()
        env.line.add(api.Lose(after_effect=True), _changes_a_claim, times=1)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await until_launched(env, within_s=30)
        await env.until_running(1)
        assert len(env.all_ec2_instances()) == 1

    app_environment.run(program)


def _changes_a_claim(request: Request) -> bool:
    return request.method == "PATCH" and "/nodeclaims/" in request.path


def _creates_a_claim(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/nodeclaims")


@pytest.mark.fact("NC-8")
@pytest.mark.parametrize("fault", [faults.Denied, faults.Throttled, faults.Broken])
def test_failing_launch_is_retried_with_backoff(fault: type[faults.OfCall]) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        until_s = env.clock.now_s() + 120
        env.ec2.region.faults.add(fault(operation="CreateFleet", until_s=until_s))
        before = env.asked("CreateFleet")
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(110)
        assert 4 <= env.asked("CreateFleet") - before <= 50  # a throttled call is sent four times per attempt
        (claim,) = await env.claims()
        launched = conditions.find(claim.status.conditions, "Launched")
        assert launched is not None
        assert (launched.status, launched.reason) == ("Unknown", "LaunchFailed")
        assert "CreateFleet" in (launched.message or "")
        await env.until_running(1)
        assert len(env.all_ec2_instances()) == 1

    app_environment.run(program)


def test_launch_uses_another_instance_type_if_one_has_no_capacity() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("m5.large", "m5a.large")])
        env.ec2.region.faults.add(faults.NoCapacity(instance_type="m5a.large"))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        assert [instance.instance_type for instance in env.ec2_instances] == ["m5.large"]
        assert len(await env.claims()) == 1

    app_environment.run(program)


@pytest.mark.fact("NC-6", "NC-37", "M-9", "E-3")
def test_nodeclaim_without_capacity_gets_an_event_and_is_deleted_at_once() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        env.ec2.region.faults.add(faults.NoCapacity(until_s=env.clock.now_s() + 60))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(5)
        assert await env.claims() == []  # its finalizer is removed
        events = await env.events("InsufficientCapacityError")
        assert {event.involved_object.kind for event in events} == {"NodeClaim", "Pod"}
        assert "TerminateInstances" not in env.crashing.writes
        about = {"reason": "insufficient_capacity", "nodepool": "default", "capacity_type": ""}
        plain = {"consolidation_policy": "", "termination_mode": "graceful"}
        assert env.app.metrics.value("karpenter_nodeclaims_disrupted_total", about | plain)
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("NC-18", "M-9")
def test_nodeclaim_that_is_not_launched_within_five_minutes_is_deleted() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        env.ec2.region.faults.add(faults.Broken(operation="CreateFleet"))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(290)
        (first,) = await env.claims()
        await env.sleep(30)
        (second,) = await env.claims()
        assert second.metadata.name != first.metadata.name
        about = {"reason": "launch_timeout", "nodepool": "default", "capacity_type": ""}
        plain = {"consolidation_policy": "", "termination_mode": "graceful"}
        assert env.app.metrics.value("karpenter_nodeclaims_disrupted_total", about | plain) == 1

    app_environment.run(program)


# --- Unknown state after a restart ------------------------------------------------------------------


def test_provisioning_after_a_restart_waits_a_bounded_time_for_the_first_counts() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_slots(env, slots, kinds=("reserved", "on-demand"))
        unknown = faults.Denied(operation="DescribeCapacityReservations")
        env.ec2.region.faults.add(unknown)
        await env.restart()
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(45)
        assert env.ec2_instances == []
        assert await env.events("NodePoolNotServed")
        await env.until_running(1, within_s=60)
        assert await env.events("ReservationCountsUnknown")
        (instance,) = env.ec2_instances
        assert instance.reservation_id == ""

    app_environment.run(program)


def test_pods_use_free_slots_after_a_restart_as_soon_as_the_slots_are_counted() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_slots(env, slots, kinds=("reserved", "on-demand"))
        until_s = env.clock.now_s() + 20
        env.ec2.region.faults.add(faults.Denied(operation="DescribeCapacityReservations", until_s=until_s))
        await env.restart()
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1, within_s=90)
        assert env.in_reservation(slots) == 1

    app_environment.run(program)


def test_reservation_without_capacity_is_not_retried_for_a_while() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_slots(env, slots, kinds=("reserved",))
        until_s = env.clock.now_s() + 120
        env.ec2.region.faults.add(faults.NoCapacity(market="reserved", until_s=until_s))
        before = env.asked("CreateFleet")
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(110)
        assert 1 <= env.asked("CreateFleet") - before <= 6
        await env.until_running(1)
        assert env.in_reservation(slots) == 1

    app_environment.run(program)


def test_missing_list_of_instances_does_not_block_planning() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_slots(env, slots, kinds=("reserved", "on-demand"))
        env.ec2.region.faults.add(faults.Denied(operation="DescribeInstances"))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.sleep(5)
        held = [claim.metadata.annotations.get(names.RESERVATION_ID) for claim in await env.claims()]
        assert sorted(held, key=str) == [None, slots.id]

    app_environment.run(program)


def test_second_replica_continues_after_a_crash_of_the_first() -> None:
    async def program(env: AppEnvironment) -> None:
        env.stand_by()
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        assert len(env.all_ec2_instances()) == 2  # only the leader launches
        await env.restart()
        await env.scale("web", 3)
        await env.until_running(3)
        assert len(env.all_ec2_instances()) == 3

    settings = dataclasses.replace(app_environment.SETTINGS, election=LeaseSettings("kube-system"))
    app_environment.run(program, settings=settings)


def test_replica_with_a_stalled_watch_knows_all_nodeclaims_when_it_becomes_leader() -> None:
    """Otherwise garbage collection would terminate the instances that the previous leader launched."""

    async def program(env: AppEnvironment) -> None:
        env.stand_by()
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        env.line.add(
            api.Delay(900), _is_watch_of_claims, times=2
        )  # also that of the leader, which knows its own writes
        env.line.cut()
        await env.scale("web", 2)
        await env.until_running(2)
        before = {pod.metadata.uid for pod in await env.running()}
        await env.restart(after_s=300)  # garbage collection runs meanwhile
        assert {pod.metadata.uid for pod in await env.running()} == before
        assert len(env.all_ec2_instances()) == 2

    settings = dataclasses.replace(app_environment.SETTINGS, election=LeaseSettings("kube-system"))
    app_environment.run(program, settings=settings)


def _is_watch_of_claims(request: Request) -> bool:
    return request.query.get("watch") == "true" and request.path.endswith("/nodeclaims")
