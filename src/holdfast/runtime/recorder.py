"""The Recorder port: sets metrics, and queues events that a background task sends.

It never raises or blocks. Equal events within two minutes are sent once, and at most ten per second, so that a loop of a
controller cannot flood the API server. An equal event within two hours raises the count and the time of the first one, as
with client-go's recorder, so `kubectl get events` shows one line for each reason. While the API server is unreachable, events
are dropped.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from holdfast import errors
from holdfast.api.cluster import Event, EventSource
from holdfast.api.meta import Object, ObjectMeta
from holdfast.api.pods import ObjectReference
from holdfast.ports import Clock, Ids, Kube
from holdfast.runtime.decision_log import DecisionLog
from holdfast.runtime.metrics import Metrics

_SAME_WITHIN_S: Final = 120.0
_CACHED_S: Final = 7_200.0  # the API server deletes events an hour after the last one
_MAX_CACHED: Final = 4_096  # as in client-go; far more than are sent in two minutes
_MAX_QUEUED: Final = 1_000
_MAX_REPEATS_QUEUED: Final = 500  # repeated events must not displace new ones
_PER_SECOND: Final = 10.0
_MAX_MESSAGE: Final = 1024  # limit of the API server
_COMPONENT: Final = "holdfast"


@dataclass(slots=True)
class _Emitted:
    """One event, and when it was last queued."""

    event: Event
    queued_s: float
    is_created: bool = False  # the API server has it; it may delete it after an hour

    def repeated(self, now: datetime) -> Event:
        return msgspec.structs.replace(self.event, count=self.event.count + 1, last_timestamp=now)


class KubeRecorder:
    """The Recorder port."""

    def __init__(self, *, kube: Kube, metrics: Metrics, clock: Clock, ids: Ids) -> None:
        self._kube = kube
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self.decisions = DecisionLog(clock)
        self._emitted: OrderedDict[tuple[str, ...], _Emitted] = OrderedDict()  # the last queued is the last
        self._queue: deque[_Emitted] = deque()
        self._filled = asyncio.Event()

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        meta, kind = about.metadata, "Warning" if warning else "Normal"
        message = message[:_MAX_MESSAGE]
        key = (about.kind, meta.namespace, meta.name, meta.uid, reason, message, kind)
        now_s = self._clock.monotonic_s()
        self._drop_old(now_s)
        known = self._emitted.get(key)
        if known is not None and now_s < known.queued_s + _SAME_WITHIN_S:
            return
        if len(self._queue) >= (_MAX_QUEUED if known is None else _MAX_REPEATS_QUEUED):
            self.count("holdfast_events_dropped_total", {"why": "too many"})
            return
        now = datetime.fromtimestamp(self._clock.now_s(), UTC)
        if known is None:
            known = _Emitted(self._new(about, reason, message, kind, now), now_s)
        else:
            known.event, known.queued_s = known.repeated(now), now_s
        self._emitted[key] = known
        self._emitted.move_to_end(key)
        if len(self._emitted) > _MAX_CACHED:
            self._emitted.popitem(last=False)
        self._queue.append(known)
        self._filled.set()

    def _drop_old(self, now_s: float) -> None:
        """Forgets events that the API server has deleted. Most are about one NodeClaim or pod and never occur again."""
        while self._emitted and next(iter(self._emitted.values())).queued_s < now_s - _CACHED_S:
            self._emitted.popitem(last=False)

    def _new(self, about: Object, reason: str, message: str, kind: str, now: datetime) -> Event:
        meta = about.metadata
        return Event(
            metadata=ObjectMeta(
                name=f"{meta.name}.{self._ids.token()[:16]}", namespace=meta.namespace or "default"
            ),
            involved_object=ObjectReference(
                api_version=about.api_version,
                kind=about.kind,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            ),
            reason=reason,
            message=message,
            type=kind,
            count=1,
            source=EventSource(component=_COMPONENT),
            first_timestamp=now,
            last_timestamp=now,
            reporting_component=_COMPONENT,
        )

    def decision(self, type_: str, about: Object, text: str, reasons: Iterable[str] = ()) -> None:
        self.decisions.add(type_, about, text, reasons)

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        self._metrics.count(metric, labels, by)

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        self._metrics.observe(metric, labels, value)

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        self._metrics.gauge(metric, labels, value)

    def replace(self, metric: str, series: dict[tuple[str, ...], float]) -> None:
        self._metrics.replace(metric, series)

    def forget(self, label: str, value: str) -> None:
        self._metrics.forget(label, value)

    async def run(self) -> None:
        """Sends events one by one, at most `_PER_SECOND`, until cancelled."""
        log = structlog.get_logger()
        while True:
            while not self._queue:
                self._filled.clear()
                await self._filled.wait()
            emitted = self._queue.popleft()
            try:
                await self._send(emitted)
            except errors.HoldfastError as error:
                self.count("holdfast_events_dropped_total", {"why": "not sent"})
                event = emitted.event
                log.debug(
                    "failed to send event", reason=event.reason, name=event.metadata.name, error=str(error)
                )
            await self._clock.sleep(1 / _PER_SECOND)

    async def _send(self, emitted: _Emitted) -> None:
        """Creates the event, or updates the one that was created. The API server deletes events after an hour, so an
        event that is gone is created again."""
        event = emitted.event
        if emitted.is_created:
            change = {"count": event.count, "lastTimestamp": event.last_timestamp}
            try:
                await self._kube.patch(event, msgspec.to_builtins(change))
            except errors.NotFound:
                emitted.is_created = False
            else:
                return
        with contextlib.suppress(errors.AlreadyExists):  # the answer to an earlier call was lost
            await self._kube.create(event)
        emitted.is_created = True
