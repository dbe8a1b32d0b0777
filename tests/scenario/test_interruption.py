"""What EC2 announces in the queue becomes the end of claims, in time; the real program, in virtual time."""

import dataclasses
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

import app_world
import aws_world
from app_world import AppWorld
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import control
from holdfast.state.conversion import times

SETTINGS = dataclasses.replace(app_world.SETTINGS, interruption_queue=app_world.QUEUE)
STRANGER = "i-0123456789abcdef0"
CALLER = Caller(aws_world.ACCOUNT, "", "")
Program = Callable[[AppWorld], Awaitable[None]]


def run(program: Program) -> None:
    app_world.run(program, settings=SETTINGS)


async def is_ending(world: AppWorld, claim: NodeClaim) -> bool:
    found = [one for one in await world.claims() if one.metadata.name == claim.metadata.name]
    return not found or found[0].metadata.deletion_timestamp is not None


async def until_ending(world: AppWorld, claim: NodeClaim, within_s: float = 5) -> None:
    async def it_is() -> bool:
        return await is_ending(world, claim)

    await world.until(it_is, within_s=within_s)


def messages(world: AppWorld) -> int:
    """That are in the queue, seen or not."""
    attributes = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    url = world.sqs.call("GetQueueUrl", {"QueueName": app_world.QUEUE}, CALLER)["QueueUrl"]
    asked = {"QueueUrl": url, "AttributeNames": attributes}
    answer = world.sqs.call("GetQueueAttributes", asked, CALLER)["Attributes"]
    return sum(int(answer[name]) for name in attributes)


async def until_read(world: AppWorld) -> None:
    async def it_is() -> bool:
        return messages(world) == 0

    await world.until(it_is, within_s=60)


async def reasons(world: AppWorld, about: str) -> set[str]:
    events = [*await world.events(about), *await world.events("TerminatingOnInterruption")]
    return {f"{event.involved_object.kind} {event.reason}" for event in events}


def disrupted(world: AppWorld, reason: str) -> float:
    page = world.app.metrics.text().decode()
    lines = [line for line in page.splitlines() if line.startswith("karpenter_nodeclaims_disrupted_total{")]
    return sum(float(line.split()[-1]) for line in lines if f'reason="{reason}"' in line)


@pytest.mark.fact("aws-6.4.2", "aws-6.4.5")
def test_a_spot_machine_is_drained_before_ec2_takes_it_whatever_its_budget_says() -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("spot")
        await world.forbid_evictions()
        warned_s = world.clock.now_s()
        control.interrupt_spot(world.ec2.world, machine.id)
        await until_ending(world, claim)
        (found,) = [one for one in await world.claims() if one.metadata.name == claim.metadata.name]
        assert found.metadata.annotations[names.TERMINATION_TIMESTAMP] == times.text(warned_s + 120)
        await until_read(world)
        assert disrupted(world, "spot_interrupted") == 1
        await world.sleep(warned_s + 118 - world.clock.now_s())
        ended = next(one for one in world.all_machines() if one.id == machine.id)
        assert ended.state in ("shutting-down", "terminated")
        assert not ended.state_reason[0].startswith("Server.")
        await world.until_running(1)  # elsewhere
        assert await reasons(world, "SpotInterrupted") == {
            "NodeClaim SpotInterrupted",
            "Node SpotInterrupted",
            "NodeClaim TerminatingOnInterruption",
            "Node TerminatingOnInterruption",
        }

    run(program)


@pytest.mark.fact("aws-6.4.2")
def test_a_recommendation_is_worth_an_event_and_no_more() -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("spot")
        control.recommend_rebalance(world.ec2.world, machine.id)
        await until_read(world)
        await world.sleep(60)
        assert not await is_ending(world, claim)
        assert await reasons(world, "SpotRebalanceRecommendation") == {
            "NodeClaim SpotRebalanceRecommendation",
            "Node SpotRebalanceRecommendation",
        }

    run(program)


