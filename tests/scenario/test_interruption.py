"""Interruption notices in the SQS queue: the NodeClaims are deleted in time. In virtual time."""

import dataclasses
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

import app_environment
import aws_environment
from app_environment import AppEnvironment
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import control
from holdfast.state.conversion import times

SETTINGS = dataclasses.replace(app_environment.SETTINGS, interruption_queue=app_environment.QUEUE)
UNKNOWN_INSTANCE_ID = "i-0123456789abcdef0"
CALLER = Caller(aws_environment.ACCOUNT, "", "")
Program = Callable[[AppEnvironment], Awaitable[None]]


def run(program: Program) -> None:
    app_environment.run(program, settings=SETTINGS)


async def is_deleting(env: AppEnvironment, claim: NodeClaim) -> bool:
    found = [one for one in await env.claims() if one.metadata.name == claim.metadata.name]
    return not found or found[0].metadata.deletion_timestamp is not None


async def until_deleting(env: AppEnvironment, claim: NodeClaim, within_s: float = 5) -> None:
    async def deleting() -> bool:
        return await is_deleting(env, claim)

    await env.until(deleting, within_s=within_s)


def messages(env: AppEnvironment) -> int:
    """The number of messages in the queue, visible or not."""
    attributes = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    url = env.sqs.call("GetQueueUrl", {"QueueName": app_environment.QUEUE}, CALLER)["QueueUrl"]
    request = {"QueueUrl": url, "AttributeNames": attributes}
    answer = env.sqs.call("GetQueueAttributes", request, CALLER)["Attributes"]
    return sum(int(answer[name]) for name in attributes)


async def until_queue_is_empty(env: AppEnvironment) -> None:
    async def is_empty() -> bool:
        return messages(env) == 0

    await env.until(is_empty, within_s=60)


async def reasons(env: AppEnvironment, about: str) -> set[str]:
    events = [*await env.events(about), *await env.events("TerminatingOnInterruption")]
    return {f"{event.involved_object.kind} {event.reason}" for event in events}


def disrupted(env: AppEnvironment, reason: str) -> float:
    page = env.app.metrics.text().decode()
    lines = [line for line in page.splitlines() if line.startswith("karpenter_nodeclaims_disrupted_total{")]
    return sum(float(line.split()[-1]) for line in lines if f'reason="{reason}"' in line)


@pytest.mark.fact("aws-6.4.2", "aws-6.4.5")
def test_interrupted_spot_instance_is_drained_in_time_despite_a_disruption_budget() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("spot")
        await env.forbid_evictions()
        warned_s = env.clock.now_s()
        control.interrupt_spot(env.ec2.region, instance.id)
        await until_deleting(env, claim)
        (found,) = [one for one in await env.claims() if one.metadata.name == claim.metadata.name]
        assert found.metadata.annotations[names.TERMINATION_TIMESTAMP] == times.text(warned_s + 120)
        await until_queue_is_empty(env)
        assert disrupted(env, "spot_interrupted") == 1
        await env.sleep(warned_s + 118 - env.clock.now_s())
        ended = next(one for one in env.all_ec2_instances() if one.id == instance.id)
        assert ended.state in ("shutting-down", "terminated")
        assert not ended.state_reason[0].startswith("Server.")
        await env.until_running(1)  # on another node
        assert await reasons(env, "SpotInterrupted") == {
            "NodeClaim SpotInterrupted",
            "Node SpotInterrupted",
            "NodeClaim TerminatingOnInterruption",
            "Node TerminatingOnInterruption",
        }
        # The messages are Karpenter's, so that alerts on them match.
        (warning,) = {event.message.partition(",")[0] for event in await env.events("SpotInterrupted")}
        assert warning == "Spot interruption warning was triggered"
        assert {event.message for event in await env.events("TerminatingOnInterruption")} == {
            "Interruption triggered termination for the NodeClaim",
            "Interruption triggered termination for the Node",
        }

    run(program)


@pytest.mark.fact("aws-6.4.2")
def test_rebalance_recommendation_causes_only_an_event() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("spot")
        control.recommend_rebalance(env.ec2.region, instance.id)
        await until_queue_is_empty(env)
        await env.sleep(60)
        assert not await is_deleting(env, claim)
        assert await reasons(env, "SpotRebalanceRecommendation") == {
            "NodeClaim SpotRebalanceRecommendation",
            "Node SpotRebalanceRecommendation",
        }

    run(program)


