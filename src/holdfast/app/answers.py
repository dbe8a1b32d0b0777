"""What the leader reports about pods, nodes and reservations, for the commands that ask it.

`LeaderAnswers` reads the JSON API of the leader over HTTP: at a URL, or through the API server's service proxy with the
rights of the caller. Responses are not trusted: time and size are bounded, and redirects are not followed.
`app.computed_answers` computes the same from the cluster's objects and the AWS account if no leader answers.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from holdfast import errors
from holdfast.api.reports import (
    ErrorReport,
    Explanation,
    ReservationsReport,
    SearchReport,
    SlotsReport,
    SlotUse,
    StatusReport,
)
from holdfast.kube import cluster_access, paths, statuses
from holdfast.kube.connection import Connection, Server, checked_url, proxy_for
from holdfast.kube.credentials import Fixed
from holdfast.kube.http import HttpLimits, HttpTransport
from holdfast.kube.transport import Answer, Transport
from holdfast.ports import Clock

T = TypeVar("T")

NAMESPACE: Final = "kube-system"
SERVICE: Final = "holdfast"
PORT: Final = "http-api"  # of the Service
NAMESPACED: Final = frozenset({"pod", "job", "jobset", "leaderworkerset", "podgroup", "provisioningrequest"})

_AGAIN_AFTER_S: Final = (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)  # the next replica of the Service may lead
_SLOTS_MAX: Final = 50  # reservations in one request
_TEXT_MAX: Final = 200  # characters of a body that is no document
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_NO_SERVER: Final = frozenset({502, 503, 504})
NO_LEADER: Final = (errors.NotReady, errors.Unreachable, errors.NotServed)  # what a missing leader raises


@dataclass(frozen=True, slots=True)
class Address:
    """Where the JSON API is: at a URL, else behind a Service of the cluster of a kubeconfig."""

    url: str = ""
    origin: str = "--server"  # of the URL, for messages
    kubeconfig: str = ""
    context: str = ""
    namespace: str = NAMESPACE
    service: str = SERVICE


class Answers(Protocol):
    """The reports that commands print. Raises NotFound for an object that does not exist."""

    @property
    def namespace(self) -> str:
        """The namespace of an object if the user gives none."""

    async def status(self) -> StatusReport: ...

    async def reservations(self) -> ReservationsReport: ...

    async def slots(self, reservation_ids: Sequence[str]) -> SlotsReport: ...

    async def search(self, text: str) -> SearchReport: ...

    async def explain(self, kind: str, namespace: str, name: str) -> Explanation:
        """`kind` is pod, node, nodeclaim, nodepool, reservation, job, jobset, leaderworkerset, podgroup or
        provisioningrequest. Those of `NAMESPACED` have a namespace."""


@contextlib.asynccontextmanager
async def opened(
    address: Address, *, environ: Mapping[str, str], clock: Clock, limits: HttpLimits
) -> AsyncIterator[Answers]:
    """The answers of the leader."""
    connection = _connection(address, environ, clock)
    transport = HttpTransport(connection, limits)
    try:
        yield LeaderAnswers(transport, address, clock=clock, namespace=connection.namespace)
    finally:
        await transport.aclose()


def _connection(address: Address, environ: Mapping[str, str], clock: Clock) -> Connection:
    if not address.url:
        return cluster_access.connection(
            file=address.kubeconfig, context=address.context, environ=environ, clock=clock
        )
    url = checked_url(address.url, address.origin)
    return Connection(Server(url=url, proxy_url=proxy_for(url, "", environ, address.origin)), Fixed())


class LeaderAnswers:
    def __init__(
        self, transport: Transport, address: Address, *, clock: Clock, namespace: str = "default"
    ) -> None:
        self.namespace = namespace
        self._transport = transport
        self._clock = clock
        self._address = address
        if address.url:
            self._base, self._where = "", f"{address.origin} {address.url}"
        else:
            self._base = paths.service_proxy(address.namespace, address.service, PORT)
            self._where = f"Service {address.namespace}/{address.service}"

    async def status(self) -> StatusReport:
        return await self._get(StatusReport, "status")

    async def reservations(self) -> ReservationsReport:
        return await self._get(ReservationsReport, "reservations")

    async def slots(self, reservation_ids: Sequence[str]) -> SlotsReport:
        items: dict[str, tuple[SlotUse, ...]] = {}
        at = 0
        for start in range(0, len(reservation_ids), _SLOTS_MAX):
            ids = ",".join(reservation_ids[start : start + _SLOTS_MAX])
            report = await self._get(SlotsReport, "slots", {"reservations": ids})
            items, at = items | report.items, report.at
        return SlotsReport(at=at, items=items)

    async def search(self, text: str) -> SearchReport:
        return await self._get(SearchReport, "search", {"q": text})

    async def explain(self, kind: str, namespace: str, name: str) -> Explanation:
        names = (kind, namespace, name) if kind in NAMESPACED else (kind, name)
        path = "/".join(quote(paths.segment(one), safe="") for one in names)
        return await self._get(Explanation, f"explain/{path}")

    async def _get(self, form: type[T], path: str, query: Mapping[str, str] | None = None) -> T:
        body = await self._body(path, query or {})
        try:
            return msgspec.json.decode(body, type=form)
        except (ValueError, RecursionError) as error:
            raise errors.Unreachable(
                f"the response of {self._where} to {path} cannot be decoded: {error};"
                " is it Holdfast, of the version of this command?"
            ) from error

    async def _body(self, path: str, query: Mapping[str, str]) -> bytes:
        for wait_s in (*_AGAIN_AFTER_S, None):
            answer = await self._request(path, query)
            assert isinstance(answer.body, bytes)
            if answer.status == _OK:
                return answer.body
            error = self._error(answer.status, answer.headers, answer.body)
            if wait_s is None or answer.status not in _NO_SERVER:
                raise error
            await self._clock.sleep(wait_s)
        raise AssertionError

    async def _request(self, path: str, query: Mapping[str, str]) -> Answer:
        headers = {"accept": "application/json"}
        try:
            return await self._transport.request("GET", f"{self._base}/api/v1/{path}", query, headers, b"")
        except TimeoutError as error:
            raise errors.Unreachable(f"{self._where} did not respond in time") from error
        except OSError as error:
            raise errors.Unreachable(
                f"{self._where} cannot be read: {str(error) or type(error).__name__}"
            ) from error

    def _error(self, status: int, headers: Mapping[str, str], body: bytes) -> errors.HoldfastError:
        """Holdfast responds with an ErrorReport, the API server with a Status, another server with anything."""
        try:
            reported = msgspec.json.decode(body, type=ErrorReport).error
        except (ValueError, RecursionError):
            return self._foreign_error(status, headers, body)
        if status == _NOT_FOUND:
            return errors.NotFound(reported)
        message = f"{self._where} responds: {reported}"
        return errors.NotReady(message) if status in _NO_SERVER else errors.Rejected(message)

    def _foreign_error(self, status: int, headers: Mapping[str, str], body: bytes) -> errors.HoldfastError:
        if status in _REDIRECTS:
            target = headers.get("location", "another address")[:_TEXT_MAX]
            return errors.Unreachable(f"{self._where} redirects to {target}; redirects are not followed")
        if status == _NOT_FOUND:
            return errors.NotServed(f"{self._where} {self._how_to_find()}")
        found = statuses.error_of(status, headers, body, self._where)
        return type(found)(f"{found}{self._what_to_do(status)}")

    def _how_to_find(self) -> str:
        if self._address.url:
            return "does not serve the JSON API of Holdfast; is it the address of `holdfast run`?"
        return "does not exist; set --holdfast-namespace and --service to those of Holdfast"

    def _what_to_do(self, status: int) -> str:
        if status == _FORBIDDEN and not self._address.url:
            one = f"{self._address.service}:{PORT} in namespace {self._address.namespace}"
            return f"; your user needs the right `get` on `services/proxy` for {one}"
        if status in _NO_SERVER:
            return f"; is a replica of Holdfast ready, and does its Service have the port {PORT}?"
        return ""
