"""Serves the JSON API, the page and a stream of updates. Read-only.

A replica that does not lead answers 503: it knows no plan. Behind a Service, the client asks again. There are no CORS
headers. On loopback, requests with a foreign Host header are refused, so that a web page in a browser on the same computer
cannot read the API by DNS rebinding. In a cluster they are not: the service proxy of the API server forwards the Host of
the API server, which is a public name.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib import resources
from typing import Any, Final

import msgspec
from aiohttp import web

from holdfast import errors
from holdfast.api.meta import Wire
from holdfast.api.reports import ErrorReport, StatusReport
from holdfast.explain import answers
from holdfast.explain.answers import Answers
from holdfast.explain.reports import NodeQuery, Reports
from holdfast.explain.sources import Sources
from holdfast.ports import Clock

_JSON: Final = "application/json"
_TEXT_MAX: Final = 253  # characters of a query: the longest name of an object
_LIMIT_MAX: Final = 500
_OFFSET_MAX: Final = 1_000_000
_IDS_MAX: Final = 50
_ID_MAX: Final = 2**53
_STREAMS_MAX: Final = 64
_TICK_S: Final = 1.0
_KEEP_ALIVE_S: Final = 15.0
_SAMPLE_S: Final = 60.0
_LOCAL_SUFFIXES: Final = (".localhost", ".svc", ".svc.cluster.local")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"  # the browser refuses to build markup from text
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Explain:
    """The documents, and the tasks that keep them current."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.reports = Reports(sources)
        self.answers = Answers(sources, self.reports)

    async def run(self) -> None:
        """Samples what idle slots cost, until cancelled."""
        while True:
            if self.sources.process.leads() and not self.sources.process.problem():
                await self.reports.sample()
            await self.sources.clock.sleep(_SAMPLE_S)


def application(explain: Explain, *, page: bool, clock: Clock, only_local_hosts: bool) -> web.Application:
    """`page`: whether the web page is served beside the JSON API. `clock`: the readers' time; that of a demo is faster.
    `only_local_hosts`: whether requests for another site are refused."""
    api = _Api(explain, clock)
    app = web.Application(
        middlewares=[*([_refuse_foreign_hosts] if only_local_hosts else []), _errors_as_json]
    )
    app.add_routes(
        [
            web.get("/api/v1/status", api.status),
            web.get("/api/v1/reservations", api.reservations),
            web.get("/api/v1/slots", api.slots),
            web.get("/api/v1/nodes", api.nodes),
            web.get("/api/v1/pods", api.pods),
            web.get("/api/v1/gangs", api.gangs),
            web.get("/api/v1/decisions", api.decisions),
            web.get("/api/v1/plan", api.plan),
            web.get("/api/v1/search", api.search),
            web.get("/api/v1/explain/{kind}/{name}", api.explain),
            web.get("/api/v1/explain/{kind}/{namespace}/{name}", api.explain),
            web.get("/api/v1/events", api.events),
        ]
    )
    if page:
        files = page_files()
        for path in files:
            app.router.add_get(path, _file(files, path))
    return app


def page_files() -> Mapping[str, tuple[bytes, str]]:
    """The files of the page with their content types, by path."""
    found: dict[str, tuple[bytes, str]] = {}
    folder = resources.files("holdfast") / "web"
    for one in folder.iterdir() if folder.is_dir() else ():
        suffix = one.name[one.name.rfind(".") :]
        if one.is_file() and suffix in _TYPES:
            path = "/" if one.name == "index.html" else f"/assets/{one.name}"
            found[path] = (one.read_bytes(), _TYPES[suffix])
    return found


class _Api:
    def __init__(self, explain: Explain, clock: Clock) -> None:
        self._explain = explain
        self._reports = explain.reports
        self._process = explain.sources.process
        self._updates = _Updates(explain, clock)

    async def status(self, _: web.Request) -> web.Response:
        self._check()
        return _answer(await self._reports.status())

    async def reservations(self, _: web.Request) -> web.Response:
        self._check()
        return _answer(await self._reports.reservations())

    async def slots(self, request: web.Request) -> web.Response:
        self._check()
        ids = [id_ for id_ in _text(request, "reservations", _TEXT_MAX * _IDS_MAX).split(",") if id_]
        if len(ids) > _IDS_MAX:
            raise errors.InvalidInput(f"reservations: at most {_IDS_MAX} ids")
        return _answer(await self._reports.slots(ids))

    async def nodes(self, request: web.Request) -> web.Response:
        self._check()
        query = NodeQuery(
            search=_text(request, "search"),
            capacity_type=_text(request, "capacityType"),
            zone=_text(request, "zone"),
            node_pool=_text(request, "nodePool"),
            reservation=_text(request, "reservation"),
            state=_text(request, "state"),
            limit=_number(request, "limit", 100, _LIMIT_MAX),
            offset=_number(request, "offset", 0, _OFFSET_MAX),
        )
        return _answer(await self._reports.nodes(query))

    async def pods(self, _: web.Request) -> web.Response:
        self._check()
        return _answer(await self._reports.pending())

    async def gangs(self, _: web.Request) -> web.Response:
        self._check()
        return _answer(await self._explain.answers.gangs.report())

    async def decisions(self, request: web.Request) -> web.Response:
        self._check()
        return _answer(
            self._reports.decisions(
                after=_number(request, "after", 0, _ID_MAX),
                limit=_number(request, "limit", 100, _LIMIT_MAX),
                search=_text(request, "search"),
            )
        )

    async def plan(self, _: web.Request) -> web.Response:
        self._check()
        return _answer(await self._reports.plan())

    async def search(self, request: web.Request) -> web.Response:
        self._check()
        return _answer(await self._reports.search(_text(request, "q")))

    async def explain(self, request: web.Request) -> web.Response:
        self._check()
        kind, namespace = request.match_info["kind"], request.match_info.get("namespace", "")
        if kind not in answers.KINDS:
            raise errors.InvalidInput(f"{kind!r} is none of {', '.join(answers.KINDS)}")
        if (kind in answers.NAMESPACED) != bool(namespace):
            raise errors.InvalidInput(
                f"a {kind} has {'a' if kind in answers.NAMESPACED else 'no'} namespace in its path"
            )
        return _answer(await self._explain.answers.explain(kind, namespace, request.match_info["name"]))

    async def events(self, request: web.Request) -> web.StreamResponse:
        self._check()
        return await self._updates.stream(request, self._check)

    def _check(self) -> None:
        """Raises NotReady if this replica cannot answer."""
        if not self._process.leads():
            raise errors.NotReady("this replica does not lead; ask again, another one does")
        if problem := self._process.problem():
            raise errors.NotReady(problem)


