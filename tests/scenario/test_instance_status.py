"""Machines that EC2 says are failing, or going to be touched, end with their claims; the real program, in virtual time."""

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
PATIENCE_S = 120
PERIOD_S = 60


async def found(world: AppWorld, claim: NodeClaim) -> NodeClaim | None:
    return next((one for one in await world.claims() if one.metadata.name == claim.metadata.name), None)


async def until_ending(world: AppWorld, claim: NodeClaim, within_s: float) -> None:
    async def it_is() -> bool:
        now = await found(world, claim)
        return now is None or now.metadata.deletion_timestamp is not None

    await world.until(it_is, within_s=within_s)


async def until_gone(world: AppWorld, claim: NodeClaim, within_s: float = 300) -> float:
    async def it_is() -> bool:
        return await found(world, claim) is None

    return await world.until(it_is, within_s=within_s)


def counted(world: AppWorld, line: str) -> float:
    page = world.app.metrics.text().decode()
    return sum(float(one.split()[-1]) for one in page.splitlines() if one.startswith(line))


def disrupted(world: AppWorld, reason: str) -> float:
    page = world.app.metrics.text().decode()
    lines = [one for one in page.splitlines() if one.startswith("karpenter_nodeclaims_disrupted_total{")]
    return sum(float(one.split()[-1]) for one in lines if f'reason="{reason}"' in one)


@pytest.mark.parametrize("check", ["instance", "system"])
@pytest.mark.fact("aws-6.5.2")
def test_a_machine_that_fails_for_two_minutes_is_ended_by_force(check: str) -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("on-demand")
        await world.forbid_evictions()
        control.impair(world.ec2.world, machine.id, check)
        failed_s = world.clock.now_s()
        await world.sleep(PATIENCE_S - 2)
        now = await found(world, claim)
        assert now is not None
        assert now.metadata.deletion_timestamp is None  # it may still recover
        await until_ending(world, claim, within_s=PERIOD_S + 5)
        now = await found(world, claim)
        assert now is not None
        deadline = now.metadata.annotations[names.TERMINATION_TIMESTAMP]
        assert times.text(failed_s + PATIENCE_S) <= deadline <= times.text(world.clock.now_s())
        await until_gone(world, claim, within_s=120)  # whatever the budget says
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
def test_a_machine_that_recovers_in_time_and_one_whose_volumes_fail_are_left_alone() -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("on-demand")
        control.impair(world.ec2.world, machine.id, "ebs")
        control.impair(world.ec2.world, machine.id, "instance")
        await world.sleep(PATIENCE_S - 10)
        ill = world.ec2.world.instances[machine.id]
        world.ec2.world.put_instance(ill, impaired={"ebs": ill.impaired["ebs"]})
        await world.sleep(1800)
        now = await found(world, claim)
        assert now is not None
        assert now.metadata.deletion_timestamp is None
        unhealthy = "karpenter_interruption_instance_status_unhealthy_total"
        assert counted(world, f'{unhealthy}{{category="instance_status"}}') == 1

    app_world.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_a_machine_that_is_to_be_retired_is_drained_in_peace_without_a_queue() -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("on-demand")
        await world.forbid_evictions()
        retired_s = world.clock.now_s() + 86_400
        control.schedule_event(world.ec2.world, machine.id, "instance-retirement", retired_s)
        await until_ending(world, claim, within_s=PERIOD_S + 5)
        await world.sleep(1800)
        now = await found(world, claim)
        assert now is not None  # its budget is kept
        assert names.TERMINATION_TIMESTAMP not in now.metadata.annotations
        assert disrupted(world, "event_status") == 1
        (event,) = [
            one for one in await world.events("InstanceUnhealthy") if one.involved_object.kind == "Node"
        ]
        assert "instance-retirement" in event.message
        assert times.text(retired_s) in event.message

    app_world.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_a_machine_that_fails_while_it_is_drained_in_peace_is_waited_for_no_longer() -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("on-demand")
        await world.forbid_evictions()
        control.schedule_event(
            world.ec2.world, machine.id, "system-maintenance", world.clock.now_s() + 86_400
        )
        await until_ending(world, claim, within_s=PERIOD_S + 5)
        control.impair(world.ec2.world, machine.id, "system")
        await until_gone(world, claim, within_s=PATIENCE_S + PERIOD_S + 120)
        await world.until_running(1)

    app_world.run(program)


def test_the_slot_of_a_failed_machine_is_free_when_ec2_says_so_and_not_before() -> None:
    async def program(world: AppWorld) -> None:
        reservation = world.reserve(total=1)
        terms = [{"id": reservation.id}]
        claim, machine = await world.one_node("reserved", "on-demand", capacityReservationSelectorTerms=terms)
        assert machine.reservation_id == reservation.id
        control.impair(world.ec2.world, machine.id, "system")
        await until_gone(world, claim, within_s=PATIENCE_S + PERIOD_S + 120)
        await world.until_running(1)
        assert world.in_reservation(reservation) == 1  # its slot was held for the replacement
        assert counted(world, "karpenter_cloudprovider_instance_launch_failures_total") == 0
        assert len(world.all_machines()) == 2  # none was launched in vain

    app_world.run(program)


def test_machines_of_a_full_reservation_that_fail_together_all_come_back_into_it() -> None:
    async def program(world: AppWorld) -> None:
        reservation = world.reserve(total=3)
        terms = [{"id": reservation.id}]
        await world.node_class(capacityReservationSelectorTerms=terms)
        await world.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await world.deploy("web", 3, **ONE_PER_NODE)
        await world.until_running(3)
        before = {one.id for one in world.machines}
        for machine in before:
            control.impair(world.ec2.world, machine)

        async def renewed() -> bool:
            return (
                before.isdisjoint(one.id for one in world.machines) and world.in_reservation(reservation) == 3
            )

        await world.until(renewed, within_s=PATIENCE_S + PERIOD_S + 300)
        await world.until_running(3)
        assert len(world.all_machines()) == 6  # none was launched in vain

    app_world.run(program)


def test_a_machine_that_ends_by_force_does_so_after_a_crash_too() -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("on-demand")
        await world.forbid_evictions()
        control.impair(world.ec2.world, machine.id)
        world.hands.die_at(
            len(world.hands.writes) + 1, after_effect=False
        )  # the deadline is written, no more
        await world.hands.dead.wait()
        await world.restart()
        await until_gone(world, claim, within_s=PERIOD_S + 120)
        await world.until_running(1)

    app_world.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_a_missing_right_is_said_once_and_found_when_it_is_given() -> None:
    async def program(world: AppWorld) -> None:
        with capture_logs() as logged:
            claim, machine = await world.one_node("on-demand")
            control.impair(world.ec2.world, machine.id)
            await world.sleep(3600)
        said = [line for line in logged if line["log_level"] == "error"]
        assert [POLL in line["error"] for line in said] == [True]
        assert world.asked(POLL) <= 8
        assert await found(world, claim) is not None
        world.ec2.world.faults._left[0] = 0  # somebody gives it
        await until_ending(world, claim, within_s=605)

    app_world.run(program, rules=[faults.Denied(operation=POLL, times=1000)])
