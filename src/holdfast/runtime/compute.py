"""The Compute door: a worker thread, so that the loop goes on while a plan is made; or inline, so that a run replays.

Callers: `app`. One thread: decisions are made one after the other, and each may use all the memory there is.
"""

import asyncio
import contextvars
import sys
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.runtime.threads import DaemonExecutor

A = TypeVar("A")
R = TypeVar("R")

_SWITCH_S: Final = 0.001  # how long the thread may keep the loop from the interpreter; Python's own is 5 ms


class ThreadCompute:
    def __init__(self) -> None:
        self._thread = DaemonExecutor(1, "compute")
        sys.setswitchinterval(_SWITCH_S)

    async def run(self, decide: Callable[[A], R], value: A) -> R:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: context.run(decide, value)
        )

    def close(self) -> None:
        self._thread.shutdown()


class InlineCompute:
    async def run(self, decide: Callable[[A], R], value: A) -> R:
        await asyncio.sleep(0)  # others may run between observing and deciding, as they may with a thread
        return decide(value)
