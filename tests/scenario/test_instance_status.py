"""Instances with failed status checks or scheduled events: their NodeClaims are deleted. In virtual time."""

import pytest
from structlog.testing import capture_logs

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.ec2 import control, faults
from holdfast.state.conversion import times

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}
POLL = "DescribeInstanceStatus"
TOLERATED_S = 120
PERIOD_S = 60


async def find_claim(env: AppEnvironment, claim: NodeClaim) -> NodeClaim | None:
    return next((one for one in await env.claims() if one.metadata.name == claim.metadata.name), None)


async def until_deleting(env: AppEnvironment, claim: NodeClaim, within_s: float) -> None:
    async def is_deleting() -> bool:
        now = await find_claim(env, claim)
        return now is None or now.metadata.deletion_timestamp is not None

    await env.until(is_deleting, within_s=within_s)


async def until_removed(env: AppEnvironment, claim: NodeClaim, within_s: float = 300) -> float:
    async def is_removed() -> bool:
        return await find_claim(env, claim) is None

    return await env.until(is_removed, within_s=within_s)


def metric_sum(env: AppEnvironment, line: str) -> float:
    page = env.app.metrics.text().decode()
    return sum(float(one.split()[-1]) for one in page.splitlines() if one.startswith(line))


def disrupted(env: AppEnvironment, reason: str) -> float:
    page = env.app.metrics.text().decode()
    lines = [one for one in page.splitlines() if one.startswith("karpenter_nodeclaims_disrupted_total{")]
    return sum(float(one.split()[-1]) for one in lines if f'reason="{reason}"' in one)


@pytest.mark.parametrize("check", ["instance", "system"])
@pytest.mark.fact("aws-6.5.2")
def test_instance_with_a_failed_status_check_is_terminated_after_two_minutes(check: str) -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        await env.forbid_evictions()
        control.impair(env.ec2.region, instance.id, check)
        failed_s = env.clock.now_s()
        await env.sleep(TOLERATED_S - 2)
        now = await find_claim(env, claim)
        assert now is not None
        assert now.metadata.deletion_timestamp is None  # it may still recover
        await until_deleting(env, claim, within_s=PERIOD_S + 5)
        now = await find_claim(env, claim)
        assert now is not None
        deadline = now.metadata.annotations[names.TERMINATION_TIMESTAMP]
        assert times.text(failed_s + TOLERATED_S) <= deadline <= times.text(env.clock.now_s())
        await until_removed(env, claim, within_s=120)  # despite the PodDisruptionBudget
        await env.until_running(1)
        assert disrupted(env, f"{check}_status") == 1
        events = [*await env.events("InstanceUnhealthy"), *await env.events("TerminatingOnInterruption")]
        assert {(event.involved_object.kind, event.reason) for event in events} == {
            (kind, reason)
            for kind in ("NodeClaim", "Node")
            for reason in ("InstanceUnhealthy", "TerminatingOnInterruption")
        }

    app_environment.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_recovered_status_check_and_impaired_volumes_do_not_terminate_an_instance() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        control.impair(env.ec2.region, instance.id, "ebs")
        control.impair(env.ec2.region, instance.id, "instance")
        await env.sleep(TOLERATED_S - 10)
        impaired_instance = env.ec2.region.instances[instance.id]
        env.ec2.region.put_instance(impaired_instance, impaired={"ebs": impaired_instance.impaired["ebs"]})
        await env.sleep(1800)
        now = await find_claim(env, claim)
        assert now is not None
        assert now.metadata.deletion_timestamp is None
        unhealthy = "karpenter_interruption_instance_status_unhealthy_total"
        assert metric_sum(env, f'{unhealthy}{{category="instance_status"}}') == 1

    app_environment.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_instance_scheduled_for_retirement_is_drained_gracefully_without_a_queue() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        await env.forbid_evictions()
        retired_s = env.clock.now_s() + 86_400
        control.schedule_event(env.ec2.region, instance.id, "instance-retirement", retired_s)
        await until_deleting(env, claim, within_s=PERIOD_S + 5)
        await env.sleep(1800)
        now = await find_claim(env, claim)
        assert now is not None  # its PodDisruptionBudget is respected
        assert names.TERMINATION_TIMESTAMP not in now.metadata.annotations
        assert disrupted(env, "event_status") == 1
        (event,) = [
            one for one in await env.events("InstanceUnhealthy") if one.involved_object.kind == "Node"
        ]
        assert "instance-retirement" in event.message
        assert times.text(retired_s) in event.message

    app_environment.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_failed_status_check_during_a_graceful_drain_forces_termination() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        await env.forbid_evictions()
        control.schedule_event(env.ec2.region, instance.id, "system-maintenance", env.clock.now_s() + 86_400)
        await until_deleting(env, claim, within_s=PERIOD_S + 5)
        control.impair(env.ec2.region, instance.id, "system")
        await until_removed(env, claim, within_s=TOLERATED_S + PERIOD_S + 120)
        await env.until_running(1)

    app_environment.run(program)


