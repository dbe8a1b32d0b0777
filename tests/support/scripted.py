"""A transport with scripted answers, for answers that a healthy server never gives."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.kube.client import Client, ClientSettings
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock

START = datetime(2026, 11, 15, 10, tzinfo=UTC)


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes | AsyncGenerator[bytes, None]
    headers: Mapping[str, str] = field(default_factory=dict)


def respond(status: int, body: Any, **headers: str) -> Response:
    with_dashes = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, body if isinstance(body, bytes) else msgspec.json.encode(body), with_dashes)


def failure(code: int, reason: str, message: str = "", **headers: str) -> Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return respond(code, body, **headers)


def stream(*chunks: bytes | Exception) -> Response:
    return Response(200, _chunks(chunks))


async def _chunks(chunks: Iterable[bytes | Exception]) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        if isinstance(chunk, Exception):
            raise chunk
        yield chunk


class Script:
    """A transport that gives the answers in order and records the requests."""

    def __init__(self, *answers: Response | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, Mapping[str, str], bytes]] = []

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Response:
        del headers
        self.asked.append((method, path, dict(query), body))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(transport: Script, **settings: Any) -> Client:
    return Client(
        transport=transport,
        clock=VirtualClock(START),
        ids=SeededIds(1),
        settings=ClientSettings(**settings),
    )
