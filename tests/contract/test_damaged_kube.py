"""Whatever an API server answers, the Kube port and its caches raise only errors of `holdfast.errors`.

Every call of every kind gets an intact answer with every field, then the same answer with one damage. A list or a watch
with one damaged object still delivers the other one.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

import damage
from filled import filled
from holdfast import errors
from holdfast.api import kinds
from holdfast.api.meta import Object
from holdfast.api.pods import Binding, Pod
from holdfast.kube.client import Client
from holdfast.runtime.cache import Cache
from holdfast.sim import time
from holdfast.sim.time import VirtualClock
from scripted import START, Response, Script, client

KINDS = sorted(set(kinds.BY_NAME.values()), key=lambda kind: kind.kind)
PLAIN_KINDS = [kind for kind in KINDS if kind.kind not in ("Binding", "Eviction")]


def page(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "List", "metadata": {"resourceVersion": "9", "continue": ""}, "items": list(objects)}


def event(obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": "MODIFIED", "object": obj}


Call = Callable[[Client, type[Object], Object], Awaitable[object]]


async def get(kube: Client, kind: type[Object], _: Object) -> None:
    read = await kube.get(kind, "a", "default" if kind.namespaced else "")
    assert read.metadata.resource_version.isdecimal()
    assert read.metadata.uid


async def listed(kube: Client, kind: type[Object], _: Object) -> None:
    for item in (await kube.list(kind)).items:
        assert item.metadata.resource_version.isdecimal()


async def cached(kube: Client, kind: type[Object], _: Object) -> None:
    cache: Cache[Any] = Cache(kind, clock=VirtualClock(START))
    await cache.replace(kube.pages(kind))


async def watched(kube: Client, kind: type[Object], _: Object) -> None:
    cache: Cache[Any] = Cache(kind, clock=VirtualClock(START))
    async for change in kube.watch(kind, "1"):
        cache.apply(change)


async def create(kube: Client, _: type[Object], obj: Object) -> None:
    assert (await kube.create(obj)).metadata.name == obj.metadata.name


async def patch(kube: Client, _: type[Object], obj: Object) -> None:
    await kube.patch(obj, {"metadata": {"labels": {"a": "b"}}})


async def apply(kube: Client, _: type[Object], obj: Object) -> None:
    await kube.apply(obj)


async def delete(kube: Client, _: type[Object], obj: Object) -> None:
    await kube.delete(obj)


async def version(kube: Client, _: type[Object], __: Object) -> None:
    await kube.version()


async def evict(kube: Client, _: type[Object], __: Object) -> None:
    await kube.evict("default", "a", "uid-a")


CALLS: dict[str, tuple[Call, Callable[[dict[str, Any]], Any]]] = {
    "get": (get, lambda obj: obj),
    "list": (listed, page),
    "pages": (cached, page),
    "watch": (watched, event),
    "create": (create, lambda obj: obj),
    "patch": (patch, lambda obj: obj),
    "apply": (apply, lambda obj: obj),
    "delete": (delete, lambda obj: obj),
}


async def call_with_answer(call: Call, kind: type[Object], answer: Response, obj: Object) -> None:
    with damage.OnlyOurErrors(f"{call.__name__} of {kind.kind}", answer.status, answer.body):
        # After a refused delete the client reads the object again.
        await call(client(Script(*[answer] * 3), attempts=1), kind, obj)


def make_answer(status: int, body: bytes, *, stream: bool) -> Response:
    return Response(status, chunks(body) if stream else body)


async def chunks(body: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), 1000):
        yield body[start : start + 1000]


@pytest.mark.parametrize("name", CALLS)
def test_damaged_answers_raise_only_errors_of_holdfast(name: str) -> None:
    call, wrap = CALLS[name]

    async def program() -> None:
        for kind in PLAIN_KINDS:
            plain = filled(kind)
            obj = msgspec.convert(plain, kind)
            body = json.dumps(wrap(plain)).encode() + b"\n"
            await call(client(Script(make_answer(200, body, stream=name == "watch"))), kind, obj)
            seed = f"{kind.kind} {name}"
            for make in damage.some(damage.bodies(body), seed, 3 * damage.DAMAGES):
                await call_with_answer(call, kind, make_answer(200, make(), stream=name == "watch"), obj)
            for status in damage.STATUSES:
                for text in (body, *damage.some(damage.FOREIGN, f"{seed} {status}", 3)):
                    await call_with_answer(call, kind, Response(status, text), obj)
                    await call_with_answer(
                        call, kind, make_answer(200, text + b"\n", stream=name == "watch"), obj
                    )

    time.run(program())


@pytest.mark.parametrize(
    ("call", "body"), [(version, {"major": "1", "minor": "36+"}), (evict, {"kind": "Status"})]
)
def test_damaged_answers_without_an_object_raise_only_errors_of_holdfast(call: Call, body: Any) -> None:
    async def program() -> None:
        text = json.dumps(body).encode()
        obj = msgspec.convert(filled(Pod), Pod)
        for status in damage.STATUSES:
            for changed in (text, *damage.FOREIGN, *(make() for make in damage.bodies(text))):
                await call_with_answer(call, Pod, Response(status, changed), obj)

    time.run(program())


def test_damaged_answers_to_a_binding_raise_only_errors_of_holdfast() -> None:
    async def program() -> None:
        binding = msgspec.convert(filled(Binding), Binding)
        text = json.dumps({"kind": "Status", "status": "Success", "code": 201}).encode()
        assert await client(Script(Response(201, text))).create(binding) is binding
        for changed in (*damage.FOREIGN, *(make() for make in damage.bodies(text))):
            await call_with_answer(create, Binding, Response(201, changed), binding)
        refused = Response(201, b'{"kind":"Status","status":"Failure","message":"no"}')
        with pytest.raises(errors.Unreachable, match="no"):
            await client(Script(refused)).create(binding)

    time.run(program())


@pytest.mark.parametrize("kind", PLAIN_KINDS, ids=lambda kind: kind.kind)
def test_unreadable_object_does_not_affect_the_other_object(kind: type[Object]) -> None:
    """The other object arrives both in a list and in a watch."""

    async def program() -> None:
        for make in damage.some(damage.bodies(json.dumps(filled(kind, "bad")).encode()), kind.kind):
            try:
                bad = json.loads(make())
            except ValueError:
                continue  # not JSON: the whole answer is damaged, not one object
            await assert_other_arrives(kind, bad)

    time.run(program())


async def assert_other_arrives(kind: type[Object], bad: Any) -> None:
    namespace = "" if not kind.namespaced else "1"
    cache: Cache[Any] = Cache(kind, clock=VirtualClock(START))
    body = json.dumps(page(bad, filled(kind, "good"))).encode()
    await cache.replace(client(Script(Response(200, body))).pages(kind))
    assert cache.get((namespace, "good")) is not None, bad
    read_whole = any(obj.metadata.name != "good" for obj in cache)
    assert read_whole or cache.unreadable, bad
    later = filled(kind, "later")
    later["metadata"]["resourceVersion"] = "12"
    lines = b"".join(json.dumps(event(one)).encode() + b"\n" for one in (bad, later))
    async for change in client(Script(make_answer(200, lines, stream=True))).watch(kind, "9"):
        cache.apply(change)
    assert cache.get((namespace, "later")) is not None, bad
