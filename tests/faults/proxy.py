"""A proxy between one replica and one endpoint, on real sockets, which damages selected calls.

`environment` starts one per replica and endpoint. The proxy decodes each request, so a fault is aimed at one call. Towards the
replica it uses TLS with its own certificate where the endpoint does. A fault is armed as an `Injection`, applies to a
number of calls, and ends when it is removed; connections that it damaged stay damaged, as in a real network.
"""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

from faults import damage, wire
from faults.calls import Call
from faults.damage import Kind
from faults.wire import Answer, Request

REPLICA_HEADER: Final = "x-fault-proxy-replica"
REFUSED_S: Final = 1.5
DRIP_S: Final = 3.0
_DRIP_PIECES: Final = 12
_BUFFER: Final = 2**26  # of the largest line that is read
_HOST: Final = "127.0.0.1"
_ACCEPTED_ROUNDS: Final = 3  # of the event loop, from an accepted connection to its transport
_EXPIRED: Final = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version","reason":"Expired","code":410}}\n'
)


@dataclass(eq=False)
class Injection:
    """One fault, aimed at one call."""

    kind: Kind
    call: Call
    times: int
    dice: random.Random
    hits: int = 0

    def apply_once(self) -> bool:
        """Whether the fault applies to one more call; counts it."""
        if self.hits >= self.times:
            return False
        self.hits += 1
        return True


@dataclass(frozen=True)
class Upstream:
    host: str
    port: int
    tls: ssl.SSLContext | None = None


