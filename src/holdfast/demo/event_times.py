"""Events as clients over HTTP read them: with times by the clock of the reader.

The simulated clock is faster than the reader's. `kubectl get` prints ages of the API server, which are simulated time,
but `kubectl describe` and `kubectl events` subtract an event's time from their own clock and print `<invalid>`. So
every time of an Event is moved by the difference of the clocks when it is read, and the age is simulated time there,
too. Nothing is stored, other kinds and Tables are not changed, and the controllers do not read through this front.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from holdfast.ports import Clock
from holdfast.sim.api.serving.front import Front, Request, Response

_EVENTS: Final = re.compile(r"/(api/v1|apis/events\.k8s\.io/v1)/(namespaces/[^/]+/)?events(/[^/]+)?")
_TIMES: Final = (
    ("metadata", "creationTimestamp"),
    ("firstTimestamp",),
    ("lastTimestamp",),
    ("deprecatedFirstTimestamp",),
    ("deprecatedLastTimestamp",),
    ("eventTime",),
    ("series", "lastObservedTime"),
)
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class EventTimes:
    """A front of the API server that moves the times of Events."""

    front: Front
    simulated: Clock
    reader: Clock

    async def handle(self, request: Request) -> Response:
        answer = await self.front.handle(request)
        if request.method != "GET" or answer.status != _OK or not _EVENTS.fullmatch(request.path):
            return answer
        if isinstance(answer.body, bytes):
            return replace(answer, body=self._moved(answer.body))
        return replace(answer, body=self._moved_lines(answer.body))

    def _moved(self, body: bytes) -> bytes:
        value = msgspec.json.decode(body)
        by = timedelta(seconds=self.reader.now_s() - self.simulated.now_s())
        if value.get("kind") == "EventList":
            for event in value["items"]:
                _move(event, by)
        _move(value if value.get("kind") == "Event" else value.get("object") or {}, by)
        return msgspec.json.encode(value)

    async def _moved_lines(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The lines of a watch. Its chunks are not split at lines."""
        rest = b""
        async with aclosing(chunks):
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                yield b"".join(self._moved(line) + b"\n" for line in lines)


def _move(event: dict[str, Any], by: timedelta) -> None:
    if event.get("kind", "Event") != "Event":
        return
    for *parents, name in _TIMES:
        holder = event
        for parent in parents:
            holder = holder.get(parent) or {}
        if holder.get(name):
            moved = datetime.fromisoformat(holder[name]) + by
            timespec = "microseconds" if "." in holder[name] else "seconds"
            holder[name] = moved.isoformat(timespec=timespec).replace("+00:00", "Z")
