"""Gangs and pods that wait for a capacity block that starts later: what they are told, and that its start is not missed."""

from datetime import UTC, datetime
from typing import Any

import pytest

import app_environment
import gang_environment
import gang_situations
import labelled_pods
import provisioning_requests as documents
from app_environment import AppEnvironment, capacity_types, instance_types
from gang_environment import GPU, ONE_PER_NODE
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.api.reports import Explanation
from holdfast.app import explaining
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2.entities import Reservation

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def upcoming(
    env: AppEnvironment, starts_in_s: int, *, total: int = 3, lasts_s: int = 2 * DAY_S
) -> Reservation:
    start_s = env.clock.now_s() + starts_in_s
    return env.reserve(GPU, total, kind="capacity-block", start_s=start_s, end_s=start_s + lasts_s)


async def with_pool(env: AppEnvironment, *blocks: Reservation) -> None:
    await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in blocks])
    await env.node_pool(requirements=[instance_types(GPU), capacity_types("reserved")])


async def request(env: AppEnvironment, count: int = 3, **parameters: str) -> None:
    await env.create(documents.TEMPLATES, documents.template(cpu="150"))
    await env.create(documents.PATH, documents.document(count=count, **parameters))


async def labelled(env: AppEnvironment) -> None:
    await env.deploy("train", 3, labels=labelled_pods.job_set(), **ONE_PER_NODE[GPU])


async def provisioned(env: AppEnvironment) -> tuple[str, str, str]:
    """Status, reason and message of the condition that Kueue shows."""
    return await condition(env, "Provisioned")


async def condition(env: AppEnvironment, type_: str) -> tuple[str, str, str]:
    (one,) = await env.all(ProvisioningRequest)
    found = {of.type: (of.status, of.reason or "", of.message or "") for of in one.status.conditions}
    return found.get(type_, ("", "", ""))


