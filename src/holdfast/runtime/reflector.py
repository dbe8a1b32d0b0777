"""Keeps one cache current: lists once, then watches, and lists again when the server has forgotten where we were.

Callers: `manager`, a task a kind; and it asks for one more list where a watch that has stalled would do harm. It never
gives up: what fails is tried again, ever more slowly, and said once. A watch that brings neither an event nor a bookmark
for `cache.SILENT_S` is dead: it is closed and opened again from the last version.
"""

import asyncio
import itertools
from typing import Any, Final

import structlog

from holdfast import errors
from holdfast.ports import Clock, Ids, Kube, Recorder
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.cache import SILENT_S, Cache

_BACKOFF: Final = Backoff(base_s=0.5, cap_s=30)
_TOO_SHORT_S: Final = 1.0  # a watch that ends sooner, with nothing said, counts as a failure


class Reflector:
    def __init__(self, cache: Cache[Any], *, kube: Kube, clock: Clock, ids: Ids, recorder: Recorder) -> None:
        self.kind = cache.kind
        self._cache = cache
        self._kube = kube
        self._clock = clock
        self._ids = ids
        self._recorder = recorder
        self._version = ""  # where the watch goes on from; empty means: list
        self._failures = 0
        self._listing = asyncio.Lock()
        self._log = structlog.get_logger().bind(kind=cache.kind.plural)

    async def run(self) -> None:
        said = ""
        while True:
            began_s, level = self._clock.monotonic_s(), "warning"
            try:
                if not self._version:
                    self._version = await self._list()
                await self._watch()
                trouble = "" if self._clock.monotonic_s() - began_s >= _TOO_SHORT_S else "watch ended at once"
            except errors.ResourceExpired as error:
                self._version = ""
                trouble = str(error)
            except errors.Unreachable as error:
                trouble, level = str(error), "debug"  # the client logs outages, once for all watches
            except errors.HoldfastError as error:
                trouble = str(error)
            if trouble:
                self._failures += 1
                if trouble != said:
                    said = trouble
                    getattr(self._log, level)("watch interrupted", error=trouble, failures=self._failures)
                await self._clock.sleep(_BACKOFF.delay_s(self._failures, self._ids))

    async def catch_up(self) -> None:
        """Lists now, however current the watch may be, which goes on from where it is."""
        for failures in itertools.count(1):
            try:
                await self._list()
            except errors.HoldfastError as error:
                self._log.warning("not listed", error=str(error), failures=failures)
                await self._clock.sleep(_BACKOFF.delay_s(failures, self._ids))
            else:
                return

    async def _list(self) -> str:
        async with self._listing:
            version = await self._cache.replace(self._kube.pages(self._cache.kind))
        self._recorder.count("holdfast_watch_lists_total", {"resource": self._cache.kind.plural})
        return version

    async def _watch(self) -> None:
        """Until the server ends the watch. Unreachable when it was silent for too long."""
        opened_s = self._clock.monotonic_s()
        reading = asyncio.create_task(self._read())
        try:
            while not reading.done():
                silent_s = min(self._cache.silent_s, self._clock.monotonic_s() - opened_s)
                if silent_s >= SILENT_S:
                    self._log.warning("silent watch opened again", seconds=round(silent_s))
                    raise errors.Unreachable(f"no event and no bookmark for {silent_s:.0f} s")
                sleeping = asyncio.create_task(self._clock.sleep(SILENT_S - silent_s))
                try:
                    await asyncio.wait({reading, sleeping}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    sleeping.cancel()
            reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self) -> None:
        async for change in self._kube.watch(self._cache.kind, self._version):
            self._cache.apply(change)
            self._version = change.object.metadata.resource_version
            self._failures = 0
