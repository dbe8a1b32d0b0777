"""Watches: the changes of a resource from a version on, as lines of JSON.

Called by `verbs`. A watch without a version, or with version 0, first sends all objects. WatchList does the same and
then sends a bookmark. A watcher that falls behind the stored history gets a 410 and must list again.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.ports import Clock
from holdfast.sim.api.schema import status
from holdfast.sim.api.schema.status import Cause, Refused
from holdfast.sim.api.serving import answers, listing
from holdfast.sim.api.serving.answers import Form
from holdfast.sim.api.serving.front import Response
from holdfast.sim.api.serving.routing import Call
from holdfast.sim.api.storage.registry import Registry
from holdfast.sim.api.storage.selectors import Selector
from holdfast.sim.api.storage.store import Bucket, Change, Stored, TooOld, encode

BOOKMARK_S: Final = 60.0

_NAMES: Final = {"table": "Table", "metadata": "PartialObjectMetadata"}
_BATCH: Final = 500  # changes that are written before other tasks run


class _Alarm:
    """Ends the wait of a watch when its next bookmark or its end is due. Its task is kept while changes arrive: most waits
    end long before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_s = math.inf
        self._changed: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def wait(self, changed: "asyncio.Future[None]", seconds: float) -> None:
        """Returns when the future is done, or after so many seconds; not sooner than the wait before would have."""
        self._changed = changed
        if seconds < math.inf:
            self._due_s = self._clock.monotonic_s() + seconds
            if self._task is None or self._task.done():
                self._task = asyncio.ensure_future(self._ring())
        await changed

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._changed is not None:
            self._changed.cancel()  # the bucket would keep it until the next change, which may never come

    async def _ring(self) -> None:
        while (left_s := self._due_s - self._clock.monotonic_s()) > 0:
            await self._clock.sleep(left_s)
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


@dataclass(frozen=True, slots=True)
class Watch:
    """One watch: its resource, start version and end."""

    call: Call
    registry: Registry
    clock: Clock
    bucket: Bucket
    selector: Selector
    form: Form
    bookmarks: bool
    timeout_s: float | None

    async def lines(
        self, initial: list[Stored] | None, position: int, *, bookmark: bool
    ) -> AsyncGenerator[bytes, None]:
        """The chunks of the response. `initial` is sent first; `bookmark` ends it."""
        if initial is not None:
            yield b"".join(self._line("ADDED", stored) for stored in initial)
            if bookmark:
                yield self._bookmark(ends_initial=True)
        ends = None if self.timeout_s is None else self.clock.monotonic_s() + self.timeout_s
        alarm = _Alarm(self.clock)
        try:
            while not self.bucket.closed:
                try:
                    changes = self.bucket.changes(position)[:_BATCH]
                except TooOld:
                    yield _error(
                        status.expired("too old resource version: the watch fell behind what is remembered")
                    )
                    return
                if changes:
                    position += len(changes)
                    chunk = b"".join(self._events(changes))
                    if chunk:
                        yield chunk
                    await asyncio.sleep(0)
                    continue
                left = math.inf if ends is None else ends - self.clock.monotonic_s()
                if left <= 0:
                    return
                await alarm.wait(self.bucket.changed(), min(left, BOOKMARK_S if self.bookmarks else math.inf))
                is_quiet = self.bucket.end == position and not self.bucket.closed
                if is_quiet and self.bookmarks and left > BOOKMARK_S:
                    yield self._bookmark()
        finally:
            alarm.stop()

    def _events(self, changes: Iterable[Change]) -> Iterable[bytes]:
        namespace, selector = self.call.namespace, self.selector
        for change in changes:
            after = change.after
            if namespace and after.namespace != namespace:
                continue
            was, is_now = selector.matches(change.before), not change.deleted and selector.matches(after)
            if is_now:
                yield self._line("MODIFIED" if was else "ADDED", after)
            elif was:
                # An object that no longer matches is sent as it was, with the version of its change.
                yield self._line("DELETED", after if change.deleted else _at_version(change))

    def _line(self, type_: str, stored: Stored) -> bytes:
        if self.form == "table":
            body = encode(answers.row(self.call._replace(now_s=self.clock.now_s()), stored))
        else:
            body = answers.as_bytes(self.call.resource, stored, self.form)
        return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"

    def _bookmark(self, *, ends_initial: bool = False) -> bytes:
        resource = self.call.resource
        metadata: dict[str, Any] = {
            "resourceVersion": str(self.registry.store.version),
            "creationTimestamp": None,
        }
        if ends_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = _NAMES.get(self.form, resource.kind)
        version = "meta.k8s.io/v1" if self.form in _NAMES else resource.api_version
        return (
            encode(
                {"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": version, "metadata": metadata}}
            )
            + b"\n"
        )


def answer(call: Call, registry: Registry, clock: Clock) -> Response:
    """Starts a watch; raises Refused if it cannot."""
    wants_initial = _wants_initial(call)
    timeout = call.number("timeoutSeconds")
    bucket = registry.store.bucket(call.resource.bucket)
    watch = Watch(
        call=call,
        registry=registry,
        clock=clock,
        bucket=bucket,
        selector=listing.selector_of(call, registry),
        form=answers.form_of(call.request),
        bookmarks=call.flag("allowWatchBookmarks"),
        timeout_s=None if timeout is None else float(timeout),
    )
    version = listing.version_of(call)
    if not version or wants_initial:
        initial = [s for s in bucket.sorted(call.namespace) if watch.selector.matches(s)]
        bookmark = wants_initial and watch.bookmarks
        return _stream(watch.lines(initial, bucket.end, bookmark=bookmark))
    try:
        position = bucket.position(version)
    except TooOld:
        expired = status.expired(f"too old resource version: {version} ({registry.store.version})")
        return Response(200, {"content-type": "application/json"}, _only(_error(expired)))
    return _stream(watch.lines(None, position, bookmark=False))


def _wants_initial(call: Call) -> bool:
    query = call.request.query
    if "sendInitialEvents" not in query:
        if query.get("resourceVersionMatch"):
            raise _forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        return False
    if query.get("resourceVersionMatch") != "NotOlderThan":
        raise _forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )
    return call.flag("sendInitialEvents")


def _forbidden(field: str, why: str) -> Refused:
    return status.invalid("meta.k8s.io", "ListOptions", "", [Cause("FieldValueForbidden", field, why)])


def _stream(lines: AsyncGenerator[bytes, None]) -> Response:
    return Response(200, {"content-type": "application/json"}, lines)


async def _only(line: bytes) -> AsyncGenerator[bytes, None]:
    yield line


def _error(refused: Refused) -> bytes:
    return encode({"type": "ERROR", "object": refused.body()}) + b"\n"


def _at_version(change: Change) -> Stored:
    assert change.before is not None
    value = change.before.value()
    value["metadata"]["resourceVersion"] = str(change.after.version)
    before = change.before
    return Stored(
        namespace=before.namespace,
        name=before.name,
        version=change.after.version,
        uid=before.uid,
        body=encode(value),
        labels=before.labels,
        fields=before.fields,
        owners=before.owners,
    )