@pytest.mark.fact("aws-6.4.4", "aws-6.4.5", "aws-6.4.7", "aws-10.5.5")
def test_a_machine_of_an_interruptible_reservation_is_drained_within_its_two_minutes() -> None:
    async def program(world: AppWorld) -> None:
        source = world.reserve(total=2)
        lent = control.lend(world.ec2.world, source.id, 2)
        terms = [{"id": lent.id}]
        claim, machine = await world.one_node("reserved", capacityReservationSelectorTerms=terms)
        assert machine.reservation_id == lent.id
        await world.forbid_evictions()
        warned_s = world.clock.now_s()
        asked = {"CapacityReservationId": source.id, "TargetInstanceCount": 0}
        world.ec2.call("UpdateInterruptibleCapacityReservationAllocation", asked, CALLER)
        await until_ending(world, claim)
        await world.sleep(warned_s + 118 - world.clock.now_s())
        ended = next(one for one in world.all_machines() if one.id == machine.id)
        assert ended.state in ("shutting-down", "terminated")
        assert not ended.state_reason[0].startswith("Server.")
        assert disrupted(world, "capacity_reservation_interrupted") == 1
        assert await reasons(world, "CapacityReservationInstanceInterrupted") == {
            "NodeClaim CapacityReservationInstanceInterrupted",
            "Node CapacityReservationInstanceInterrupted",
            "NodeClaim TerminatingOnInterruption",
            "Node TerminatingOnInterruption",
        }

    run(program)


@pytest.mark.fact("aws-6.4.2")
def test_a_scheduled_change_and_a_machine_that_dies_end_their_claims() -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("on-demand")
        control.schedule_event(world.ec2.world, machine.id, "instance-retirement", world.clock.now_s() + 9999)
        await until_ending(world, claim)
        assert disrupted(world, "scheduled_change") == 1

        async def replaced() -> bool:
            there = [one.metadata.name for one in await world.claims()]
            return len(there) == 1 and claim.metadata.name not in there

        await world.until(replaced)
        await world.until_running(1)
        (second,), (other,) = await world.claims(), world.machines
        control.kill(world.ec2.world, other.id)
        await until_ending(world, second)
        await world.until_running(1)

    run(program)


@pytest.mark.fact("aws-6.4.3")
def test_a_machine_that_nobody_knows_is_nobodys_business() -> None:
    async def program(world: AppWorld) -> None:
        claim, _ = await world.one_node("spot")
        ec2 = world.ec2.world
        said = {"instance-id": STRANGER, "instance-action": "terminate"}
        about = ec2.arn(aws_world.ACCOUNT, f"instance/{STRANGER}")
        ec2.emit(aws_world.ACCOUNT, "EC2 Spot Instance Interruption Warning", said, (about,))
        await until_read(world)
        assert not await is_ending(world, claim)

    run(program)


def test_a_notice_is_not_lost_with_the_program_that_read_it_and_twice_is_once() -> None:
    async def program(world: AppWorld) -> None:
        claim, machine = await world.one_node("spot")
        world.hands.die_at(len(world.hands.writes), after_effect=False)  # before its next write
        control.interrupt_spot(world.ec2.world, machine.id)
        await world.hands.dead.wait()
        assert messages(world) == 1
        assert not await is_ending(world, claim)
        await world.restart()
        await until_ending(world, claim, within_s=30)  # the queue gives it again
        await until_read(world)
        control.interrupt_spot(world.ec2.world, machine.id)
        await until_read(world)
        assert disrupted(world, "spot_interrupted") == 1

    run(program)


def test_a_queue_that_cannot_be_read_is_said_once_and_tried_again() -> None:
    async def program(world: AppWorld) -> None:
        with capture_logs() as logged:
            await world.sleep(300)
        said = [line for line in logged if line["event"] == "notices cannot be read"]
        assert len(said) == 1
        assert "queue" in said[0]["error"]
        assert 4 <= world.asked("GetQueueUrl") <= 20

    app_world.run(program, settings=dataclasses.replace(SETTINGS, interruption_queue="no-such-queue"))
