"""Answers that are damaged below their content, over real sockets: not HTTP, cut off, or from a proxy."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest

from holdfast import errors
from holdfast.api.nodes import Node
from holdfast.cloud.aws.client.calls import Calls, Clients, Inline
from holdfast.cloud.aws.nodeclass import network
from holdfast.kube import credentials
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.connection import Connection, Server
from holdfast.kube.credentials import Credential
from holdfast.kube.http import HttpTransport
from manual_ports import CollectingRecorder, ManualClock, SeededIds
from objects import node

NODE = b'{"kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"7"}}'
SUBNETS = (
    b"<DescribeSubnetsResponse><subnetSet><item><subnetId>subnet-1</subnetId>"
    b"<availabilityZone>us-west-2a</availabilityZone></item></subnetSet></DescribeSubnetsResponse>"
)
INTACT = ("intact", "wrong content type", "date overflow", "date garbage", "unknown encoding")
# The body is complete, and urllib3 accepts the rest.
INTACT_FOR_URLLIB3 = (
    *INTACT,
    "content-length too long",
    "content-length negative",
    "content-length no number",
    "header without colon",
    "nul in header",
)


def answers(body: bytes) -> dict[str, bytes | None]:
    """What the server sends before it closes the connection; None: it resets the connection."""

    def response(status: str, *headers: str, content: bytes = body) -> bytes:
        lines = (f"HTTP/1.1 {status}", f"content-length: {len(content)}", "connection: close", *headers)
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content

    ok, half = "200 OK", body[: len(body) // 2]
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    return {
        "intact": response(ok, "content-type: application/json"),
        "wrong content type": response(ok, "content-type: image/png"),
        "date overflow": response(ok, "Date: Fri, 31 Dec 9999 23:59:59 -9959"),
        "date garbage": response(ok, "Date: \xff\xfe"),
        "plain-text 500": response("500 Oops", "content-type: text/plain", content=b"Internal Server Error"),
        "plain-text 403": response("403 No", content=b"no entry"),
        "plain-text 404": response("404 Not Found", content=b"404 page not found"),
        "html 200": response(ok, "content-type: text/html", content=b"<html><body>log in</body></html>"),
        "html 502": response("502 Bad Gateway", content=b"<html><body><p>bad<br></body></html>"),
        "redirect": response("302 Found", "location: http://127.0.0.1:1/other"),
        "redirect without location": response("301 Moved"),
        "compressed bomb": response(ok, "content-encoding: gzip", content=b"\x1f\x8b\x08\x00garbage"),
        "unknown encoding": response(ok, "content-encoding: zzz"),
        "empty": response(ok, content=b""),
        "no content": response("204 No Content", content=b""),
        "half with its own length": response(ok, content=half),
        "content-length too long": response(ok).replace(b"content-length: ", b"content-length: 9"),
        "content-length negative": response(ok).replace(b"content-length: ", b"content-length: -"),
        "content-length no number": response(ok).replace(b"content-length: ", b"content-length: x"),
        "two lengths": response(ok, "content-length: 3"),
        "chunked garbage": chunked + b"zzz\r\n" + body,
        "chunk cut": chunked + b"ffff\r\n" + half,
        "chunk without end": chunked + f"{len(half):x}\r\n".encode() + half,
        "chunk of negative size": chunked + b"-5\r\n" + body,
        "status line garbage": b"HELLO\r\n\r\n" + body,
        "status no number": b"HTTP/1.1 xx OK\r\n\r\n" + body,
        "status too large": b"HTTP/1.1 99999 OK\r\n\r\n" + body,
        "header without colon": b"HTTP/1.1 200 OK\r\nheader\r\n\r\n" + body,
        "header too long": response(ok, "x: " + "y" * 100_000),
        "nul in header": response(ok, "x: \x00"),
        "retry-after": response("429 Slow", "Retry-After: 99999999", content=b"slow down"),
        "only headers": b"HTTP/1.1 200 OK\r\ncontent-le",
        "silence": b"",
        "reset": None,
    }


@contextlib.contextmanager
def server(answer: bytes | None) -> Iterator[str]:
    """A server that sends this answer to every request."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    if answer is None:
                        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
                        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # closes with a reset
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    else:
                        connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(5)


async def every_call(url: str) -> list[Any]:
    """What the calls of the Kube port return or raise."""
    transport = HttpTransport(Connection(Server(url), credentials.Fixed(Credential())))
    kube = Client(
        transport=transport, clock=ManualClock(), ids=SeededIds(), settings=ClientSettings(attempts=1)
    )
    known = node("n", {"uid": "u", "resourceVersion": "7"})

    async def watch() -> None:
        async for _ in kube.watch(Node, "7"):
            pass

    calls = (
        kube.get(Node, "n"),
        kube.list(Node),
        kube.create(known),
        kube.patch(known, {"metadata": {"labels": {"a": "b"}}}),
        kube.delete(known),
        kube.evict("default", "p", "u"),
        kube.version(),
        watch(),
    )
    try:
        return list(await asyncio.gather(*calls, return_exceptions=True))
    finally:
        await transport.aclose()


@pytest.mark.parametrize("name", answers(NODE))
def test_damaged_answers_of_an_api_server_raise_only_errors_of_holdfast(name: str) -> None:
    with server(answers(NODE)[name]) as url:
        found = asyncio.run(every_call(url))
    for one in found:
        assert not isinstance(one, BaseException) or isinstance(one, errors.HoldfastError), repr(one)
    assert isinstance(found[0], BaseException) is (name not in INTACT), found[0]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # http.client raises it during garbage collection
@pytest.mark.parametrize("name", answers(SUBNETS))
def test_damaged_answers_of_aws_raise_only_errors_of_holdfast(name: str) -> None:
    with server(answers(SUBNETS)[name]) as url:
        made = Calls(
            _Clients(url),
            executor=Inline(),
            clock=ManualClock(),
            ids=SeededIds(),
            recorder=CollectingRecorder(),
        )
        if name in INTACT_FOR_URLLIB3:
            assert [one.id for one in asyncio.run(network.read_subnets(made))] == ["subnet-1"]
        else:
            with pytest.raises(errors.HoldfastError):
                asyncio.run(network.read_subnets(made))


class _Clients(Clients):
    def __init__(self, url: str) -> None:
        super().__init__("us-west-2", self._session_of)
        self._url = url

    def _session_of(self) -> botocore.session.Session:
        session = botocore.session.Session()
        session.set_credentials("key", "secret")
        plain = session.create_client

        def create(service: str, **settings: object) -> object:
            return plain(service, endpoint_url=self._url, **settings)

        session.create_client = create
        return session
