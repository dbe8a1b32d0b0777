"""HTTP/1.1 as the fault proxies read and write it: requests, answers, and the chunks of a watch.

Used by `proxy` and `damage`. A message is read whole, except for the body of a watch. Nothing is validated: both ends
of the proxy are real HTTP libraries, and faults send invalid messages on purpose.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Final

HEAD_MAX: Final = 2**20
_HEAD_ENDS: Final = b"\r\n\r\n"
_NO_BODY: Final = (204, 304)
_RESET: Final = struct.pack("ii", 1, 0)  # linger for zero seconds: close sends RST instead of FIN

Headers = list[tuple[str, str]]


@dataclass(slots=True)
class Request:
    method: str
    target: str  # path and query, as sent
    headers: Headers
    body: bytes = b""

    def header(self, name: str) -> str:
        return header(self.headers, name)

    def encoded(self, extra: Headers | None = None) -> bytes:
        other_headers = without(self.headers, "transfer-encoding", "content-length")
        headers = [*other_headers, *(extra or ()), ("Content-Length", str(len(self.body)))]
        return _head(f"{self.method} {self.target} HTTP/1.1", headers) + self.body


@dataclass(slots=True)
class Answer:
    status: int
    reason: str
    headers: Headers = field(default_factory=list)
    body: bytes = b""

    def encoded(self) -> bytes:
        other_headers = without(self.headers, "transfer-encoding", "content-length")
        headers = [*other_headers, ("Content-Length", str(len(self.body)))]
        return _head(f"HTTP/1.1 {self.status} {self.reason}", headers) + self.body

    def head_of_stream(self) -> bytes:
        other_headers = without(self.headers, "transfer-encoding", "content-length")
        return _head(
            f"HTTP/1.1 {self.status} {self.reason}", [*other_headers, ("Transfer-Encoding", "chunked")]
        )


def header(headers: Iterable[tuple[str, str]], name: str) -> str:
    return next((value for key, value in headers if key.lower() == name.lower()), "")


def without(headers: Headers, *names: str) -> Headers:
    return [(key, value) for key, value in headers if key.lower() not in names]


def with_header(headers: Headers, name: str, value: str) -> Headers:
    return [*without(headers, name.lower()), (name, value)]


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request, or None when the client closed the connection."""
    head = await _read_head(reader)
    if head is None:
        return None
    start, headers = head
    method, target, _ = start.split(" ", 2)
    return Request(method, target, headers, await read_body(reader, headers))


async def read_answer(reader: asyncio.StreamReader, *, stream: bool) -> Answer:
    """The next answer; without its body when it is a stream."""
    head = await _read_head(reader)
    if head is None:
        raise ConnectionResetError("the server closed the connection")
    start, headers = head
    _, status, reason = f"{start} ".split(" ", 2)
    answer = Answer(int(status), reason.strip(), headers)
    if not (stream and is_chunked(headers)) and answer.status not in _NO_BODY:
        answer.body = await read_body(reader, headers)
    return answer


async def read_body(reader: asyncio.StreamReader, headers: Headers) -> bytes:
    if is_chunked(headers):
        return b"".join([chunk async for chunk in chunks(reader)])
    return await reader.readexactly(int(header(headers, "content-length") or 0))


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readline()).partition(b";")[0] or b"0", 16):
        data = await reader.readexactly(size + 2)
        yield data[:-2]
    await reader.readline()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def is_chunked(headers: Headers) -> bool:
    return header(headers, "transfer-encoding").lower() == "chunked"


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends the connection at once with a TCP reset."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, Headers] | None:
    try:
        raw = await reader.readuntil(_HEAD_ENDS)
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise
    start, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return start, [(name, value.strip()) for name, _, value in pairs]


def _head(start: str, headers: Headers) -> bytes:
    lines = [start, *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + _HEAD_ENDS