def day(at_s: int) -> str:
    """A time on another day, as messages show it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")


async def skip_to(env: AppEnvironment, at_s: int) -> None:
    env.skip(at_s - 2 * MINUTE_S - env.clock.now_s())
    await env.sleep(at_s - env.clock.now_s())


async def ask(env: AppEnvironment, kind: str, name: str = "train") -> Explanation:
    return await gang_situations.ask(env, kind, name)


# --- The start ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create", [request, gang_environment.train, labelled])
@pytest.mark.parametrize("starts_in_s", [301, 303, 308])
def test_gang_that_waits_for_a_block_is_launched_within_two_seconds_of_its_start(
    create: Any, starts_in_s: int
) -> None:
    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, starts_in_s)
        await with_pool(env, block)
        await (create(env, instance_type=GPU) if create is gang_environment.train else create(env))
        await env.sleep(starts_in_s)
        assert env.all_ec2_instances() == []
        await env.sleep(2)
        assert env.in_reservation(block) == 3

    app_environment.run(program, gangs=True, requests=True)


def test_gang_is_launched_at_the_start_of_its_block_by_a_leader_that_started_an_hour_before() -> None:
    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, DAY_S + 31)
        await with_pool(env, block)
        await request(env)
        await env.sleep(MINUTE_S)
        env.skip(22 * HOUR_S)
        await env.restart()
        await env.sleep(MINUTE_S)
        await skip_to(env, block.start_s)
        assert env.all_ec2_instances() == []
        await env.sleep(2)
        assert env.in_reservation(block) == 3

    app_environment.run(program, requests=True)


# --- The answer -----------------------------------------------------------------------------------------


@pytest.mark.fact("PR-17", "PR-18", "TI-4")
@pytest.mark.parametrize(
    ("parameters", "fits"),
    [
        (
            {"maxRunDurationSeconds": "36000"},
            "it lasts long enough: its nodes are drained from 2026-11-17 10:20 on (UTC), and the pod may run for 10 hours",
        ),
        ({}, "its nodes are drained from 2026-11-17 10:20 on (UTC), and the pod states no run time"),
    ],
)
def test_request_is_told_when_its_block_starts_and_whether_it_lasts(
    parameters: dict[str, str], fits: str
) -> None:
    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, HOUR_S)
        await with_pool(env, block)
        await request(env, 3, **parameters)
        await env.sleep(MINUTE_S)
        starts = f"block {block.id} starts at 11:00 (UTC) with 3 slots, and takes nodes from then on"
        assert await provisioned(env) == (
            "False",
            "CapacityIsNotFound",
            (
                f"ProvisioningRequest default/train: none of the 3 pods that it needs would have a node; {starts}; {fits}. "
                f"The request is planned again when block {block.id} starts, and its nodes are launched if all of its pods fit."
            ),
        )
        answer = await ask(env, "provisioningrequest")
        assert f"B{starts[1:]}; {fits}." in answer.why
        assert "when a launch fails, a slot becomes free or a reservation starts" in answer.next
        (row,) = (await explaining.explain(env.app).answers.gangs.report()).items
        assert starts in row.text.replace("Block", "block")

    app_environment.run(program, requests=True)


def test_message_names_the_block_that_starts_first_of_all_causes() -> None:
    async def program(env: AppEnvironment) -> None:
        now_s = env.clock.now_s()
        short = [
            env.reserve(GPU, 3, kind="capacity-block", start_s=now_s, end_s=now_s + hours * HOUR_S)
            for hours in (3, 4, 5, 6)
        ]
        later, first = upcoming(env, 3 * HOUR_S), upcoming(env, 2 * HOUR_S)
        await with_pool(env, *short, later, first)
        await request(env, maxRunDurationSeconds="36000")
        await env.sleep(MINUTE_S)
        _, _, message = await provisioned(env)
        causes = message.split("; block ")
        assert causes[1].startswith(f"{first.id} starts at 12:00 (UTC) with 3 slots")
        assert causes[2].startswith(f"{later.id} starts at 13:00 (UTC) with 3 slots")
        again = f"; and other causes. The request is planned again when block {first.id} starts, "
        assert again in message

    app_environment.run(program, requests=True)


def test_gang_and_its_pods_are_told_when_their_block_starts() -> None:
    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, HOUR_S)
        await with_pool(env, block)
        await gang_environment.train(env, instance_type=GPU)
        await env.sleep(MINUTE_S)
        starts = f"Block {block.id} starts at 11:00 (UTC) with 3 slots, and takes nodes from then on"
        (pod, *_) = await env.pods("train")
        for answer in (await ask(env, "podgroup"), await ask(env, "pod", pod.metadata.name)):
            assert any(line.startswith(starts) for line in answer.why), answer.why
            (slots,) = [one.text for one in answer.considered if block.id in one.subject]
            assert "0 of 3 slots free" not in slots

    app_environment.run(program, gangs=True)


@pytest.mark.fact("TI-1")
def test_pod_whose_job_ends_before_the_block_starts_is_told_so() -> None:
    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, HOUR_S)
        await with_pool(env, block)
        job = gang_situations.job(1, {"activeDeadlineSeconds": 1800})
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150"
        await env.create(gang_situations.JOBS, job)
        await env.sleep(MINUTE_S)
        (pod,) = await env.pods("train")
        assert (await ask(env, "pod", pod.metadata.name)).why == (
            f"Block {block.id} starts at 11:00 (UTC) with 3 slots, after the pod ends: it may run until 10:30 (UTC).",
        )

    app_environment.run(program)


# --- Limits on the waiting ------------------------------------------------------------------------------


@pytest.mark.fact("PR-16", "PR-19")
def test_request_whose_time_is_over_before_the_start_is_told_so() -> None:
    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, 2 * HOUR_S)
        await with_pool(env, block)
        await request(env, ValidUntilSeconds="3600")
        await env.sleep(MINUTE_S)
        _, _, message = await provisioned(env)
        assert message.endswith(f". The request waits until 11:00 (UTC), before block {block.id} starts.")
        answer = await ask(env, "provisioningrequest")
        assert answer.next.startswith(
            f"The request waits until 11:00 UTC at the latest, before block {block.id} starts. "
        )
        await env.sleep(HOUR_S)
        assert (await condition(env, "Failed"))[:2] == ("True", "Expired")

    app_environment.run(program, requests=True)


@pytest.mark.fact("PR-19")
def test_request_without_a_time_of_its_own_waits_for_a_block_that_starts_after_seven_days() -> None:
    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, 10 * DAY_S)
        await with_pool(env, block)
        await request(env)
        await env.sleep(MINUTE_S)
        expected = f"The request waits until {day(block.start_s + DAY_S)} UTC at the latest. "
        assert (await ask(env, "provisioningrequest")).next.startswith(expected)
        env.skip(8 * DAY_S)
        await env.sleep(5 * MINUTE_S)
        assert await condition(env, "Failed") == ("", "", "")
        await skip_to(env, block.start_s)
        await env.sleep(MINUTE_S)
        assert env.in_reservation(block) == 3
        assert (await provisioned(env))[0] == "True"

    app_environment.run(program, requests=True)


def test_request_that_lost_the_slots_of_its_block_fails_a_day_after_the_start() -> None:
    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, 10 * DAY_S)
        await with_pool(env, block)
        await request(env, count=4)  # one more than slots
        await env.sleep(MINUTE_S)
        await skip_to(env, block.start_s)
        await env.sleep(5 * MINUTE_S)
        assert await condition(env, "Failed") == ("", "", "")
        await skip_to(env, block.start_s + DAY_S)
        await env.sleep(20)
        assert (await condition(env, "Failed"))[:2] == ("True", "Expired")
        assert env.all_ec2_instances() == []

    app_environment.run(program, requests=True)


def test_request_does_not_expire_while_its_nodes_start() -> None:
    """Otherwise the nodes would be launched for nothing."""

    async def program(env: AppEnvironment) -> None:
        block = upcoming(env, HOUR_S)
        await with_pool(env, block)
        await request(env, ValidUntilSeconds=str(HOUR_S + MINUTE_S))
        await env.sleep(HOUR_S + 2 * MINUTE_S)
        assert env.in_reservation(block) == 3
        assert await condition(env, "Failed") == ("", "", "")
        await env.sleep(5 * MINUTE_S)
        assert (await provisioned(env))[0] == "True"
        assert len(env.claims_ever()) == 3

    app_environment.run(program, requests=True, timings=Timings(boot_s=200, startup_taints=()))
