"""The line between a program and the embedded API server: it can be bad, and the server at its end can restart.

A front around `sim.api.faults`, which says which single requests go wrong. What is here concerns all of them: while
the server is down nobody gets an answer, and every watch that was open has ended.
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
        self._broken = asyncio.Event()
        self._down = False
        self._silent: set[str] = set()  # resources whose watches stay open and bring nothing

    async def handle(self, request: Request) -> Response:
        if self._down:
            raise ConnectionRefusedError("the API server is down")
        answer = await super().handle(request)
        if isinstance(answer.body, bytes):
            return answer
        plural = request.path.rpartition("/")[2]
        return replace(answer, body=_until(self._heard(answer.body, plural), self._broken))

    def silence(self, plural: str) -> None:
        """Watches of that resource stay open and bring neither events nor bookmarks: those that are open, and new ones."""
        self._silent.add(plural)

    def end_silence(self, plural: str) -> None:
        """New watches work again; those that were open stay silent, as a connection does whose peer is gone."""
        self._silent.discard(plural)

    async def _heard(self, body: AsyncGenerator[bytes, None], plural: str) -> AsyncGenerator[bytes, None]:
        lost = False
        try:
            async for chunk in body:
                lost = lost or plural in self._silent
                if not lost:
                    yield chunk
        finally:
            await body.aclose()

    def cut(self) -> None:
        """Every watch that is open ends, in the middle of whatever it says."""
        self._broken.set()
        self._broken = asyncio.Event()

    def go_down(self) -> None:
        self._down = True
        self.cut()

    def come_back(self) -> None:
        self._down = False


async def _until(body: AsyncGenerator[bytes, None], broken: asyncio.Event) -> AsyncGenerator[bytes, None]:
    breaks = asyncio.ensure_future(broken.wait())
    try:
        while True:
            chunk = asyncio.ensure_future(anext(body))
            try:
                await asyncio.wait({chunk, breaks}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                chunk.cancel()
                await asyncio.gather(chunk, return_exceptions=True)
            if breaks.done():
                raise ConnectionResetError("the API server went down")
            try:
                yield chunk.result()
            except StopAsyncIteration:
                return
    finally:
        breaks.cancel()
        await body.aclose()
