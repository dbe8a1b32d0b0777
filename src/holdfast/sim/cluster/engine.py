"""Shared caches for the programs of a cluster, and a work loop for each.

The queue and the caches are those of the runtime. The loop is not: these programs simulate those of Kubernetes, so they
write no logs and no metrics, and a conflict is not an error.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from holdfast import errors
from holdfast.api.meta import Object
from holdfast.ports import Clock, Ids, Kube
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.cache import Caches, Index
from holdfast.runtime.queue import WorkQueue
from holdfast.runtime.reflector import Reflector
from holdfast.runtime.results import Key
from holdfast.runtime.writes import Writer
from holdfast.sim.cluster import kinds, pods
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2 import times

K = TypeVar("K", bound=Object)

Reconcile = Callable[[Key], Awaitable[float | None]]  # returns the seconds until the next reconcile, if any

_BACKOFF: Final = Backoff(base_s=0.1, cap_s=30)


class Engine:
    def __init__(self, *, kube: Kube, clock: Clock, ids: Ids, pod_groups: bool = False) -> None:
        """`pod_groups`: the API server serves PodGroups."""
        self.clock = clock
        self.ids = ids
        more: tuple[type[Object], ...] = (kinds.PodGroup,) if pod_groups else ()
        self.caches = Caches((*kinds.WATCHED, *more), clock=clock)
        self.kube = Writer(kube, self.caches)
        self.pods_by_node: Index[Pod] = self.caches.of(Pod).index(_by_node)
        self.pods_by_owner: Index[Pod] = self.caches.of(Pod).index(_by_controller)
        self._reflectors = [
            Reflector(cache, kube=kube, clock=clock, ids=ids, recorder=_Silent()) for cache in self.caches
        ]

    def watches(self) -> list[Awaitable[None]]:
        return [reflector.run() for reflector in self._reflectors]

    async def until_synced(self) -> None:
        for cache in self.caches:
            await cache.until_synced()

    def now(self) -> str:
        return times.text(self.clock.now_s())

    def age_s(self, obj: Object) -> float:
        created = obj.metadata.creation_timestamp
        return self.clock.now_s() - created.timestamp() if created else 0.0

    def worker(self, reconcile: Reconcile) -> "Worker":
        return Worker(reconcile, self)


class Worker:
    """Reconciles keys one after the other. A failed key is retried."""

    def __init__(self, reconcile: Reconcile, engine: Engine) -> None:
        self._reconcile = reconcile
        self._caches = engine.caches
        self._queue = WorkQueue(clock=engine.clock, ids=engine.ids, backoff=_BACKOFF)

    def watch(self, kind: type[K], keys_of: Callable[[K], Collection[Key]]) -> None:
        """Adds the keys of an object, before and after, whenever it changes."""

        def changed(before: K | None, after: K | None) -> None:
            old = keys_of(before) if before is not None else ()
            for key in old:
                self._queue.add(key)
            for key in keys_of(after) if after is not None else ():
                if key not in old:
                    self._queue.add(key)

        self._caches.of(kind).subscribe(changed)

    def add(self, key: Key) -> None:
        self._queue.add(key)

    async def run(self) -> None:
        with contextlib.closing(self._queue):
            while True:
                await self._next()

    async def _next(self) -> None:
        key = await self._queue.get()
        try:
            again_s = await self._reconcile(key)
        except errors.NotFound:
            again_s = None  # deleted; the watch will deliver it
            self._queue.succeeded(key)
        except errors.HoldfastError:
            again_s = None
            self._queue.retry(key)
        else:
            self._queue.succeeded(key)
        finally:
            self._queue.done(key)
        if again_s is not None:
            self._queue.add_after(key, again_s)


async def persist(call: Callable[[], Awaitable[None]], *, clock: Clock, ids: Ids) -> None:
    """Retries a call until it succeeds, for programs with sequential steps. NotFound counts as success."""
    failures = 0
    while True:
        try:
            return await call()
        except errors.NotFound:
            return None
        except errors.HoldfastError:
            failures += 1
            await clock.sleep(_BACKOFF.delay_s(failures, ids))


async def run_together(programs: Iterable[Awaitable[None]]) -> None:
    """Runs until one of them ends, and raises its error, or until cancelled."""
    tasks = [asyncio.ensure_future(program) for program in programs]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Silent:
    """A Recorder port that discards everything, for programs that are not Holdfast's."""

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None: ...

    def decision(self, type_: str, about: Object, text: str, reasons: Iterable[str] = ()) -> None: ...

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None: ...

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None: ...

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None: ...

    def replace(self, metric: str, series: dict[tuple[str, ...], float]) -> None: ...

    def forget(self, label: str, value: str) -> None: ...


def _by_node(pod: Pod) -> tuple[str, ...]:
    node = pods.node_of(pod)
    return (node,) if node else ()


def _by_controller(pod: Pod) -> tuple[str, ...]:
    owner = kinds.controller_of(pod)
    return (owner.uid,) if owner else ()
