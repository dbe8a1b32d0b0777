"""The HTTP transport over real sockets: renewed tokens, certificates, proxies, broken connections."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast import errors
from holdfast.api.cluster import Namespace
from holdfast.kube import credentials
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.connection import Connection, Server
from holdfast.kube.credentials import Credential, Credentials, Fixed
from holdfast.kube.http import HttpTransport
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving import certificates, http
from holdfast.sim.api.serving.faults import Faults, Half, Lose
from holdfast.sim.api.serving.front import Request
from holdfast.sim.api.serving.routing import User

Handler = Callable[[web.Request], Awaitable[web.Response]]
NAMESPACE = '{"kind":"Namespace","metadata":{"name":"default","uid":"u","resourceVersion":"1"}}'


@asynccontextmanager
async def client(server: Server, credential: Credentials) -> AsyncIterator[Client]:
    transport = HttpTransport(Connection(server, credential))
    settings = ClientSettings(attempts=1)
    try:
        yield Client(transport=transport, clock=RealClock(), ids=RealIds(), settings=settings)
    finally:
        await transport.aclose()


@asynccontextmanager
async def embedded(tokens: dict[str, User]) -> AsyncIterator[tuple[Server, Faults]]:
    clock = RealClock()
    faults = Faults(ApiServer(clock=clock, ids=RealIds(), tokens=tokens), clock)
    async with http.serving(faults) as address:
        yield Server(address.url, address.authority.decode()), faults


@asynccontextmanager
async def plain(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that answers every request with one handler; yields its host and port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def test_renewed_token_file_is_read_after_the_old_token_is_refused(tmp_path: Path) -> None:
    async def program() -> None:
        path = tmp_path / "token"
        path.write_text("old", encoding="ascii")
        credential = credentials.token_file(path, clock=RealClock())
        async with embedded({"new": User("me")}) as (server, _), client(server, credential) as kube:
            with pytest.raises(errors.Unauthorized):
                await kube.get(Namespace, "default")
            path.write_text("new", encoding="ascii")
            assert (await kube.get(Namespace, "default")).metadata.name == "default"

    asyncio.run(program())


def test_certificate_of_the_server_is_verified() -> None:
    async def program() -> None:
        async with embedded({"t": User("me")}) as (server, _):
            with_another_ca = Server(server.url, certificates.make("127.0.0.1").authority.decode())
            async with client(with_another_ca, Fixed(Credential("t"))) as kube:
                with pytest.raises(errors.Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
                    await kube.get(Namespace, "default")
            async with client(Server(server.url, insecure=True), Fixed(Credential("t"))) as kube:
                assert (await kube.get(Namespace, "default")).metadata.name == "default"
            other_name = Server(server.url, server.ca_pem, tls_server_name="elsewhere.example")
            async with client(other_name, Fixed(Credential("t"))) as kube:
                with pytest.raises(errors.Unreachable, match="elsewhere"):
                    await kube.get(Namespace, "default")

    asyncio.run(program())


def test_broken_connection_raises_unreachable() -> None:
    async def program() -> None:
        async with (
            embedded({"t": User("me")}) as (server, faults),
            client(server, Fixed(Credential("t"))) as kube,
        ):
            for fault in (Lose(), Lose(after_effect=True), Half(40)):
                faults.add(
                    fault, lambda _: True, times=2
                )  # the HTTP library retries once on a reused connection
                with pytest.raises(errors.Unreachable):
                    await kube.get(Namespace, "default")
                faults.clear()
            faults.add(Half(20), is_watch)
            with pytest.raises(errors.Unreachable):
                async for _ in kube.watch(Namespace, "0"):
                    pass
        async with client(server, Fixed(Credential("t"))) as kube:
            with pytest.raises(errors.Unreachable, match="GET /api/v1/namespaces/default"):
                await kube.get(Namespace, "default")

    asyncio.run(program())


def is_watch(request: Request) -> bool:
    return request.query.get("watch") == "true"


def test_token_is_not_sent_without_tls() -> None:
    async def program() -> None:
        received_tokens: list[str | None] = []

        async def handler(request: web.Request) -> web.Response:
            received_tokens.append(request.headers.get("authorization"))
            return web.Response(text=NAMESPACE)

        async with (
            plain(handler) as address,
            client(Server(f"http://{address}"), Fixed(Credential("secret"))) as kube,
        ):
            await kube.get(Namespace, "default")
        assert received_tokens == [None]

    asyncio.run(program())


def test_redirect_is_not_followed() -> None:
    async def program() -> None:
        async def handler(request: web.Request) -> web.Response:
            if request.path == "/stolen":
                return web.Response(text=NAMESPACE)
            raise web.HTTPFound("/stolen")

        async with plain(handler) as address, client(Server(f"http://{address}"), Fixed()) as kube:
            with pytest.raises(errors.Unreachable):
                await kube.get(Namespace, "default")

    asyncio.run(program())


def test_requests_use_the_proxy_and_impersonate_the_user() -> None:
    async def program() -> None:
        received_requests: list[tuple[str, str | None]] = []

        async def proxy(request: web.Request) -> web.Response:
            received_requests.append((request.raw_path, request.headers.get("impersonate-user")))
            return web.Response(text=NAMESPACE)

        async with plain(proxy) as address:
            server = Server("http://api.example:6443", proxy_url=f"http://{address}", impersonate="jane")
            async with client(server, Fixed()) as kube:
                await kube.get(Namespace, "default")
        assert received_requests == [("http://api.example:6443/api/v1/namespaces/default", "jane")]

    asyncio.run(program())


def test_client_certificate_is_sent_to_the_server(tmp_path: Path) -> None:
    async def program() -> None:
        certificate, key = self_signed()
        (tmp_path / "both").write_text(certificate + key, encoding="ascii")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=certificate)
        tls.load_cert_chain(tmp_path / "both")
        tls.verify_mode = ssl.CERT_REQUIRED

        async def handler(request: web.Request) -> web.Response:
            assert request.transport is not None
            return web.Response(text=NAMESPACE if request.transport.get_extra_info("peercert") else "nobody")

        async with plain(handler, tls) as address:
            server = Server(f"https://{address}", certificate)
            with_certificate = Credential("", certificate, key)
            async with client(server, Fixed(with_certificate)) as kube:
                assert (await kube.get(Namespace, "default")).metadata.name == "default"
            async with client(server, Fixed()) as kube:
                with pytest.raises(errors.Unreachable):
                    await kube.get(Namespace, "default")

    asyncio.run(program())


def self_signed() -> tuple[str, str]:
    """A certificate for 127.0.0.1 that is valid for server and client, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.fromtimestamp(RealClock().now_s(), UTC)
    made = (
        x509.CertificateBuilder(
            name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1)
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(pem, private, serialization.NoEncryption())
    return made.public_bytes(pem).decode(), secret.decode()


def test_invalid_certificates_raise_invalid_input() -> None:
    broken = "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"

    async def program(server: Server, credential: Credential) -> None:
        async with client(server, Fixed(credential)) as kube:
            await kube.get(Namespace, "default")

    with pytest.raises(errors.InvalidInput, match="certificate authority"):
        asyncio.run(program(Server("https://127.0.0.1:1", broken), Credential()))
    with pytest.raises(errors.InvalidInput, match="client certificate"):
        asyncio.run(program(Server("https://127.0.0.1:1"), Credential("", broken, broken)))
