"""The Recorder port: sets metrics, and queues events that a background task sends.

It never raises or blocks. Equal events within two minutes are sent once, and at most ten per second, so that a loop of a
controller cannot flood the API server. While the API server is unreachable, events are dropped.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog

from holdfast import errors
from holdfast.api.cluster import Event, EventSource
from holdfast.api.meta import Object, ObjectMeta
from holdfast.api.pods import ObjectReference
from holdfast.ports import Clock, Ids, Kube
from holdfast.runtime.decision_log import DecisionLog
from holdfast.runtime.metrics import Metrics

_SAME_WITHIN_S: Final = 120.0
_MAX_CACHED: Final = 10_000
_MAX_QUEUED: Final = 1_000
_PER_SECOND: Final = 10.0
_MAX_MESSAGE: Final = 1024  # limit of the API server
_COMPONENT: Final = "holdfast"


class KubeRecorder:
    """The Recorder port."""

    def __init__(self, *, kube: Kube, metrics: Metrics, clock: Clock, ids: Ids) -> None:
        self._kube = kube
        self._metrics = metrics
        self._clock = clock
        self._ids = ids
        self.decisions = DecisionLog(clock)
        self._sent_s: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._queue: deque[Event] = deque()
        self._filled = asyncio.Event()

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        meta, kind = about.metadata, "Warning" if warning else "Normal"
        message = message[:_MAX_MESSAGE]
        if self._is_duplicate((about.kind, meta.namespace, meta.name, meta.uid, reason, message, kind)):
            return
        if len(self._queue) >= _MAX_QUEUED:
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
        self._queue.append(
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
            event = self._queue.popleft()
            try:
                await self._kube.create(event)
            except errors.HoldfastError as error:
                self.count("holdfast_events_dropped_total", {"why": "not sent"})
                log.debug(
                    "failed to send event", reason=event.reason, name=event.metadata.name, error=str(error)
                )
            await self._clock.sleep(1 / _PER_SECOND)

    def _is_duplicate(self, event: tuple[str, ...]) -> bool:
        now_s = self._clock.monotonic_s()
        while self._sent_s and (
            next(iter(self._sent_s.values())) <= now_s - _SAME_WITHIN_S or len(self._sent_s) > _MAX_CACHED
        ):
            self._sent_s.popitem(last=False)
        if event in self._sent_s:
            return True
        self._sent_s[event] = now_s
        return False
