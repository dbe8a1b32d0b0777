"""Handles unexpected errors: logs and counts them, and restarts background tasks.

A defect must not stop more than the work that it happened in. A traceback is logged once per hour for each line of code:
a defect that affects many objects would fill the log. In simulation and CI (`strict`) the error ends the run.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from holdfast import errors
from holdfast.ports import Clock, Ids, Recorder
from holdfast.runtime.backoff import Backoff

UNEXPECTED: Final = "holdfast_unexpected_errors_total"
BACKOFF: Final = Backoff(base_s=1, cap_s=300)
_SAME_WITHIN_S: Final = 3600.0
_STEADY_S: Final = 600.0  # a task that ran this long restarts with the shortest delay
_MAX_LOCATIONS: Final = 1000


class Unexpected:
    """Reports unexpected errors."""

    def __init__(self, *, clock: Clock, recorder: Recorder) -> None:
        self._clock = clock
        self._recorder = recorder
        self._logged_s: dict[tuple[str, str], float] = {}  # by reporter and line of code

    def report(self, where: str, error: BaseException, **about: object) -> None:
        """Counts the error, and logs it with its traceback unless the same line of code failed within the hour."""
        self._recorder.count(UNEXPECTED, {"where": where})
        now_s, key = self._clock.monotonic_s(), (where, _location(error))
        if now_s - self._logged_s.get(key, -_SAME_WITHIN_S) < _SAME_WITHIN_S:
            return
        if len(self._logged_s) >= _MAX_LOCATIONS:
            self._logged_s.clear()
        self._logged_s[key] = now_s
        structlog.get_logger().error("unexpected error", where=where, **about, exc_info=error)


def _location(error: BaseException) -> str:
    """The type of the error and the line that raised it; not its message, which may differ each time."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}" if frames else repr(error)


class Supervisor:
    """Runs background tasks, and restarts them after unexpected errors."""

    def __init__(self, unexpected: Unexpected, *, clock: Clock, ids: Ids, strict: bool = False) -> None:
        self._unexpected = unexpected
        self._clock = clock
        self._ids = ids
        self._strict = strict

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        """A task that ends when `run` returns, raises one of `holdfast.errors`, or is cancelled."""
        return asyncio.create_task(self._keep(name, run), name=name)

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            began_s = self._clock.monotonic_s()
            try:
                await run()
            except errors.HoldfastError:
                raise
            except Exception as error:
                if self._strict:
                    raise
                failures = 1 if self._clock.monotonic_s() - began_s >= _STEADY_S else failures + 1
                self._unexpected.report(name, error)
            else:
                return
            await self._clock.sleep(BACKOFF.delay_s(failures, self._ids))


async def until_first_ends(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Waits until one of the tasks ends, raises its error if it has one, and cancels the others."""
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
