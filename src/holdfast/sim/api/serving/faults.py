"""Faults between a client and the API server: errors, delays, broken connections, stale lists.

It wraps a front, so the same faults work in process and over HTTP. It uses no random numbers: the caller decides which
requests fail and how often.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Literal

from holdfast.ports import Clock
from holdfast.sim.api.schema.status import Refused
from holdfast.sim.api.serving import answers
from holdfast.sim.api.serving.front import Front, Request, Response

Which = Callable[[Request], bool]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Returns an error Status. The request has no effect, unless `after_effect` is set."""

    reason: Literal[
        "TooManyRequests", "InternalError", "Conflict", "NotFound", "Timeout", "Expired", "Forbidden"
    ] = "InternalError"
    retry_after_s: int = 0
    after_effect: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """Delays the response; the request takes effect before."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Lose:
    """Breaks the connection: before the request arrives, or after it took effect."""

    after_effect: bool = False


@dataclass(frozen=True, slots=True)
class Half:
    """Breaks the connection after some bytes of the response, also of a watch."""

    bytes_: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Ends a watch normally after some chunks."""

    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Stale:
    """Returns a list as it was some versions ago."""

    versions: int


Fault = Refuse | Delay | Lose | Half | Cut | Stale


@dataclass(slots=True)
class _Armed:
    which: Which
    fault: Fault
    times: int


class Faults:
    """A front with injected faults."""

    def __init__(self, front: Front, clock: Clock) -> None:
        self._front = front
        self._clock = clock
        self._armed: list[_Armed] = []

    def add(self, fault: Fault, which: Which, *, times: int = 1) -> None:
        """Applies the fault to the next `times` matching requests. The first matching fault is used."""
        self._armed.append(_Armed(which, fault, times))

    def clear(self) -> None:
        self._armed.clear()

    async def handle(self, request: Request) -> Response:
        fault = self._next(request)
        match fault:
            case Refuse(reason, wait, after_effect):
                if after_effect:
                    await self._front.handle(request)
                return _refusal(reason, wait)
            case Lose(after_effect=False):
                raise ConnectionResetError("injected: the request was lost")
            case Stale(versions):
                request = await self._as_of(request, versions)
        answer = await self._front.handle(request)
        match fault:
            case Delay(seconds):
                await self._clock.sleep(seconds)
            case Lose():
                raise ConnectionResetError("injected: the answer was lost")
            case Half(count):
                return replace(answer, body=_half(answer.body, count))
            case Cut(chunks) if not isinstance(answer.body, bytes):
                return replace(answer, body=_cut(answer.body, chunks))
        return answer

    def _next(self, request: Request) -> Fault | None:
        for armed in self._armed:
            if armed.which(request):
                armed.times -= 1
                if armed.times <= 0:
                    self._armed.remove(armed)
                return armed.fault
        return None

    async def _as_of(self, request: Request, versions: int) -> Request:
        """The request for an exact older version of the list."""
        newest = await self._front.handle(replace(request, query={**request.query, "limit": "1"}))
        version = _version_in(newest)
        if request.query.get("watch") or version is None:
            return request
        older = {"resourceVersion": str(max(version - versions, 1)), "resourceVersionMatch": "Exact"}
        return replace(request, query={**request.query, **older})


def _refusal(reason: str, wait: int) -> Response:
    refused = Refused(reason, f"injected: {reason}", retry_after_s=wait)
    answer = answers.plain(refused.body(), refused.code)
    return replace(answer, headers={**answer.headers, "retry-after": str(wait)}) if wait else answer


def _version_in(answer: Response) -> int | None:
    if answer.status != 200 or not isinstance(answer.body, bytes):  # noqa: PLR2004 - a list that was answered
        return None
    version = answers.list_version(answer.body)
    return int(version) if version.isdecimal() else None


async def _half(body: bytes | AsyncGenerator[bytes, None], count: int) -> AsyncGenerator[bytes, None]:
    chunks = _one(body) if isinstance(body, bytes) else body
    left = count
    try:
        async for chunk in chunks:
            if len(chunk) >= left:
                yield chunk[:left]
                break
            left -= len(chunk)
            yield chunk
    finally:
        await chunks.aclose()
    raise ConnectionResetError("injected: half an answer")


async def _cut(body: AsyncGenerator[bytes, None], chunks: int) -> AsyncGenerator[bytes, None]:
    try:
        for _ in range(chunks):
            yield await anext(body)
    except StopAsyncIteration:
        return
    finally:
        await body.aclose()


async def _one(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
