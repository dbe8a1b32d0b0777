"""Fills one cache: lists, then watches, and lists again when the resourceVersion has expired.

Failures are retried with backoff for ever, and logged when the message changes. A watch without an event or a bookmark
for `cache.SILENT_S` is closed and opened again at the last version.

An API server before 1.31 sends no bookmark for a kind of which it has seen no event since its start, for up to ten
minutes or as long as etcd sends no progress. So a watch that has delivered nothing since the connection was made may be
healthy: it is confirmed by a list. If the list has something new, the watch missed it and is opened again.
"""

import asyncio
import itertools
from typing import Any, Final

import structlog

from holdfast import errors
from holdfast.ports import Clock, Ids, Kube, Recorder
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.cache import CONFIRM_S, SILENT_S, Cache

_BACKOFF: Final = Backoff(base_s=0.5, cap_s=30)
_LEAST_WAIT_S: Final = 0.01
_TOO_SHORT_S: Final = 1.0  # a watch that ends sooner counts as failed


class Reflector:
    def __init__(self, cache: Cache[Any], *, kube: Kube, clock: Clock, ids: Ids, recorder: Recorder) -> None:
        self.kind = cache.kind
        self._cache = cache
        self._kube = kube
        self._clock = clock
        self._ids = ids
        self._recorder = recorder
        self._version = ""  # where the watch continues; empty: list first
        self._failures = 0
        self._must_deliver = False  # the watch delivered something, or missed something
        self._listing = asyncio.Lock()
        self._log = structlog.get_logger().bind(kind=cache.kind.plural)

    async def run(self) -> None:
        logged = ""
        while True:
            began_s, level = self._clock.monotonic_s(), "warning"
            try:
                if not self._version:
                    self._version = await self._list()
                    logged = ""
                await self._watch()
                problem = "" if self._clock.monotonic_s() - began_s >= _TOO_SHORT_S else "watch ended at once"
            except errors.ResourceExpired as error:
                self._version = ""
                problem = str(error)
            except errors.Unreachable as error:
                problem = str(error)
                if not isinstance(error, errors.NotServed):
                    level = "debug"  # the client logs an outage once for all watches
            except errors.HoldfastError as error:
                problem = str(error)
            if problem:
                self._failures += 1
                if problem != logged:
                    logged = problem
                    getattr(self._log, level)("watch failed", error=problem, failures=self._failures)
                await self._clock.sleep(_BACKOFF.delay_s(self._failures, self._ids))

    async def catch_up(self) -> None:
        """Lists now, in addition to the watch."""
        for failures in itertools.count(1):
            try:
                await self._list()
            except errors.HoldfastError as error:
                self._log.warning("failed to list", error=str(error), failures=failures)
                await self._clock.sleep(_BACKOFF.delay_s(failures, self._ids))
            else:
                return

    async def _list(self) -> str:
        async with self._listing:
            version = await self._cache.replace(self._kube.pages(self._cache.kind))
        self._recorder.count("holdfast_watch_lists_total", {"resource": self._cache.kind.plural})
        return version

    async def _watch(self) -> None:
        """Watches until the server ends the watch. Raises Unreachable when it is silent for too long."""
        opened_s = self._clock.monotonic_s()
        reader = asyncio.create_task(self._read())
        try:
            while not reader.done():
                silent_s, allowed_s = self._cache.silent_s, CONFIRM_S
                if self._must_deliver:
                    silent_s, allowed_s = min(silent_s, self._clock.monotonic_s() - opened_s), SILENT_S
                if silent_s >= allowed_s:
                    if not self._must_deliver and await self._confirm():
                        continue
                    self._log.warning("reopening silent watch", seconds=round(silent_s))
                    raise errors.Unreachable(f"no event and no bookmark for {silent_s:.0f} s")
                # A difference of less than the resolution of the clock would not let time pass.
                timer = asyncio.create_task(self._clock.sleep(max(allowed_s - silent_s, _LEAST_WAIT_S)))
                try:
                    await asyncio.wait({reader, timer}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    timer.cancel()
            self._must_deliver = False  # the next watch may be one of another API server
            reader.result()
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _confirm(self) -> bool:
        """Whether a list has nothing new, or the watch delivers something meanwhile."""
        async with self._listing:
            nothing_new = await self._cache.confirm(self._kube.pages(self._cache.kind))
        self._recorder.count("holdfast_watch_lists_total", {"resource": self._cache.kind.plural})
        if self._must_deliver:
            return True
        self._must_deliver = not nothing_new
        return nothing_new

    async def _read(self) -> None:
        async for change in self._kube.watch(self._cache.kind, self._version):
            self._must_deliver = True
            self._cache.apply(change)
            self._version = change.object.metadata.resource_version
            self._failures = 0
