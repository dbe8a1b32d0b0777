"""Serves the page with the JSON API from documents of `page_documents`, in a thread, for tests with a browser.

`python tests/support/page_server.py small|hostile|huge [PORT]` serves it until it is interrupted.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator

import msgspec
from aiohttp import web

import page_documents
from holdfast.api.reports import (
    DecisionsReport,
    ErrorReport,
    GangsReport,
    NodesReport,
    PendingReport,
    PlanReport,
    ReservationsReport,
    SearchReport,
    SlotsReport,
)
from holdfast.explain import server as explain_server
from page_documents import Documents

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CLUSTERS = {"small": page_documents.small, "hostile": page_documents.hostile, "huge": page_documents.huge}
NOW = 1_790_000_000  # the page uses the clock of the controller
_NODE_FILTERS = {
    "capacityType": "capacity_type",
    "zone": "zone",
    "nodePool": "node_pool",
    "reservation": "reservation",
    "state": "state",
}


class PageServer:
    """The server. `refuse` makes it answer 503, as a replica does that does not lead."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.refuse = False
        self.requests: list[str] = []
        self.version = 1
        self.reservations_version = 1
        self._changed: list[asyncio.Event] = []
        self._loop = asyncio.new_event_loop()
        self._files = explain_server.page_files()
        self._cached: dict[str, tuple[int, bytes]] = {}

    # --- Called by tests, from their own thread ---

    def publish(self, *, reservations: bool = True) -> None:
        """Sends an update to all event streams."""
        self._loop.call_soon_threadsafe(self._publish, reservations)

    def disconnect(self) -> None:
        """Ends all event streams."""
        self._loop.call_soon_threadsafe(self._end_streams)

    @contextlib.contextmanager
    def running(self, port: int = 0, prefix: str = "") -> Iterator[str]:
        """The address of the page."""
        started = threading.Event()
        ports: list[int] = []
        stop = asyncio.Event()

        async def serve() -> None:
            runner = web.AppRunner(self._app(prefix), access_log=None, shutdown_timeout=1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
            ports.append(runner.addresses[0][1])
            started.set()
            await stop.wait()
            self._end_streams()
            await runner.cleanup()

        def work() -> None:
            self._loop.run_until_complete(serve())
            self._loop.close()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            if not started.wait(30):
                raise TimeoutError("the server did not start")
            yield f"http://127.0.0.1:{ports[0]}{prefix}/"
        finally:
            self._loop.call_soon_threadsafe(stop.set)
            thread.join()

    # --- Answers ---

    def _publish(self, reservations: bool) -> None:  # noqa: FBT001 - call_soon_threadsafe takes no keywords
        self.version += 1
        self.reservations_version += reservations
        for event in self._changed:
            event.set()

    def _end_streams(self) -> None:
        for event in self._changed:
            event.ended = True  # type: ignore[attr-defined]
            event.set()

    def _app(self, prefix: str) -> web.Application:
        app = web.Application(middlewares=[self._middleware])
        api = f"{prefix}/api/v1"
        for name, answer in {
            "status": lambda _: self.documents.status,
            "reservations": lambda _: self._reservations(),
            "slots": self._slots,
            "nodes": self._nodes,
            "pods": lambda _: self._pending(),
            "gangs": lambda _: self._gangs(),
            "decisions": self._decisions,
            "plan": lambda _: self.documents.plan or PlanReport(at=self.documents.at),
            "search": self._search,
        }.items():
            app.router.add_get(f"{api}/{name}", self._json(name, answer))
        app.router.add_get(f"{api}/events", self._events)
        app.router.add_get(api + "/explain/{kind}/{name:[^/]+}", self._json("explain", self._explain))
        app.router.add_get(
            api + "/explain/{kind}/{namespace:[^/]+}/{name:[^/]+}", self._json("explain", self._explain)
        )
        app.router.add_get(prefix + "/{path:(|assets/.*)}", self._page)
        return app

    @web.middleware
    async def _middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        if self.refuse and "/api/" in request.path:
            error = msgspec.json.encode(ErrorReport(error="this replica does not lead"))
            return web.Response(
                status=503, body=error, content_type="application/json", headers={"Retry-After": "1"}
            )
        return await handler(request)

    def _json(self, name: str, answer: Callable[[web.Request], object]) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            whole = name in {"reservations", "status", "pods", "gangs", "plan"}
            cached = self._cached.get(name)
            if not whole or cached is None or cached[0] != self.version:
                found = answer(request)
                status = 404 if found is None else 200
                body = msgspec.json.encode(found or ErrorReport(error="no such object"))
                cached = self.version, body
                if whole:
                    self._cached[name] = cached
            else:
                status = 200
            headers = explain_server._HEADERS
            response = web.Response(
                status=status, body=cached[1], content_type="application/json", headers=headers
            )
            response.enable_compression()
            return response

        return handle

    async def _page(self, request: web.Request) -> web.Response:
        file = self._files.get("/" + request.match_info["path"])
        if file is None:
            raise web.HTTPNotFound
        body, content_type = file
        headers = explain_server._HEADERS
        response = web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)
        response.enable_compression()
        return response

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={**explain_server._HEADERS, "Content-Type": "text/event-stream"}
        )
        await response.prepare(request)
        changed = asyncio.Event()
        self._changed.append(changed)
        try:
            while not getattr(changed, "ended", False):
                newest = self.documents.decisions[0].id if self.documents.decisions else 0
                update = {
                    "version": self.version,
                    "status": self.documents.status,
                    "reservations": self.reservations_version,
                    "decisions": newest,
                }
                await response.write(b"event: update\ndata: " + msgspec.json.encode(update) + b"\n\n")
                await changed.wait()
                changed.clear()
        except ConnectionError:
            pass
        finally:
            self._changed.remove(changed)
        return response

    def _reservations(self) -> ReservationsReport:
        documents = self.documents
        return ReservationsReport(
            at=documents.at,
            counted_at=documents.at - 12,
            items=tuple(documents.reservations),
            idle_usd_per_hour=page_documents.idle_usd(documents.reservations),
            without_price=sum(
                row.idle > 0 and row.idle_usd_per_hour is None for row in documents.reservations
            ),
            idle_usd_day=documents.idle_usd_day,
            idle_since=documents.idle_since,
        )

    def _slots(self, request: web.Request) -> SlotsReport:
        ids = request.query.get("reservations", "").split(",")[:50]
        slots = self.documents.slots
        return SlotsReport(at=self.documents.at, items={one: slots[one][:200] for one in ids if one in slots})

    def _nodes(self, request: web.Request) -> NodesReport:
        query = request.query
        found = [
            row
            for row in self.documents.nodes
            if query.get("search", "") in f"{row.name} {row.node_claim} {row.instance_type}"
            and all(getattr(row, name) == query[key] for key, name in _NODE_FILTERS.items() if query.get(key))
        ]
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
        return NodesReport(
            at=self.documents.at, total=len(found), items=tuple(found[offset : offset + limit])
        )

    def _pending(self) -> PendingReport:
        groups = self.documents.pending
        return PendingReport(
            at=self.documents.at, total=sum(group.pods for group in groups), groups=tuple(groups)
        )

    def _gangs(self) -> GangsReport:
        found = self.documents.gangs
        return GangsReport(at=self.documents.at, total=len(found), items=tuple(found[:100]))

    def _decisions(self, request: web.Request) -> DecisionsReport:
        after, limit = int(request.query.get("after", 0)), int(request.query.get("limit", 100))
        search = request.query.get("search", "")
        rows = [
            row for row in self.documents.decisions if row.id > after and search in f"{row.name} {row.text}"
        ]
        return DecisionsReport(
            at=self.documents.at, since=self.documents.at - 86400, items=tuple(rows[:limit])
        )

    def _search(self, request: web.Request) -> SearchReport:
        hits = self.documents.hits(request.query.get("q", ""))
        return SearchReport(at=self.documents.at, items=tuple(hits[:50]), more=len(hits) > 50)

    def _explain(self, request: web.Request) -> object:
        match = request.match_info
        return self.documents.explanation(match["kind"], match.get("namespace", ""), match["name"])


def cluster(kind: str) -> PageServer:
    """A server of one of CLUSTERS, not started yet."""
    return PageServer(CLUSTERS[kind](NOW))


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "small"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with cluster(kind).running(port) as address, contextlib.suppress(KeyboardInterrupt):
        sys.stderr.write(f"{address}\n")
        threading.Event().wait()


if __name__ == "__main__":
    main()