@pytest.mark.fact("aws-6.4.4", "aws-6.4.5", "aws-6.4.7", "aws-10.5.5")
def test_instance_of_an_interruptible_reservation_is_drained_within_two_minutes() -> None:
    async def program(env: AppEnvironment) -> None:
        source = env.reserve(total=2)
        interruptible = control.lend(env.ec2.region, source.id, 2)
        terms = [{"id": interruptible.id}]
        claim, instance = await env.one_node("reserved", capacityReservationSelectorTerms=terms)
        assert instance.reservation_id == interruptible.id
        await env.forbid_evictions()
        warned_s = env.clock.now_s()
        request = {"CapacityReservationId": source.id, "TargetInstanceCount": 0}
        env.ec2.call("UpdateInterruptibleCapacityReservationAllocation", request, CALLER)
        await until_deleting(env, claim)
        await env.sleep(warned_s + 118 - env.clock.now_s())
        ended = next(one for one in env.all_ec2_instances() if one.id == instance.id)
        assert ended.state in ("shutting-down", "terminated")
        assert not ended.state_reason[0].startswith("Server.")
        assert disrupted(env, "capacity_reservation_interrupted") == 1
        assert await reasons(env, "CapacityReservationInstanceInterrupted") == {
            "NodeClaim CapacityReservationInstanceInterrupted",
            "Node CapacityReservationInstanceInterrupted",
            "NodeClaim TerminatingOnInterruption",
            "Node TerminatingOnInterruption",
        }

    run(program)


@pytest.mark.fact("aws-6.4.2")
def test_scheduled_change_and_instance_termination_delete_the_nodeclaim() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        control.schedule_event(env.ec2.region, instance.id, "instance-retirement", env.clock.now_s() + 9999)
        await until_deleting(env, claim)
        assert disrupted(env, "scheduled_change") == 1

        async def replaced() -> bool:
            claim_names = [one.metadata.name for one in await env.claims()]
            return len(claim_names) == 1 and claim.metadata.name not in claim_names

        await env.until(replaced)
        await env.until_running(1)
        (second,), (other,) = await env.claims(), env.ec2_instances
        control.kill(env.ec2.region, other.id)
        await until_deleting(env, second)
        await env.until_running(1)

    run(program)


@pytest.mark.fact("aws-6.4.3")
def test_notice_for_an_unknown_instance_is_ignored() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, _ = await env.one_node("spot")
        ec2 = env.ec2.region
        detail = {"instance-id": UNKNOWN_INSTANCE_ID, "instance-action": "terminate"}
        about = ec2.arn(aws_environment.ACCOUNT, f"instance/{UNKNOWN_INSTANCE_ID}")
        ec2.emit(aws_environment.ACCOUNT, "EC2 Spot Instance Interruption Warning", detail, (about,))
        await until_queue_is_empty(env)
        assert not await is_deleting(env, claim)

    run(program)


def test_notice_is_read_again_after_a_crash_and_a_repeated_notice_counts_once() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("spot")
        env.crashing.crash_after_write(len(env.crashing.writes), after_effect=False)  # before its next write
        control.interrupt_spot(env.ec2.region, instance.id)
        await env.crashing.crashed.wait()
        assert messages(env) == 1
        assert not await is_deleting(env, claim)
        await env.restart()
        await until_deleting(env, claim, within_s=30)  # SQS delivers it again
        await until_queue_is_empty(env)
        control.interrupt_spot(env.ec2.region, instance.id)
        await until_queue_is_empty(env)
        assert disrupted(env, "spot_interrupted") == 1

    run(program)


def test_unreadable_queue_is_logged_once_and_retried() -> None:
    async def program(env: AppEnvironment) -> None:
        with capture_logs() as logged:
            await env.sleep(300)
        errors = [line for line in logged if line["event"] == "notices cannot be read"]
        assert len(errors) == 1
        assert "queue" in errors[0]["error"]
        assert 4 <= env.asked("GetQueueUrl") <= 20

    app_environment.run(program, settings=dataclasses.replace(SETTINGS, interruption_queue="no-such-queue"))
