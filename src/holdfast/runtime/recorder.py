"""The Recorder door: metrics into a registry, events into a queue that a task of its own sends.

Callers: every controller. It never raises and never waits. Equal events within two minutes are one, a controller that
loops cannot flood the API server, and a server that is away costs events and nothing else.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import structlog

from holdfast import errors
from holdfast.api.cluster import Event, EventSource
from holdfast.api.meta import Object, ObjectMeta
from holdfast.api.pods import ObjectReference
from holdfast.ports import Clock, Ids, Kube
from holdfast.runtime.metrics import Metrics

_SAME_WITHIN_S: Final = 120.0
_MOST_REMEMBERED: Final = 10_000
_MOST_WAITING: Final = 1_000
_PER_SECOND: Final = 10.0
_LONGEST_MESSAGE: Final = 1024  # what the API server takes
_COMPONENT: Final = "holdfast"


class LiveRecorder:
    """The Recorder door."""

    def __init__(self, *, kube: Kube, metrics: Metrics, clock: Clock, ids: Ids) -> None:
        self._kube = kube
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self._said_s: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._waiting: deque[Event] = deque()
        self._filled = asyncio.Event()

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        meta, kind = about.metadata, "Warning" if warning else "Normal"
        message = message[:_LONGEST_MESSAGE]
        if self._was_said((about.kind, meta.namespace, meta.name, meta.uid, reason, message, kind)):
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.count("holdfast_events_dropped_total", {"why": "too many"})
            return
        now = datetime.fromtimestamp(self._clock.now_s(), UTC)
        subject = ObjectReference(
            api_version=about.api_version,
            kind=about.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        self._waiting.append(
            Event(
                metadata=ObjectMeta(
                    name=f"{meta.name}.{self._ids.token()[:16]}", namespace=meta.namespace or "default"
                ),
                involved_object=subject,
                reason=reason,
                message=message,
                type=kind,
                count=1,
                source=EventSource(component=_COMPONENT),
                first_timestamp=now,
                last_timestamp=now,
                reporting_component=_COMPONENT,
            )
        )
        self._filled.set()

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        self._metrics.count(metric, labels, by)

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        self._metrics.observe(metric, labels, value)

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        self._metrics.gauge(metric, labels, value)

    async def run(self) -> None:
        """Sends events, one at a time and not too many a second, until it is cancelled."""
        log = structlog.get_logger()
        while True:
            while not self._waiting:
                self._filled.clear()
                await self._filled.wait()
            event = self._waiting.popleft()
            try:
                await self._kube.create(event)
            except errors.HoldfastError as error:
                self.count("holdfast_events_dropped_total", {"why": "not sent"})
                log.debug("event not sent", reason=event.reason, name=event.metadata.name, error=str(error))
            await self._clock.sleep(1 / _PER_SECOND)

    def _was_said(self, what: tuple[str, ...]) -> bool:
        now_s = self._clock.monotonic_s()
        while self._said_s and (
            next(iter(self._said_s.values())) <= now_s - _SAME_WITHIN_S
            or len(self._said_s) > _MOST_REMEMBERED
        ):
            self._said_s.popitem(last=False)
        if what in self._said_s:
            return True
        self._said_s[what] = now_s
        return False
