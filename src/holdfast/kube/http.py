"""The transport over a socket.

Callers: `app` makes one per API server, and closes it. Answers are not compressed: to unpack a page of pods stops the
loop for as long as to decode it. A peer that went away without a word is found by keep-alive probes of the kernel,
since a watch has nothing to say for minutes.
"""

import asyncio
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from aiohttp import http_exceptions
from yarl import URL

from holdfast import errors, fence
from holdfast.kube.connection import Connection, Server
from holdfast.kube.credentials import Credential

_CONNECTIONS: Final = 256  # a watch of each kind holds one
_CONNECT_S: Final = 10
_ANSWER_S: Final = 60
_CLOSING_S: Final = 0.1
_CHUNK: Final = 256 * 1024
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_BODY_MAX: Final = 256 * 1024 * 1024
# What aiohttp raises for an answer that is not HTTP, or breaks off: not all of it is a ClientError.
_BROKEN: Final = (
    aiohttp.ClientError,
    http_exceptions.HttpProcessingError,
    ValueError,
    LookupError,
    TypeError,
)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes | AsyncGenerator[bytes, None]


class _FencedConnector(aiohttp.TCPConnector):
    """Checks the fence once a request has its connection: nothing is awaited between that and the first byte."""

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **kwargs)
        try:
            fence.check()
        except errors.NotReady:
            connection.release()
            raise
        return connection


class HttpTransport:
    def __init__(self, connection: Connection) -> None:
        self._server = connection.server
        self._credentials = connection.credentials
        self._secure = connection.server.url.startswith("https:")
        self._tls: tuple[Credential, ssl.SSLContext] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer:
        answer = await self._once(method, path, query, headers, body)
        if answer.status == _UNAUTHORIZED and self._secure:
            # A token may have been renewed or revoked since it was read: try once with a new one.
            self._credentials.refused()
            answer = await self._once(method, path, query, headers, body)
        return answer

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(_CLOSING_S)  # TLS connections end in the loop, after they were told to

    async def _once(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer:
        who = await self._credentials.current() if self._secure else Credential()
        sent = {**headers, **self._identity(who)}
        is_watch = query.get("watch") == "true"
        timeout = aiohttp.ClientTimeout(
            total=float(query.get("timeoutSeconds", "0")) + _ANSWER_S, sock_connect=_CONNECT_S
        )
        url = URL(self._server.url + path, encoded=True).with_query(dict(query))
        try:
            response = await self._open().request(
                method,
                url,
                headers=sent,
                data=body or None,
                timeout=timeout,
                ssl=self._context(who),
                server_hostname=self._server.tls_server_name or None,
                proxy=self._server.proxy_url or None,
                allow_redirects=False,  # a token must not follow one to another place
            )
            answered = {name.lower(): value for name, value in response.headers.items()}
            if is_watch and response.status == _OK:
                return HttpAnswer(response.status, answered, _chunks(response))
            async with response:
                return HttpAnswer(response.status, answered, await _whole(response))
        except _BROKEN as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    def _identity(self, who: Credential) -> dict[str, str]:
        sent = {"authorization": f"Bearer {who.token}"} if who.token else {}
        if self._server.impersonate:
            sent["impersonate-user"] = self._server.impersonate
        return sent

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = _FencedConnector(limit=_CONNECTIONS, socket_factory=_with_keep_alive)
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers={"user-agent": "holdfast", "accept-encoding": "identity"},
                read_bufsize=_CHUNK,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # nothing compressed was asked for, and a small answer could unpack to gigabytes
            )
        return self._session

    def _context(self, who: Credential) -> ssl.SSLContext | bool:
        """The TLS context for these certificates; a new one only when a plugin made new ones."""
        if not self._secure:
            return True
        if self._tls is None or self._tls[0].certificate_pem != who.certificate_pem:
            self._tls = (who, tls_context(self._server, who))
        return self._tls[1]


def tls_context(server: Server, who: Credential) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=server.ca_pem or None)
    except ssl.SSLError as error:
        raise errors.InvalidInput(
            f"the certificate authority of {server.url} cannot be used: {error}"
        ) from error
    # Many a cluster's own authority lacks what Python 3.13 newly insists on, and kubectl does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if server.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if who.certificate_pem:
        try:
            _load(context, f"{who.certificate_pem}\n{who.key_pem}")
        except ssl.SSLError as error:
            raise errors.InvalidInput(
                f"the client certificate for {server.url} cannot be used: {error}"
            ) from error
    return context


def _load(context: ssl.SSLContext, pem: str) -> None:
    """Python's ssl reads certificates from files alone; one in memory needs no folder that can be written to."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("holdfast"), "w", encoding="ascii") as memory:
            memory.write(pem)
            memory.flush()
            context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}")
    else:
        with tempfile.NamedTemporaryFile("w", encoding="ascii", prefix="holdfast-") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except _BROKEN as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    finally:
        response.close()


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for chunk in response.content.iter_any():
        found += chunk
        if len(found) > _BODY_MAX:
            raise ConnectionError(f"an answer of more than {_BODY_MAX:,} bytes")
    return bytes(found)


def _with_keep_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    """A connection that the kernel gives up half a minute after its peer fell silent."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # not every system has them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
