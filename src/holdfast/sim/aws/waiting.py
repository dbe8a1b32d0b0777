"""Calls to the simulated AWS that take time: latency, and long polls.

The HTTP front responds through `patiently`. `Timed` replaces the thread pool of a simulated program: it runs a botocore
call in the event loop, between two sleeps, so that the effects of calls interleave as in AWS. Time passes only on the
clock.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.errors import NotYet

T = TypeVar("T")


async def patiently(endpoint: Endpoint, call: Callable[[], T]) -> T:
    """The result of the call, after the latency and, for a long poll, after waiting."""
    half_latency_s = endpoint.faults.latency_s() / 2
    if half_latency_s:
        await endpoint.clock.sleep(half_latency_s)
    result = await _poll(endpoint, call)
    if half_latency_s:
        await endpoint.clock.sleep(half_latency_s)
    return result


async def _poll(endpoint: Endpoint, call: Callable[[], T]) -> T:
    clock = endpoint.clock
    deadline: float | None = None
    while True:
        try:
            with endpoint.patience():
                return call()
        except NotYet as wait:
            if deadline is None:
                deadline = clock.monotonic_s() + wait.seconds
            left_s = deadline - clock.monotonic_s()
            if left_s <= 0:
                break
            await first(clock.sleep(min(left_s, wait.again_s)), wait.arrived.wait())
    return call()


async def first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Returns when one of them does, and cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Timed:
    """The executor of a simulated program: runs calls of the AWS client in the event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def run(self, call: Callable[[], T]) -> T:
        return await patiently(self._endpoint, call)
