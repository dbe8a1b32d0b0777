"""The Kube port over a transport: builds requests, decodes responses, maps errors and retries.

A read is retried up to `attempts` times. A write is retried only when the server rejected it unprocessed (429): after
any other error it may have taken effect, and only the caller can decide whether it is idempotent. The fence is checked right
before a write is sent, after all waits for rate limits, retries and connections: a replica whose Lease expired meanwhile
sends nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from holdfast import errors, fence
from holdfast.api.answers import Unreadable
from holdfast.api.cluster import DeleteOptions, Eviction, Preconditions
from holdfast.api.meta import Object, ObjectMeta, to_wire
from holdfast.api.pods import Pod
from holdfast.fence import MayWrite
from holdfast.kube import decoding, paths, statuses
from holdfast.kube.limits import RateLimit
from holdfast.kube.transport import Answer, Transport
from holdfast.ports import Change, Clock, Ids, Listing
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.outages import Outage

K = TypeVar("K", bound=Object)
T = TypeVar("T")

_JSON: Final = "application/json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_APPLY_PATCH: Final = "application/apply-patch+yaml"  # JSON is valid YAML
_BACKOFF: Final = Backoff(base_s=0.25, cap_s=10)
_NO_SERVER: Final = (502, 503, 504)  # statuses of a load balancer without an API server
_PAGES_MAX: Final = 20_000  # of 500 objects
_SERVER_OWNED: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    per_second: float = 1000  # limits the effect of a defect; the server protects itself with 429
    burst: int = 1000
    at_once: int = 32  # concurrent requests without watches; each has a connection
    page_size: int = 500
    attempts: int = 5
    longest_wait_s: float = 60  # a longer Retry-After is an error at once
    watch_s: int = 300  # timeoutSeconds of a watch, plus a random part of up to as much
    field_manager: str = "holdfast"


class Client:
    """The Kube port."""

    def __init__(
        self,
        *,
        transport: Transport,
        clock: Clock,
        ids: Ids,
        settings: ClientSettings,
        may_write: MayWrite = fence.always,
        outage: Outage | None = None,
    ) -> None:
        self._transport = transport
        self._outage = outage or Outage("Kubernetes API server", clock)
        self._may_write = may_write
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._concurrency = asyncio.Semaphore(settings.at_once)
        self._limit = RateLimit(clock=clock, per_second=settings.per_second, burst=settings.burst)

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        body = await self._read(paths.one(kind, namespace, name), {})
        return decoding.one(kind, body, name)

    async def list(self, kind: type[K], *, label_selector: str = "", field_selector: str = "") -> Listing[K]:
        items: list[K] = []
        version = ""
        async for page in self.pages(kind, label_selector=label_selector, field_selector=field_selector):
            items.extend(_whole(page.items))
            version = page.resource_version
        return Listing(tuple(items), version)

    async def version(self) -> str:
        """Major and minor version of the API server, such as 1.34."""
        return decoding.version(await self._read("/version", {}))

    async def document(self, path: str, form: type[T], query: Mapping[str, str] | None = None) -> T:
        """The response to any GET, such as a discovery or OpenAPI document, decoded into `form`."""
        return decoding.document(path, await self._read(path, query or {}), form)

    async def review(self, obj: K) -> K:
        """The answer to a review, which the API server does not store: it is sent again like a read."""
        path, body = paths.to_create(obj), msgspec.json.encode(to_wire(obj))
        again_on = (errors.Throttled, errors.Unreachable)
        return decoding.unstored(type(obj), await self._attempt("POST", path, {}, _JSON, body, again_on))

    async def pages(
        self, kind: type[K], *, label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Listing[K | Unreadable]]:
        query = {"limit": str(self._settings.page_size)}
        if field_selector:
            query["fieldSelector"] = field_selector
        if label_selector:
            query["labelSelector"] = label_selector
        version = ""
        for _ in range(_PAGES_MAX):
            page = decoding.page(kind, await self._read(paths.all_of(kind), query))
            # All pages are of the same moment: use the first one's version, whatever later pages have.
            version = version or page.metadata.resource_version
            yield Listing(page.items or (), version)
            if not page.metadata.continue_token:
                return
            if page.metadata.continue_token == query.get("continue"):
                break
            query["continue"] = page.metadata.continue_token
        raise errors.Unreachable(f"list of {kind.plural}: the list has no last page")

    async def watch(self, kind: type[K], resource_version: str) -> AsyncIterator[Change[K | Unreadable]]:
        seconds = self._settings.watch_s + int(self._ids.jitter(self._settings.watch_s))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        path = paths.all_of(kind)
        answer = await self._send("GET", path, query)
        if isinstance(answer.body, bytes):
            raise statuses.error_of(answer.status, answer.headers, answer.body, f"watch {path}")
        try:
            async for change in decoding.changes(kind, answer.body):
                yield change
        except OSError as error:
            raise errors.Unreachable(f"watch {path}: the connection broke: {error}") from error
        finally:
            await answer.body.aclose()

    async def create(self, obj: K, *, dry_run: bool = False) -> K:
        query = self._owned() | ({"dryRun": "All"} if dry_run else {})
        body = await self._write("POST", paths.to_create(obj), _JSON, to_wire(obj), query)
        if dry_run:  # the response has no resourceVersion: nothing was stored
            return decoding.unstored(type(obj), body)
        return decoding.created(obj, body, is_subresource=paths.is_subresource(type(obj)))

    async def patch(
        self, obj: K, change: Mapping[str, Any], *, status: bool = False, only_if_unchanged: bool = False
    ) -> K:
        assert only_if_unchanged or not _touches_a_list(change), f"lists are replaced whole: {change}"
        if only_if_unchanged:
            version = obj.metadata.resource_version
            assert version, "only_if_unchanged needs a resourceVersion"
            change = {**change, "metadata": {**change.get("metadata", {}), "resourceVersion": version}}
        body = await self._write("PATCH", paths.of(obj, status=status), _MERGE_PATCH, change, self._owned())
        return decoding.one(type(obj), body, obj.metadata.name)

    async def apply(self, obj: K, *, status: bool = False) -> K:
        whole = to_wire(obj)
        meta = {key: value for key, value in whole["metadata"].items() if key not in _SERVER_OWNED}
        if status:
            meta = {key: value for key, value in meta.items() if key in {"name", "namespace"}}
            wanted = {key: value for key, value in whole.items() if key in {"apiVersion", "kind", "status"}}
        else:
            wanted = {key: value for key, value in whole.items() if key != "status"}
        query = self._owned() | {"force": "true"}
        path = paths.of(obj, status=status)
        body = await self._write("PATCH", path, _APPLY_PATCH, wanted | {"metadata": meta}, query)
        return decoding.one(type(obj), body, obj.metadata.name)

    async def delete(self, obj: K, *, only_this: bool = True, grace_period_s: int | None = None) -> None:
        uid = obj.metadata.uid if only_this else ""
        assert uid or not only_this, "only_this needs a uid"
        options = DeleteOptions(
            grace_period_seconds=grace_period_s,
            preconditions=Preconditions(uid=uid) if uid else None,
            propagation_policy="Background",
        )
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **msgspec.to_builtins(options)}
        try:
            await self._write("DELETE", paths.of(obj), _JSON, body, {})
        except errors.Conflict as error:
            await self._raise_if_another(type(obj), obj.metadata, error)

    async def evict(self, namespace: str, pod: str, uid: str) -> None:
        meta = ObjectMeta(name=pod, namespace=namespace, uid=uid)
        eviction = Eviction(
            metadata=ObjectMeta(name=pod, namespace=namespace),
            delete_options=DeleteOptions(preconditions=Preconditions(uid=uid)),
        )
        path = paths.to_create(eviction)
        # One attempt: the caller waits for a PodDisruptionBudget that does not allow the eviction yet.
        answer = await self._send_bounded("POST", path, {}, _JSON, msgspec.json.encode(to_wire(eviction)))
        assert isinstance(answer.body, bytes)
        if _is_success(answer):
            return
        error = statuses.error_of(answer.status, answer.headers, answer.body, f"POST {path}")
        if isinstance(error, errors.Conflict):
            await self._raise_if_another(Pod, meta, error)
        if "more than one PodDisruptionBudget" in str(error):  # a 500 that no retry fixes
            raise errors.Rejected(str(error)) from error
        raise error

    async def _raise_if_another(
        self, kind: type[Object], meta: ObjectMeta, error: errors.Conflict
    ) -> NoReturn:
        """Raises NotFound if another object has the name now, which the server reports as a Conflict over the uid."""
        found = await self.get(kind, meta.name, meta.namespace)
        if found.metadata.uid != meta.uid:
            raise errors.NotFound(
                f"{meta.name} with uid {meta.uid} is deleted; another object has its name"
            ) from error
        raise error

    def _owned(self) -> dict[str, str]:
        return {"fieldManager": self._settings.field_manager}

    async def _read(self, path: str, query: Mapping[str, str]) -> bytes:
        return await self._attempt("GET", path, query, "", b"", (errors.Throttled, errors.Unreachable))

    async def _write(
        self, method: str, path: str, content_type: str, body: Mapping[str, Any], query: Mapping[str, str]
    ) -> bytes:
        encoded = msgspec.json.encode(body)
        return await self._attempt(method, path, query, content_type, encoded, (errors.Throttled,))

    async def _attempt(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        content_type: str,
        body: bytes,
        again_on: tuple[type[errors.Retryable], ...],
    ) -> bytes:
        """The body of a successful response, after up to `attempts` attempts."""
        failures = 0
        while True:
            try:
                answer = await self._send_bounded(method, path, query, content_type, body)
                assert isinstance(answer.body, bytes)
                if _is_success(answer):
                    return answer.body
                raise statuses.error_of(answer.status, answer.headers, answer.body, f"{method} {path}")
            except again_on as error:
                failures += 1
                wait_s = max(error.retry_after_s or 0, _BACKOFF.delay_s(failures, self._ids))
                if failures >= self._settings.attempts or wait_s > self._settings.longest_wait_s:
                    raise
            await self._clock.sleep(wait_s)

    async def _send_bounded(
        self, method: str, path: str, query: Mapping[str, str], content_type: str = "", body: bytes = b""
    ) -> Answer:
        async with self._concurrency:
            return await self._send(method, path, query, content_type, body)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], content_type: str = "", body: bytes = b""
    ) -> Answer:
        await self._limit.take()
        headers = {"accept": _JSON} | ({"content-type": content_type} if content_type else {})
        try:
            with fence.guard(fence.always if method == "GET" else self._may_write):
                answer = await self._transport.request(method, path, query, headers, body)
        except OSError as error:
            self._outage.failed(error)
            raise errors.Unreachable(f"{method} {path}: {str(error) or type(error).__name__}") from error
        if answer.status in _NO_SERVER:
            self._outage.failed(f"HTTP {answer.status}")
        else:
            self._outage.answered()
        return answer


def _whole(items: Iterable[K | Unreadable]) -> tuple[K, ...]:
    """The objects; raises Unreachable if one cannot be decoded: callers of `list` need all of them."""
    found = []
    for item in items:
        if isinstance(item, Unreadable):
            raise errors.Unreachable(f"{item.kind} {item.metadata.name!r} cannot be read: {item.problem}")
        found.append(item)
    return tuple(found)


def _is_success(answer: Answer) -> bool:
    return 200 <= answer.status < 300  # noqa: PLR2004 - redirects are not followed, so they are not a success


def _touches_a_list(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_touches_a_list(child) for child in value.values())
    return isinstance(value, list | tuple)
