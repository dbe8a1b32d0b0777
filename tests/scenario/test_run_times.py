"""Pods of Jobs with a deadline: no launch and no move into a capacity block that is drained before they end."""

from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.sim.ec2.entities import Reservation

GPU, JOBS = "p5.48xlarge", "/apis/batch/v1/namespaces/default/jobs"
MINUTE_S, HOUR_S = 60, 3600


def block(env: AppEnvironment, hours: int, slots: int = 2) -> Reservation:
    now_s = env.clock.now_s()
    return env.reserve(GPU, slots, kind="capacity-block", start_s=now_s, end_s=now_s + hours * HOUR_S)


async def with_pool(
    env: AppEnvironment, *blocks: Reservation, kinds: tuple[str, ...] = ("reserved",)
) -> None:
    await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in blocks])
    await env.node_pool(requirements=[instance_types(GPU), capacity_types(*kinds)])


async def run_job(env: AppEnvironment, deadline_s: int, pods: int = 2, **annotations: str) -> None:
    container: dict[str, Any] = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "150"}}}
    template = {
        "metadata": {
            "labels": {"app": "train"},
            "annotations": {"sim.holdfast.dev/runs-for": "86400"} | annotations,
        },
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    spec = {
        "parallelism": pods,
        "completions": pods,
        "activeDeadlineSeconds": deadline_s,
        "template": template,
    }
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    await env.create(JOBS, document)


@pytest.mark.fact("TI-1")
def test_job_is_launched_into_the_block_that_lasts() -> None:
    async def program(env: AppEnvironment) -> None:
        short, long = block(env, 6), block(env, 48)
        await with_pool(env, short, long)
        await run_job(env, 10 * HOUR_S)
        await env.until_running(2, "train")
        assert (env.in_reservation(short), env.in_reservation(long)) == (0, 2)

    app_environment.run(program)


def test_short_job_is_launched_into_the_block_that_ends_first() -> None:
    async def program(env: AppEnvironment) -> None:
        short, long = block(env, 6), block(env, 48)
        await with_pool(env, short, long)
        await run_job(env, 2 * HOUR_S)
        await env.until_running(2, "train")
        assert (env.in_reservation(short), env.in_reservation(long)) == (2, 0)

    app_environment.run(program)


def test_job_without_a_block_that_lasts_waits_with_the_reason() -> None:
    async def program(env: AppEnvironment) -> None:
        await with_pool(env, block(env, 6))
        await run_job(env, 10 * HOUR_S)
        await env.sleep(5 * MINUTE_S)
        assert env.all_ec2_instances() == []
        messages = {event.message for event in await env.events("FailedScheduling")}
        assert len(messages) == 1, messages
        assert (
            "ends too soon: its nodes are drained from 15:20 on (UTC), and the pod may run until"
            in messages.pop()
        )

    app_environment.run(program)


def test_consolidation_moves_no_pod_into_a_block_that_ends_before_it() -> None:
    async def program(env: AppEnvironment) -> None:
        short, full = block(env, 6), block(env, 48, slots=1)
        await with_pool(env, short, full, kinds=("reserved", "on-demand"))
        await run_job(env, 10 * HOUR_S, pods=2)
        await env.until_running(2, "train")
        before = {pod.metadata.uid for pod in await env.running("train")}
        assert (env.in_reservation(short), env.in_reservation(full)) == (0, 1)
        await env.sleep(30 * MINUTE_S)
        assert {pod.metadata.uid for pod in await env.running("train")} == before
        assert env.in_reservation(short) == 0

    app_environment.run(program)


def test_pod_with_a_wrong_annotation_gets_an_event_and_others_are_launched() -> None:
    async def program(env: AppEnvironment) -> None:
        await with_pool(env, block(env, 48, slots=3))
        await run_job(env, 2 * HOUR_S, pods=1, **{"holdfast.dev/max-run-duration": "soon"})
        await env.sleep(5 * MINUTE_S)
        assert env.all_ec2_instances() == []
        await env.deploy("web", 1, cpu="150")
        await env.until_running(1, "web")
        assert any(
            "max-run-duration is 'soon'" in event.message for event in await env.events("FailedScheduling")
        )

    app_environment.run(program)
