"""Keeps one cache current: lists once, then watches, and lists again when the server has forgotten where we were.

Callers: `manager`, a task a kind; and it asks for one more list where a watch that has stalled would do harm. It never
gives up: what fails is tried again, ever more slowly, and said once.
"""

import asyncio
import itertools
from typing import Any, Final

import structlog

from holdfast import errors
from holdfast.ports import Clock, Ids, Kube, Recorder
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.cache import Cache

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
            began_s = self._clock.monotonic_s()
            try:
                if not self._version:
                    self._version = await self._list()
                await self._watch()
                trouble = "" if self._clock.monotonic_s() - began_s >= _TOO_SHORT_S else "watch ended at once"
            except errors.ResourceExpired as error:
                self._version = ""
                trouble = str(error)
            except errors.HoldfastError as error:
                trouble = str(error)
            if trouble:
                self._failures += 1
                if trouble != said:
                    said = trouble
                    self._log.warning("watch interrupted", error=trouble, failures=self._failures)
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
        async for change in self._kube.watch(self._cache.kind, self._version):
            self._cache.apply(change)
            self._version = change.object.metadata.resource_version
            self._failures = 0
