"""The connection between the controller and the embedded API server, with faults that affect all requests.

`sim.api.faults` injects faults into single requests. This front adds outages: while the server is down every request
fails, and every open watch ends.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from holdfast.ports import Clock
from holdfast.sim.api.serving.faults import Faults
from holdfast.sim.api.serving.front import Front, Request, Response


class Line(Faults):
    def __init__(self, front: Front, clock: Clock) -> None:
        super().__init__(front, clock)
        self._disconnected = asyncio.Event()
        self._down = False
        self._silent: set[str] = set()  # resources whose watches stay open without events

    async def handle(self, request: Request) -> Response:
        if self._down:
            raise ConnectionRefusedError("the API server is down")
        answer = await super().handle(request)
        if isinstance(answer.body, bytes):
            return answer
        plural = request.path.rpartition("/")[2]
        return replace(
            answer, body=_until_disconnected(self._unless_silent(answer.body, plural), self._disconnected)
        )

    def silence(self, plural: str) -> None:
        """Watches of that resource, open and new ones, deliver neither events nor bookmarks, and stay open."""
        self._silent.add(plural)

    def end_silence(self, plural: str) -> None:
        """New watches work again. Open ones stay silent, like a half-open TCP connection."""
        self._silent.discard(plural)

    async def _unless_silent(
        self, body: AsyncGenerator[bytes, None], plural: str
    ) -> AsyncGenerator[bytes, None]:
        is_silent = False
        try:
            async for chunk in body:
                is_silent = is_silent or plural in self._silent
                if not is_silent:
                    yield chunk
        finally:
            await body.aclose()

    def cut(self) -> None:
        """Ends every open watch, possibly in the middle of an event."""
        self._disconnected.set()
        self._disconnected = asyncio.Event()

    def go_down(self) -> None:
        self._down = True
        self.cut()

    def come_back(self) -> None:
        self._down = False


async def _until_disconnected(
    body: AsyncGenerator[bytes, None], disconnected: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    connection_lost = asyncio.ensure_future(disconnected.wait())
    try:
        while True:
            chunk = asyncio.ensure_future(anext(body))
            try:
                await asyncio.wait({chunk, connection_lost}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                chunk.cancel()
                await asyncio.gather(chunk, return_exceptions=True)
            if connection_lost.done():
                raise ConnectionResetError("the API server went down")
            try:
                yield chunk.result()
            except StopAsyncIteration:
                return
    finally:
        connection_lost.cancel()
        await body.aclose()