def test_failed_instance_is_replaced_in_its_slot_without_a_failed_launch() -> None:
    async def program(env: AppEnvironment) -> None:
        reservation = env.reserve(total=1)
        terms = [{"id": reservation.id}]
        claim, instance = await env.one_node("reserved", "on-demand", capacityReservationSelectorTerms=terms)
        assert instance.reservation_id == reservation.id
        control.impair(env.ec2.region, instance.id, "system")
        await until_removed(env, claim, within_s=TOLERATED_S + PERIOD_S + 120)
        await env.until_running(1)
        assert env.in_reservation(reservation) == 1  # its slot was held for the replacement
        assert metric_sum(env, "karpenter_cloudprovider_instance_launch_failures_total") == 0
        assert len(env.all_ec2_instances()) == 2  # no launch failed

    app_environment.run(program)


def test_failed_instances_of_a_full_reservation_are_all_replaced_in_it() -> None:
    async def program(env: AppEnvironment) -> None:
        reservation = env.reserve(total=3)
        terms = [{"id": reservation.id}]
        await env.node_class(capacityReservationSelectorTerms=terms)
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.deploy("web", 3, **ONE_PER_NODE)
        await env.until_running(3)
        before = {one.id for one in env.ec2_instances}
        for instance in before:
            control.impair(env.ec2.region, instance)

        async def renewed() -> bool:
            return (
                before.isdisjoint(one.id for one in env.ec2_instances)
                and env.in_reservation(reservation) == 3
            )

        await env.until(renewed, within_s=TOLERATED_S + PERIOD_S + 300)
        await env.until_running(3)
        assert len(env.all_ec2_instances()) == 6  # no launch failed

    app_environment.run(program)


def test_forced_termination_completes_after_a_crash() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        await env.forbid_evictions()
        control.impair(env.ec2.region, instance.id)
        env.crashing.crash_after_write(
            len(env.crashing.writes) + 1, after_effect=False
        )  # only the deadline is written
        await env.crashing.crashed.wait()
        await env.restart()
        await until_removed(env, claim, within_s=PERIOD_S + 120)
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("aws-6.5.2")
def test_missing_iam_permission_is_logged_once_and_noticed_when_granted() -> None:
    async def program(env: AppEnvironment) -> None:
        with capture_logs() as logged:
            claim, instance = await env.one_node("on-demand")
            control.impair(env.ec2.region, instance.id)
            await env.sleep(3600)
        logged_errors = [line for line in logged if line["log_level"] == "error"]
        assert [POLL in line["error"] for line in logged_errors] == [True]
        assert env.asked(POLL) <= 8
        assert await find_claim(env, claim) is not None
        env.ec2.region.faults._left[0] = 0  # the permission is granted
        await until_deleting(env, claim, within_s=605)

    app_environment.run(program, rules=[faults.Denied(operation=POLL, times=1000)])
