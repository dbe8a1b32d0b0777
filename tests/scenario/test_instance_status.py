"""Instances with failed status checks or scheduled events: their NodeClaims are deleted. In virtual time."""

import pytest
from structlog.testing import capture_logs

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.ec2 import control, faults
from holdfast.state.conversion import times

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}
POLL = "DescribeInstanceStatus"
TOLERATED_S = 120
PERIOD_S = 60


async def find_claim(world: AppWorld, claim: NodeClaim) -> NodeClaim | None:
    return next((one for one in await world.claims() if one.metadata.name == claim.metadata.name), None)


async def until_deleting(world: AppWorld, claim: NodeClaim, within_s: float) -> None:
    async def is_deleting() -> bool:
        now = await find_claim(world, claim)
        return now is None or now.metadata.deletion_timestamp is not None

    await world.until(is_deleting, within_s=within_s)


async def until_removed(world: AppWorld, claim: NodeClaim, within_s: float = 300) -> float:
    async def is_removed() -> bool:
        return await find_claim(world, claim) is None

    return await world.until(is_removed, within_s=within_s)


def metric_sum(world: AppWorld, line: str) -> float:
    page = world.app.metrics.text().decode()
    return sum(float(one.split()[-1]) for one in page.splitlines() if one.startswith(line))


def disrupted(world: AppWorld, reason: str) -> float:
    page = world.app.metrics.text().decode()
    lines = [one for one in page.splitlines() if one.startswith("karpenter_nodeclaims_disrupted_total{")]
    return sum(float(one.split()[-1]) for one in lines if f'reason="{reason}"' in one)


@pytest.mark.parametrize("check", ["instance", "system"])
@pytest.mark.fact("aws-6.5.2")
def test_instance_with_a_failed_status_check_is_terminated_after_two_minutes(check: str) -> None:
    async def program(world: AppWorld) -> None:
        claim, instance = await world.one_node("on-demand")
        await world.forbid_evictions()
        control.impair(world.ec2.world, instance.id, check)
        failed_s = world.clock.now_s()
        await world.sleep(TOLERATED_S - 2)
        now = await find_claim(world, claim)
        assert now is not None
        assert now.metadata.deletion_timestamp is None  # it may still recover
        await until_deleting(world, claim, within_s=PERIOD_S + 5)
        now = await find_claim(world, claim)
        assert now is not None
        deadline = now.metadata.annotations[names.TERMINATION_TIMESTAMP]
        assert times.text(failed_s + TOLERATED_S) <= deadline <= times.text(world.clock.now_s())
        await until_removed(world, claim, within_s=120)  # despite the PodDisruptionBudget
        await world.until_running(1)
        assert disrupted(world, f"{check}_status") == 1
        events = [*await world.events("InstanceUnhealthy"), *await world.events("TerminatingOnInterruption")]
        assert {(event.involved_object.kind, event.reason) for event in events} == {
            (kind, reason)
            for kind in ("NodeClaim", "Node")
            for reason in ("InstanceUnhealthy", "TerminatingOnInterruption")
        }

    app_world.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_recovered_status_check_and_impaired_volumes_do_not_terminate_an_instance() -> None:
    async def program(world: AppWorld) -> None:
        claim, instance = await world.one_node("on-demand")
        control.impair(world.ec2.world, instance.id, "ebs")
        control.impair(world.ec2.world, instance.id, "instance")
        await world.sleep(TOLERATED_S - 10)
        impaired_instance = world.ec2.world.instances[instance.id]
        world.ec2.world.put_instance(impaired_instance, impaired={"ebs": impaired_instance.impaired["ebs"]})
        await world.sleep(1800)
        now = await find_claim(world, claim)
        assert now is not None
        assert now.metadata.deletion_timestamp is None
        unhealthy = "karpenter_interruption_instance_status_unhealthy_total"
        assert metric_sum(world, f'{unhealthy}{{category="instance_status"}}') == 1

    app_world.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_instance_scheduled_for_retirement_is_drained_gracefully_without_a_queue() -> None:
    async def program(world: AppWorld) -> None:
        claim, instance = await world.one_node("on-demand")
        await world.forbid_evictions()
        retired_s = world.clock.now_s() + 86_400
        control.schedule_event(world.ec2.world, instance.id, "instance-retirement", retired_s)
        await until_deleting(world, claim, within_s=PERIOD_S + 5)
        await world.sleep(1800)
        now = await find_claim(world, claim)
        assert now is not None  # its PodDisruptionBudget is respected
        assert names.TERMINATION_TIMESTAMP not in now.metadata.annotations
        assert disrupted(world, "event_status") == 1
        (event,) = [
            one for one in await world.events("InstanceUnhealthy") if one.involved_object.kind == "Node"
        ]
        assert "instance-retirement" in event.message
        assert times.text(retired_s) in event.message

    app_world.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_failed_status_check_during_a_graceful_drain_forces_termination() -> None:
    async def program(world: AppWorld) -> None:
        claim, instance = await world.one_node("on-demand")
        await world.forbid_evictions()
        control.schedule_event(
            world.ec2.world, instance.id, "system-maintenance", world.clock.now_s() + 86_400
        )
        await until_deleting(world, claim, within_s=PERIOD_S + 5)
        control.impair(world.ec2.world, instance.id, "system")
        await until_removed(world, claim, within_s=TOLERATED_S + PERIOD_S + 120)
        await world.until_running(1)

    app_world.run(program)


