"""How the client handles unhealthy servers: throttling, broken connections, incomplete bodies, nulls."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import objects
from holdfast import errors
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.storage import PersistentVolumeClaim
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.connection import Connection, Server
from holdfast.kube.credentials import Fixed
from holdfast.kube.http import HttpTransport
from holdfast.ports import Change
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim import time
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock
from scripted import START, Response, Script, client, failure, respond, stream

NODE: dict[str, Any] = {"kind": "Node", "metadata": {"name": "n", "resourceVersion": "7", "uid": "u"}}
ONE = b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"a","uid":"a","resourceVersion":"8"}}}\n'
TWO = (
    b'{"type":"MODIFIED","object":{"kind":"Node","metadata":{"name":"b","uid":"b","resourceVersion":"9"}}}\n'
)


def seconds_until_read(*answers: Response | Exception, **settings: Any) -> float:
    async def program() -> float:
        await client(Script(*answers), **settings).get(Node, "n")
        return asyncio.get_running_loop().time()

    return time.run(program())


def test_a_read_is_retried() -> None:
    broken = ConnectionResetError("reset")
    duration_s = seconds_until_read(
        broken, failure(503, "ServiceUnavailable"), TimeoutError(), respond(200, NODE)
    )
    assert 0.125 + 0.25 + 0.5 <= duration_s <= 0.25 + 0.5 + 1


def test_retry_after_of_the_server_is_respected() -> None:
    assert seconds_until_read(failure(429, "TooManyRequests", retry_after="7"), respond(200, NODE)) >= 7


def test_a_too_long_retry_after_is_an_error() -> None:
    with pytest.raises(errors.Throttled) as caught:
        seconds_until_read(failure(429, "TooManyRequests", retry_after="3600"))
    assert caught.value.retry_after_s == errors.RETRY_AFTER_MAX_S


def test_a_read_fails_after_the_configured_attempts() -> None:
    script = Script(*[ConnectionResetError("reset")] * 9)

    async def program() -> None:
        await client(script, attempts=3).get(Node, "n")

    with pytest.raises(errors.Unreachable, match="GET /api/v1/nodes/n: reset"):
        time.run(program())
    assert len(script.asked) == 3


def test_a_write_that_may_have_taken_effect_is_not_repeated() -> None:
    for broken in (ConnectionResetError("reset"), failure(500, "InternalError"), failure(504, "Timeout")):
        script = Script(broken, respond(200, NODE))

        async def program(script: Script = script) -> None:
            await client(script).patch(objects.node("n"), {"metadata": {"labels": {"a": "b"}}})

        with pytest.raises(errors.Unreachable):
            time.run(program())


def test_a_throttled_write_is_retried() -> None:
    async def program() -> Node:
        script = Script(failure(429, "TooManyRequests", retry_after="1"), respond(200, NODE))
        return await client(script).patch(objects.node("n"), {"metadata": {"labels": {"a": "b"}}})

    assert time.run(program()).metadata.resource_version == "7"


def test_a_patch_of_a_list_needs_a_resource_version() -> None:
    async def program() -> None:
        await client(Script()).patch(objects.node("n"), {"spec": {"taints": []}})

    with pytest.raises(AssertionError, match="lists are replaced whole"):
        time.run(program())


def test_requests_beyond_the_burst_are_delayed() -> None:
    async def program() -> float:
        kube = client(Script(*[respond(200, NODE)] * 25), per_second=10, burst=5)
        await asyncio.gather(*(kube.get(Node, "n") for _ in range(25)))
        return asyncio.get_running_loop().time()

    assert time.run(program()) == pytest.approx(2.0)


def test_concurrent_requests_are_limited() -> None:
    waiting, most = 0, 0

    class Slow(Script):
        async def request(
            self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
        ) -> Response:
            nonlocal waiting, most
            waiting += 1
            most = max(most, waiting)
            await asyncio.sleep(1)
            waiting -= 1
            return await super().request(method, path, query, headers, body)

    async def program() -> None:
        kube = client(Slow(*[respond(200, NODE)] * 10), at_once=3)
        await asyncio.gather(*(kube.get(Node, "n") for _ in range(10)))

    time.run(program())
    assert most == 3


def test_invalid_object_name_is_not_sent_to_the_server() -> None:
    script = Script()

    async def program(name: str) -> None:
        await client(script).get(Node, name)

    for name in ("", "..", "a/b", "a?b", "a%2fb", "a\nb"):
        with pytest.raises(errors.InvalidInput):
            time.run(program(name))
    assert not script.asked


def test_null_fields_in_a_list_are_unset() -> None:
    meta = {"name": "c", "namespace": "d", "uid": "u", "resourceVersion": "4", "labels": None}
    claim = {"metadata": meta, "spec": None, "status": None}
    page = {"metadata": {"resourceVersion": "5"}, "items": [claim]}

    async def program(answer: Response) -> Any:
        return await client(Script(answer)).list(PersistentVolumeClaim)

    assert time.run(program(respond(200, page))).items[0].metadata.labels == {}
    assert time.run(program(respond(200, {"metadata": {"resourceVersion": "5"}, "items": None}))).items == ()


def test_undecodable_object_in_a_list_is_an_error_with_its_name() -> None:
    page = {
        "metadata": {"resourceVersion": "5"},
        "items": [{"metadata": {"name": "odd"}, "spec": {"priority": "x"}}],
    }

    async def program() -> None:
        await client(Script(respond(200, page))).list(Pod)

    with pytest.raises(errors.Unreachable, match=r"Pod 'odd' cannot be read: .*priority"):
        time.run(program())


def test_an_incomplete_response_is_unreachable() -> None:
    async def program(body: bytes) -> None:
        await client(Script(respond(200, body))).get(Node, "n")

    for body in (b'{"kind":"Node","metad', b"", b"200 OK"):
        with pytest.raises(errors.Unreachable, match="malformed response"):
            time.run(program(body))


def watched(*chunks: bytes | Exception) -> list[Change[Any] | errors.HoldfastError]:
    """The changes of a watch, and the error that ended it, if any."""

    async def program() -> list[Change[Any] | errors.HoldfastError]:
        found: list[Change[Any] | errors.HoldfastError] = []
        try:
            async for change in client(Script(stream(*chunks))).watch(Node, "1"):
                found.append(change)  # noqa: PERF401 - changes before an error must be returned
        except errors.HoldfastError as error:
            found.append(error)
        return found

    return time.run(program())


def test_events_are_decoded_across_chunks() -> None:
    whole = watched(ONE + TWO)
    assert [change.object.metadata.name for change in whole if isinstance(change, Change)] == ["a", "b"]
    text = ONE + TWO
    for cut in range(1, len(text)):
        assert watched(text[:cut], text[cut:]) == whole
    assert watched(*(text[i : i + 1] for i in range(len(text)))) == whole


def test_interrupted_watch_yields_complete_events_and_then_raises_unreachable() -> None:
    first, error = watched(ONE, TWO[:30])
    assert isinstance(first, Change)
    assert isinstance(error, errors.Unreachable)
    first, error = watched(ONE, ConnectionResetError("reset"))
    assert isinstance(first, Change)
    assert isinstance(error, errors.Unreachable)


def test_error_event_maps_to_its_error() -> None:
    expired = (
        b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
    )
    (error,) = watched(expired)
    assert isinstance(error, errors.ResourceExpired)
    broken = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}\n'
    (error,) = watched(broken)
    assert isinstance(error, errors.Unreachable)


def test_only_the_version_of_a_bookmark_is_read() -> None:
    bookmark = b'{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"77","creationTimestamp":null},"spec":{"taints":null}}}\n'
    (change,) = watched(bookmark)
    assert isinstance(change, Change)
    assert change.kind == "BOOKMARK"
    assert change.object.metadata.resource_version == "77"


def test_statuses_map_to_errors() -> None:
    async def program(answer: Response) -> None:
        await client(Script(answer), attempts=1).get(Node, "n")

    for answer, expected in (
        (failure(400, "BadRequest"), errors.Rejected),
        (failure(401, "Unauthorized"), errors.Unauthorized),
        (failure(403, "Forbidden"), errors.Unauthorized),
        (failure(404, "NotFound"), errors.NotFound),
        (failure(405, "MethodNotAllowed"), errors.Rejected),
        (failure(409, "AlreadyExists"), errors.AlreadyExists),
        (failure(409, "Conflict"), errors.Conflict),
        (failure(410, "Expired"), errors.ResourceExpired),
        (failure(413, "RequestEntityTooLarge"), errors.Rejected),
        (failure(422, "Invalid"), errors.Rejected),
        (failure(429, "TooManyRequests"), errors.Throttled),
        (failure(500, "InternalError"), errors.Unreachable),
        (failure(503, "ServiceUnavailable"), errors.Unreachable),
        (failure(504, "Timeout"), errors.Unreachable),
        (respond(502, b"<html>bad gateway</html>"), errors.Unreachable),
        (respond(403, b"no entry"), errors.Unauthorized),
        (respond(404, b"404 page not found"), errors.NotServed),  # maybe from a proxy: the object may exist
        (respond(404, NODE), errors.NotServed),
        (respond(302, NODE), errors.Unreachable),
    ):
        with pytest.raises(expected) as caught:
            time.run(program(answer))
        assert type(caught.value) is expected
        assert "GET /api/v1/nodes/n" in str(caught.value)


def test_write_is_not_sent_if_the_lease_expires_during_rate_limiting() -> None:
    async def program() -> None:
        clock = VirtualClock(START)
        script = Script(*[respond(200, NODE)] * 3)
        kube = Client(
            transport=script,
            clock=clock,
            ids=SeededIds(1),
            settings=ClientSettings(per_second=0.1, burst=1),
            may_write=lambda: clock.monotonic_s() < began_s + 5,
        )
        began_s = clock.monotonic_s()
        node = await kube.get(Node, "n")  # uses the only token; the next is available after ten seconds
        with pytest.raises(errors.NotReady):
            await kube.patch(node, {"metadata": {"labels": {"a": "b"}}})
        assert [method for method, *_ in script.asked] == ["GET"]

    time.run(program())


def test_write_is_not_sent_if_the_lease_expires_while_connecting() -> None:
    """Over a real socket, to a server that would answer."""
    received: list[bytes] = []
    holds_lease = True

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(100))
        writer.close()

    async def program() -> None:
        nonlocal holds_lease
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        clock, resolver = RealClock(), asyncio.get_running_loop().getaddrinfo

        async def slow_resolver(*args: Any, **kwargs: Any) -> Any:
            nonlocal holds_lease
            holds_lease = False  # the Lease expires while the name is resolved
            return await resolver(*args, **kwargs)

        asyncio.get_running_loop().getaddrinfo = slow_resolver  # type: ignore[method-assign]
        transport = HttpTransport(Connection(Server(f"http://localhost:{port}"), Fixed()))
        settings = ClientSettings(attempts=1)
        kube = Client(
            transport=transport, clock=clock, ids=RealIds(), settings=settings, may_write=lambda: holds_lease
        )
        try:
            with pytest.raises(errors.NotReady):
                await kube.patch(objects.node("n"), {"metadata": {"labels": {"a": "b"}}})
            with pytest.raises(errors.Unreachable):
                await kube.get(Node, "n")  # reads need no Lease
        finally:
            await transport.aclose()
            server.close()

    asyncio.run(program())
    assert {line.split()[0] for line in received if line} == {b"GET"}
    assert not holds_lease


def test_retry_after_is_capped_at_five_minutes() -> None:
    for headers in ({"retry_after": "99999999"}, {"retry_after": "9" * 5000}):
        with pytest.raises(errors.Throttled) as caught:
            seconds_until_read(failure(429, "TooManyRequests", **headers))
        assert caught.value.retry_after_s == errors.RETRY_AFTER_MAX_S
    details = {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 10**30}}
    with pytest.raises(errors.Throttled) as caught:
        seconds_until_read(respond(429, details))
    assert caught.value.retry_after_s == errors.RETRY_AFTER_MAX_S


def test_a_response_with_another_object_is_unreachable() -> None:
    other = {**NODE, "metadata": {**NODE["metadata"], "name": "other"}}
    status = {"kind": "Status", "status": "Success"}
    bodies: list[Any] = [other, status, {}, [], None, 5, {**NODE, "metadata": {"name": "n", "uid": "u"}}]
    for body in bodies:

        async def program(body: Any = body) -> None:
            await client(Script(respond(200, body))).get(Node, "n")

        with pytest.raises(errors.Unreachable, match="malformed response"):
            time.run(program())


def test_a_list_without_a_last_page_fails() -> None:
    page = respond(200, {"metadata": {"resourceVersion": "5", "continue": "again"}, "items": []})
    script = Script(*[page] * 9)

    async def program() -> None:
        await client(script).list(Node)

    with pytest.raises(errors.Unreachable, match="no last page"):
        time.run(program())
    assert len(script.asked) == 2
