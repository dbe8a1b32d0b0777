"""What goes in and comes out of the embedded API server: the shape both fronts share.

A request is what a client would put on the wire; nothing is decoded for it, so a client builds, decodes, retries and
maps errors alike on both.

In process:

    server = ApiServer(clock=clock, ids=ids)                      # no tokens: everybody is let in
    answer = await server.handle(Request("GET", "/api/v1/pods", {"limit": "500"}))

A body that is bytes is complete. One that is an iterator is a watch: chunks as a socket would give them, whole lines or
not; close it with `aclose` when done. A broken connection is a ConnectionResetError: from `handle`, no answer came and
the call may have taken effect; from the iterator, the answer ended there, in the middle of a line or not.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Names of headers are lower case; `path` is as on the wire, percent signs and all."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer. Names of headers are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes | AsyncGenerator[bytes, None]


class Front(Protocol):
    """Whatever answers requests: `server.ApiServer`, or the faults around it."""

    async def handle(self, request: Request) -> Response:
        """The answer to one request. Never raises but ConnectionResetError, which only injected faults cause."""
