"""`holdfast run` as a process while EC2 or the API server report a wrong time in their `Date` headers."""

import asyncio
import dataclasses
import email.utils
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import date_proxy
import process_environment
from process_environment import ProcessEnvironment

HOUR_S = 3600
PODS = 2
# Nodes join late enough for claims to be unregistered while wrong times arrive.
SLOW = dataclasses.replace(process_environment.QUICK, boot_s=15.0)
WRONG_DATES: dict[str, Callable[[], str]] = {
    "an hour ahead": lambda: email.utils.formatdate(time.time() + HOUR_S, usegmt=True),
    "an hour behind": lambda: email.utils.formatdate(time.time() - HOUR_S, usegmt=True),
    "the year 9999": lambda: "Fri, 31 Dec 9999 23:59:59 GMT",
    "no date": lambda: "yesterday, about noon",
}


async def pods_run_once(env: ProcessEnvironment) -> None:
    """Every pod gets its own instance, exactly one is launched for each, and none is terminated."""
    replica = await env.start()
    await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
    await env.node_pool()
    await env.deploy("web", replicas=PODS, cpu="1500m")

    async def all_run() -> bool:
        return await env.running_pods() == PODS

    await env.until(all_run, "all pods run")
    launched = list(env.cloud.ec2.region.instances)
    assert len(launched) == PODS
    assert {one.state for one in launched} == {"running"}
    assert await replica.stop() == 0
    assert [line for line in replica.lines if "traceback" in str(line).lower()] == []


@pytest.mark.parametrize("wrong", WRONG_DATES)
def test_date_header_of_ec2_deletes_no_claim(tmp_path: Path, wrong: str) -> None:
    async def main() -> None:
        async with (
            process_environment.serving(tmp_path, timings=SLOW) as env,
            date_proxy.serving(env.sandbox.aws_url, WRONG_DATES[wrong]()) as proxy,
        ):
            env.environ["AWS_ENDPOINT_URL"] = proxy
            await pods_run_once(env)

    asyncio.run(main())


@pytest.mark.parametrize("wrong", WRONG_DATES)
def test_date_header_of_the_api_server_deletes_no_claim(tmp_path: Path, wrong: str) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path, timings=SLOW) as env:
            env.front.date = WRONG_DATES[wrong]()
            await pods_run_once(env)

    asyncio.run(main())