def test_failed_instance_is_replaced_in_its_slot_without_a_failed_launch() -> None:
    async def program(world: AppWorld) -> None:
        reservation = world.reserve(total=1)
        terms = [{"id": reservation.id}]
        claim, instance = await world.one_node(
            "reserved", "on-demand", capacityReservationSelectorTerms=terms
        )
        assert instance.reservation_id == reservation.id
        control.impair(world.ec2.world, instance.id, "system")
        await until_removed(world, claim, within_s=TOLERATED_S + PERIOD_S + 120)
        await world.until_running(1)
        assert world.in_reservation(reservation) == 1  # its slot was held for the replacement
        assert metric_sum(world, "karpenter_cloudprovider_instance_launch_failures_total") == 0
        assert len(world.all_machines()) == 2  # no launch failed

    app_world.run(program)


def test_failed_instances_of_a_full_reservation_are_all_replaced_in_it() -> None:
    async def program(world: AppWorld) -> None:
        reservation = world.reserve(total=3)
        terms = [{"id": reservation.id}]
        await world.node_class(capacityReservationSelectorTerms=terms)
        await world.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await world.deploy("web", 3, **ONE_PER_NODE)
        await world.until_running(3)
        before = {one.id for one in world.machines}
        for instance in before:
            control.impair(world.ec2.world, instance)

        async def renewed() -> bool:
            return (
                before.isdisjoint(one.id for one in world.machines) and world.in_reservation(reservation) == 3
            )

        await world.until(renewed, within_s=TOLERATED_S + PERIOD_S + 300)
        await world.until_running(3)
        assert len(world.all_machines()) == 6  # no launch failed

    app_world.run(program)


def test_forced_termination_completes_after_a_crash() -> None:
    async def program(world: AppWorld) -> None:
        claim, instance = await world.one_node("on-demand")
        await world.forbid_evictions()
        control.impair(world.ec2.world, instance.id)
        world.hands.die_at(len(world.hands.writes) + 1, after_effect=False)  # only the deadline is written
        await world.hands.dead.wait()
        await world.restart()
        await until_removed(world, claim, within_s=PERIOD_S + 120)
        await world.until_running(1)

    app_world.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_missing_iam_permission_is_logged_once_and_noticed_when_granted() -> None:
    async def program(world: AppWorld) -> None:
        with capture_logs() as logged:
            claim, instance = await world.one_node("on-demand")
            control.impair(world.ec2.world, instance.id)
            await world.sleep(3600)
        logged_errors = [line for line in logged if line["log_level"] == "error"]
        assert [POLL in line["error"] for line in logged_errors] == [True]
        assert world.asked(POLL) <= 8
        assert await find_claim(world, claim) is not None
        world.ec2.world.faults._left[0] = 0  # the permission is granted
        await until_deleting(world, claim, within_s=605)

    app_world.run(program, rules=[faults.Denied(operation=POLL, times=1000)])