@dataclass(eq=False)
class _Link:
    """One connection of the replica, with the connection to the server behind it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    up_reader: asyncio.StreamReader | None = None
    up_writer: asyncio.StreamWriter | None = None
    watches: Call | None = None
    silent: bool = False

    def close_upstream(self) -> None:
        if self.up_writer is not None:
            self.up_writer.transport.abort()
        self.up_reader = self.up_writer = None


class _Done(Exception):
    """The connection to the replica has ended."""


Hook = Callable[[Call, str], Awaitable[bool]]


async def _continue(_call: Call, _phase: str) -> bool:
    return True


@dataclass(eq=False)
class Proxy:
    upstream: Upstream
    identify: Callable[[Request], Call]
    replica: int
    tls: ssl.SSLContext | None = None  # towards the replica
    on_call: Callable[[Call], None] = lambda _: None
    on_fault: Callable[[Call], None] = lambda _: None  # a fault is injected into a call, or ends
    hook: Hook = (
        _continue  # called before a call is forwarded and after its answer; False drops the connection
    )
    date_off_s: int = 0  # offset of the Date header of every answer
    port: int = 0
    injections: list[Injection] = field(default_factory=list)
    _links: set[_Link] = field(default_factory=set)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    _server: asyncio.Server | None = None
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)

    # --- Faults -----------------------------------------------------------------------------------------

    def arm(self, injection: Injection) -> None:
        self.injections.append(injection)
        if not injection.call.is_watch:
            return
        open_ones = [link for link in self._links if link.watches == injection.call]
        if injection.kind is Kind.SILENT:
            for link in open_ones:
                link.silent = injection.apply_once()
        elif injection.kind not in damage.ON_AN_OPEN_WATCH:
            for link in open_ones:
                wire.reset(link.writer)

    @property
    def has_silent_watches(self) -> bool:
        """Whether a silent watch is still open."""
        return any(link.silent for link in self._links)

    async def expire(self, resource: str) -> None:
        """Ends the open watches of a resource as the API server does after compaction: the replica lists again."""
        for link in list(self._links):
            if link.watches is not None and link.watches.name == f"watch {resource}" and not link.silent:
                await self._send(link, wire.chunk(_EXPIRED))

    def stall(self) -> None:
        """Keeps all connections open and forwards nothing until `flow`."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    async def refuse(self) -> None:
        """Resets all connections and refuses new ones for a moment."""
        if self._server is None:
            return
        server, self._server = self._server, None
        await _close(server)
        for link in list(self._links):
            wire.reset(link.writer)
        await asyncio.sleep(REFUSED_S)
        self._server = await self._listen()

    # --- Server -----------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Proxy"]:
        self._flowing.set()
        self._server = await self._listen()
        self.port = self._server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            if self._server is not None:
                await _close(self._server)
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._connected, _HOST, self.port, ssl=self.tls, limit=_BUFFER, reuse_address=True
        )

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._serve(_Link(reader, writer)))

    def _spawn(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, link: _Link) -> None:
        self._links.add(link)
        try:
            while (request := await wire.read_request(link.reader)) is not None:
                await self._one(link, request)
        except (_Done, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._links.discard(link)
            link.close_upstream()
            link.writer.transport.abort()

    # --- One call ---------------------------------------------------------------------------------------

    async def _one(self, link: _Link, request: Request) -> None:
        call = self.identify(request)
        await self._flowing.wait()
        self.on_call(call)
        if not await self.hook(call, "before"):
            raise _Done
        injection = next((one for one in self.injections if one.call == call and self._applies(one)), None)
        if call.is_watch and (injection is None or injection.kind in damage.ON_AN_OPEN_WATCH):
            await self._watch(link, request, call, injection)
            return
        if injection is not None:
            self.on_fault(call)
            try:
                await self._faulty(link, request, call, injection)
            finally:
                self.on_fault(call)
            return
        answer = await self._forward(link, request)
        if not await self.hook(call, "after"):
            raise _Done
        if self.date_off_s:
            date = formatdate(_epoch(answer, 0) + self.date_off_s, usegmt=True)
            answer.headers = wire.with_header(answer.headers, "Date", date)
        await self._send(link, answer.encoded())

    @staticmethod
    def _applies(injection: Injection) -> bool:
        if injection.call.is_watch and injection.kind in damage.ON_AN_OPEN_WATCH:
            return injection.hits < injection.times  # counted when an event is damaged
        return injection.apply_once()

    async def _forward(self, link: _Link, request: Request, *, stream: bool = False) -> Answer:
        if link.up_writer is None or link.up_writer.is_closing():
            up = self.upstream
            link.up_reader, link.up_writer = await asyncio.open_connection(
                up.host, up.port, ssl=up.tls, limit=_BUFFER
            )
        assert link.up_reader is not None
        link.up_writer.write(request.encoded([(REPLICA_HEADER, str(self.replica))]))
        await link.up_writer.drain()
        return await wire.read_answer(link.up_reader, stream=stream)

    async def _send(self, link: _Link, data: bytes) -> None:
        await self._flowing.wait()
        link.writer.write(data)
        await link.writer.drain()

    async def _faulty(self, link: _Link, request: Request, call: Call, injection: Injection) -> None:
        kind, dice = injection.kind, injection.dice
        if kind in damage.REPLACING:
            if not call.is_watch and dice.random() < 0.5:
                await self._forward(link, request)
            await self._send(link, damage.replacement(kind, dice).encoded())
            return
        if kind is Kind.STALL:
            link.silent = call.is_watch
            await link.reader.read()  # until the replica closes the connection
            raise _Done
        if kind is Kind.REFUSED:
            self._spawn(self.refuse())
            raise _Done
        if kind is Kind.RESET:
            wire.reset(link.writer)
            raise _Done
        answer = await self._forward(link, request, stream=call.is_watch)
        now_s = asyncio.get_running_loop().time()
        await self._answer_wrongly(link, damage.damaged(kind, answer, dice, _epoch(answer, now_s)), injection)
        if call.is_watch:
            raise _Done

    async def _answer_wrongly(self, link: _Link, answer: Answer, injection: Injection) -> None:
        raw, dice = answer.encoded(), injection.dice
        match injection.kind:
            case Kind.LOST:
                wire.reset(link.writer)
                raise _Done
            case Kind.CUT:
                await self._send(link, raw[: dice.randrange(len(raw))])
                if dice.random() < 0.5:
                    wire.reset(link.writer)
                else:
                    link.writer.close()
                raise _Done
            case Kind.DRIP:
                await self._drip(link, raw)
            case _:
                await self._send(link, raw)

    async def _drip(self, link: _Link, raw: bytes) -> None:
        size = max(1, len(raw) // _DRIP_PIECES)
        for start in range(0, len(raw), size):
            await self._send(link, raw[start : start + size])
            await asyncio.sleep(DRIP_S / _DRIP_PIECES)

    # --- Watches ----------------------------------------------------------------------------------------

    async def _watch(self, link: _Link, request: Request, call: Call, injection: Injection | None) -> None:
        answer = await self._forward(link, request, stream=True)
        if not wire.is_chunked(answer.headers):
            await self._send(link, answer.encoded())
            return
        link.watches = call
        if injection is not None and injection.kind is Kind.SILENT:
            link.silent = injection.apply_once()
        await self._send(link, answer.head_of_stream())
        closing = asyncio.ensure_future(link.reader.read(1))  # ends when the replica closes the watch
        relaying = asyncio.ensure_future(self._relay(link, call))
        try:
            await asyncio.wait({closing, relaying}, return_when=asyncio.FIRST_COMPLETED)
            if relaying.done():
                relaying.result()
        finally:
            closing.cancel()
            relaying.cancel()
            await asyncio.gather(closing, relaying, return_exceptions=True)
        raise _Done

    async def _relay(self, link: _Link, call: Call) -> None:
        assert link.up_reader is not None
        async for data in wire.chunks(link.up_reader):
            if link.silent:
                continue
            injection = next((one for one in self.injections if one.call == call and one.apply_once()), None)
            if injection is None:
                await self._send(link, wire.chunk(data))
            else:
                await self._damage_event(link, data, injection)
        if not link.silent:
            await self._send(link, b"0\r\n\r\n")

    async def _damage_event(self, link: _Link, data: bytes, injection: Injection) -> None:
        dice = injection.dice
        match injection.kind:
            case Kind.WRONG_TYPES:
                line, newline, rest = data.partition(b"\n")
                await self._send(link, wire.chunk(damage.wrong_types(line, dice) + newline + rest))
            case Kind.HUGE:
                await self._send(link, wire.chunk(damage.huge(dice) + b"\n" + data))
            case Kind.DRIP:
                await self._drip(link, wire.chunk(data))
            case Kind.EMPTY:
                await self._send(link, b"0\r\n\r\n")
                raise _Done
            case Kind.CUT:
                raw = wire.chunk(data)
                await self._send(link, raw[: dice.randrange(len(raw))])
                wire.reset(link.writer)
                raise _Done
            case Kind.SILENT:
                link.silent = True
            case _:
                wire.reset(link.writer)
                raise _Done


async def _close(server: asyncio.Server) -> None:
    """Python 3.11 never closes a connection that was accepted just before its server was closed. So no more are accepted
    first, and those that were get their transport."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(_ACCEPTED_ROUNDS):
        await asyncio.sleep(0)
    server.close()


def _epoch(answer: Answer, otherwise_s: float) -> float:
    """The time in the Date header of the server."""
    written = wire.header(answer.headers, "date")
    return parsedate_to_datetime(written).timestamp() if written else otherwise_s