class _Update(Wire, frozen=True, kw_only=True):
    version: int
    status: StatusReport
    reservations: int
    decisions: int


class _Updates:
    """One update a second for all streams, and only if something changed."""

    def __init__(self, explain: Explain, clock: Clock) -> None:
        self._reports = explain.reports
        self._decisions = explain.sources.decisions
        self._clock = clock
        self._streams = 0
        self._key: tuple[object, ...] = ()
        self._version = 0
        self._listed: tuple[Any, int] = (None, 0)
        self._body = b""
        self._built_s = float("-inf")
        self._lock = asyncio.Lock()

    async def stream(self, request: web.Request, check: Callable[[], None]) -> web.StreamResponse:
        if self._streams >= _STREAMS_MAX:
            raise errors.NotReady(f"{_STREAMS_MAX} streams are open")
        self._streams += 1
        try:
            response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
            await response.prepare(request)
            with contextlib.suppress(ConnectionError, errors.NotReady):
                async for part in self._parts(check):
                    await response.write(part)
        finally:
            self._streams -= 1
        return response

    async def _parts(self, check: Callable[[], None]) -> AsyncIterator[bytes]:
        sent, sent_s = 0, self._clock.monotonic_s()
        while True:
            check()
            await self._build()
            now_s = self._clock.monotonic_s()
            if sent != self._version:
                sent, sent_s = self._version, now_s
                yield self._body
            elif now_s - sent_s >= _KEEP_ALIVE_S:
                sent_s = now_s
                yield b": keep-alive\n\n"
            await self._clock.sleep(_TICK_S)

    async def _build(self) -> None:
        """At most once a tick, for all streams."""
        async with self._lock:
            now_s = self._clock.monotonic_s()
            if now_s - self._built_s < _TICK_S:
                return
            self._built_s = now_s
            listed = await self._reports.reservations()
            if (listed.items, listed.idle_usd_per_hour) != self._listed[0]:
                self._listed = ((listed.items, listed.idle_usd_per_hour), self._listed[1] + 1)
            status = await self._reports.status()
            key = (msgspec.structs.replace(status, at=0), self._listed[1], self._decisions.last_id)
            if key == self._key:
                return
            self._key, self._version = key, self._version + 1
            update = _Update(
                version=self._version,
                status=status,
                reservations=self._listed[1],
                decisions=self._decisions.last_id,
            )
            self._body = b"event: update\ndata: " + msgspec.json.encode(update) + b"\n\n"


# --- Requests and responses -----------------------------------------------------------------------------


@web.middleware
async def _refuse_foreign_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    if not is_local(request.host):
        return _error(421, "the Host header names another site")
    return await handler(request)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors have the status that they mean."""
    try:
        return await handler(request)
    except errors.InvalidInput as error:
        return _error(400, str(error))
    except errors.NotFound as error:
        return _error(404, str(error))
    except errors.HoldfastError as error:
        return _error(503, str(error), {"Retry-After": "1"})
    except web.HTTPException as error:
        allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return _error(error.status, error.reason, allowed)


def is_local(host: str) -> bool:
    """An IP address, localhost, a Service of the cluster, or a name without a dot. A public name is not."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    name = name.strip("[]").rstrip(".").lower()
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return "." not in name or name.endswith(_LOCAL_SUFFIXES)


def _answer(report: Wire) -> web.Response:
    response = web.Response(body=msgspec.json.encode(report), headers=_HEADERS, content_type=_JSON)
    response.enable_compression()
    return response


def _error(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=msgspec.json.encode(ErrorReport(error=text)),
        headers={**_HEADERS, **(headers or {})},
        content_type=_JSON,
    )


def _file(files: Mapping[str, tuple[bytes, str]], path: str) -> Handler:
    body, content_type = files[path]

    async def serve(_: web.Request) -> web.StreamResponse:
        response = web.Response(body=body, headers=_HEADERS, content_type=content_type, charset="utf-8")
        response.enable_compression()
        return response

    return serve


def _text(request: web.Request, name: str, longest: int = _TEXT_MAX) -> str:
    value = request.query.get(name, "")
    if len(value) > longest:
        raise errors.InvalidInput(f"{name}: at most {longest} characters")
    return value


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    value = request.query.get(name)
    if value is None:
        return default
    if not value.isascii() or not value.isdigit() or len(value) > len(str(most)) or int(value) > most:
        raise errors.InvalidInput(f"{name}: not a whole number from 0 to {most}")
    return int(value)
