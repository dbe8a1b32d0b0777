"""The Compute port: a worker thread, so that planning does not block the event loop; or inline, for simulations.

There is one thread: two plans at a time could need twice the memory.
"""

import asyncio
import contextvars
import sys
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.runtime.threads import DaemonExecutor

A = TypeVar("A")
R = TypeVar("R")

_SWITCH_S: Final = (
    0.001  # how long the thread may hold the GIL while the event loop waits; Python's default is 5 ms
)


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
        await asyncio.sleep(0)  # let other tasks run before the decision, as with a thread
        return decide(value)
