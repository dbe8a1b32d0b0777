"""Requests and responses of the embedded API server, for both fronts.

A request has the bytes that a client would send, so that a client encodes, decodes, retries and maps errors in the same
way on both.

In process:

    server = ApiServer(clock=clock, ids=ids)                      # no tokens: every client is accepted
    answer = await server.handle(Request("GET", "/api/v1/pods", {"limit": "500"}))

A body of bytes is complete. An iterator is a watch: it yields chunks like a socket, not split at lines; close it with
`aclose`. A broken connection is a ConnectionResetError: from `handle`, there is no response and the call may have taken
effect; from the iterator, the response ended there, maybe inside a line.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are lower case; `path` is percent-encoded."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """One response. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes | AsyncGenerator[bytes, None]


class Front(Protocol):
    """Handles requests: `server.ApiServer`, or `faults.Faults`."""

    async def handle(self, request: Request) -> Response:
        """The response to one request. Raises only ConnectionResetError, and only for injected faults."""
