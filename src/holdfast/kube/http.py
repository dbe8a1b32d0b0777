"""The HTTP transport.

Responses are not compressed: decompressing a page of pods would block the event loop as long as decoding it. TCP
keep-alive detects a peer that disappeared, because a watch may have no data for minutes.
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

_CONNECTIONS: Final = 256  # each watch uses one
_CONNECT_S: Final = 10
_CLOSING_S: Final = 0.1
_CHUNK: Final = 256 * 1024
_OK: Final = 200
_UNAUTHORIZED: Final = 401
# aiohttp's exceptions for malformed or incomplete responses: not all are ClientErrors.
_BROKEN: Final = (
    aiohttp.ClientError,
    http_exceptions.HttpProcessingError,
    ValueError,
    LookupError,
    TypeError,
)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How long one response may take, and how large it may be."""

    answer_s: float = 60
    body_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes | AsyncGenerator[bytes, None]


class _FencedConnector(aiohttp.TCPConnector):
    """Checks the fence when a request has its connection: nothing is awaited between the check and the first byte."""

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        connection = await super().connect(*args, **kwargs)
        try:
            fence.check()
        except errors.NotReady:
            connection.release()
            raise
        return connection


class HttpTransport:
    def __init__(self, connection: Connection, limits: HttpLimits = HttpLimits()) -> None:  # noqa: B008 - frozen
        self._server = connection.server
        self._limits = limits
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
            await asyncio.sleep(_CLOSING_S)  # aiohttp closes TLS connections in the background

    async def _once(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer:
        credential = await self._credentials.current() if self._secure else Credential()
        sent = {**headers, **self._identity(credential)}
        is_watch = query.get("watch") == "true"
        timeout = aiohttp.ClientTimeout(
            total=float(query.get("timeoutSeconds", "0")) + self._limits.answer_s, sock_connect=_CONNECT_S
        )
        url = URL(self._server.url + path, encoded=True).with_query(dict(query))
        try:
            response = await self._open().request(
                method,
                url,
                headers=sent,
                data=body or None,
                timeout=timeout,
                ssl=self._context(credential),
                server_hostname=self._server.tls_server_name or None,
                proxy=self._server.proxy_url or None,
                allow_redirects=False,  # a redirect would send the token to another server
            )
            answered = {name.lower(): value for name, value in response.headers.items()}
            if is_watch and response.status == _OK:
                return HttpAnswer(response.status, answered, _chunks(response))
            async with response:
                return HttpAnswer(response.status, answered, await _whole(response, self._limits.body_bytes))
        except _BROKEN as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    def _identity(self, credential: Credential) -> dict[str, str]:
        sent = {"authorization": f"Bearer {credential.token}"} if credential.token else {}
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
                auto_decompress=False,  # not requested, and a small response could decompress to gigabytes
            )
        return self._session

    def _context(self, credential: Credential) -> ssl.SSLContext | bool:
        """The TLS context for the client certificate; a new one only for a new certificate."""
        if not self._secure:
            return True
        if self._tls is None or self._tls[0].certificate_pem != credential.certificate_pem:
            self._tls = (credential, tls_context(self._server, credential))
        return self._tls[1]


def tls_context(server: Server, credential: Credential) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=server.ca_pem or None)
    except ssl.SSLError as error:
        raise errors.InvalidInput(
            f"the certificate authority of {server.url} cannot be used: {error}"
        ) from error
    # The CAs of many clusters fail the strict checks that Python 3.13 added; kubectl does not make them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if server.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential.certificate_pem:
        try:
            _load(context, f"{credential.certificate_pem}\n{credential.key_pem}")
        except ssl.SSLError as error:
            raise errors.InvalidInput(
                f"the client certificate for {server.url} cannot be used: {error}"
            ) from error
    return context


def _load(context: ssl.SSLContext, pem: str) -> None:
    """Python's ssl reads certificates only from files; a memory file works on a read-only filesystem."""
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


async def _whole(response: aiohttp.ClientResponse, most: int) -> bytes:
    found = bytearray()
    async for chunk in response.content.iter_any():
        found += chunk
        if len(found) > most:
            raise ConnectionError(f"a response of more than {most:,} bytes")
    return bytes(found)


def _with_keep_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that the kernel closes half a minute after the peer stops responding."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # not all systems have these options
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
