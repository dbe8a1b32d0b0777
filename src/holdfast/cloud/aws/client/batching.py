"""Combines many requests of one kind into one AWS call.

The first request opens a batch. The call is sent after a short time or when the batch is full. An error of the call is
raised to all callers of the batch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from holdfast import errors, ports

V = TypeVar("V")

WINDOW_S: Final = 0.1
BATCH_SIZE: Final = "karpenter_cloudprovider_batcher_batch_size"
BATCH_TIME: Final = "karpenter_cloudprovider_batcher_batch_time_seconds"


class Batcher(Generic[V]):
    def __init__(
        self,
        call: Callable[[Sequence[str]], Awaitable[Mapping[str, V]]],
        *,
        clock: ports.Clock,
        recorder: ports.Recorder,
        name: str,
        most: int,
    ) -> None:
        """`call` reads all ids at once; an id that is missing from its result is NotFound."""
        self._call = call
        self._clock = clock
        self._recorder = recorder
        self._name = name
        self._most = most
        self._open: dict[str, asyncio.Future[V]] = {}
        self._opened_s = 0.0
        self._running: set[asyncio.Task[None]] = set()  # asyncio keeps only weak references to tasks

    async def get(self, key: str) -> V:
        """The value for one id, or NotFound."""
        waiting = self._open.get(key)
        if waiting is None:
            waiting = asyncio.get_running_loop().create_future()
            self._open[key] = waiting
            if len(self._open) == 1:
                self._opened_s = self._clock.monotonic_s()
                self._start(self._after_a_while())
            elif len(self._open) == self._most:
                self._start(self._flush(self._close_batch()))
        return await asyncio.shield(waiting)

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _after_a_while(self) -> None:
        await self._clock.sleep(WINDOW_S)
        await self._flush(self._close_batch())

    def _close_batch(self) -> dict[str, asyncio.Future[V]]:
        batch, self._open = self._open, {}
        return batch

    async def _flush(self, batch: dict[str, asyncio.Future[V]]) -> None:
        if not batch:
            return
        labels = {"batcher": self._name}
        self._recorder.observe(BATCH_SIZE, labels, len(batch))
        self._recorder.observe(BATCH_TIME, labels, self._clock.monotonic_s() - self._opened_s)
        try:
            found = await self._call(sorted(batch))
        except Exception as error:  # noqa: BLE001 - after a defect the callers would wait for ever
            for future in batch.values():
                _settle(future, error)
            return
        for key, future in batch.items():
            if key in found:
                future.set_result(found[key])
            else:
                _settle(future, errors.NotFound(f"{key} is gone"))


def _settle(future: "asyncio.Future[V]", error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # a cancelled caller never reads it; without this asyncio logs the error
