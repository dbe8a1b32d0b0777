"""Random requests to the simulated API server: a watcher's cache equals the store, and no update is lost."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from api_fronts import JSON_PATCH, MERGE, NODES, Line, line, node, pod
from holdfast.sim.api.schema import fieldsets, json_patches, reading, shapes

NAMES = ("a", "b", "c")
TEAMS = ("red", "blue")
STEPS = 20  # of the event loop, enough for every available chunk to arrive
SELECTORS = ("", "&labelSelector=team=red", "&fieldSelector=metadata.name=a")

names = st.sampled_from(NAMES)
writes = st.one_of(
    st.tuples(st.just("create"), names, st.sampled_from(TEAMS)),
    st.tuples(st.just("label"), names, st.sampled_from(TEAMS)),
    st.tuples(st.just("hold"), names, st.booleans()),
    st.tuples(st.just("delete"), names, st.none()),
)
watches = st.one_of(
    st.tuples(st.just("watch"), st.sampled_from(("list", "initial")), st.sampled_from(SELECTORS)),
    st.tuples(st.just("read"), st.integers(0, 3), st.none()),
)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


@dataclass
class Watcher:
    """A client that lists, then watches, and applies the events to a cache."""

    chunks: "WatchChunks"
    query: str
    cache: dict[str, str] = field(default_factory=dict)  # name -> version
    last_version: int = 0
    buffer: bytes = b""

    async def read(self) -> None:
        """Applies all events that are available now."""
        while (chunk := await self.chunks.ready()) is not None:
            self.buffer += chunk
        *lines, self.buffer = self.buffer.split(b"\n")
        for text in lines:
            event = json.loads(text)
            meta = event["object"]["metadata"]
            version = int(meta["resourceVersion"])
            assert version > self.last_version or event["type"] == "ADDED", "events must be in order"
            self.last_version = max(self.last_version, version)
            if event["type"] == "DELETED":
                assert meta["name"] in self.cache, "only a known object may be deleted"
                del self.cache[meta["name"]]
            elif event["type"] != "BOOKMARK":
                assert (event["type"] == "ADDED") == (meta["name"] not in self.cache)
                self.cache[meta["name"]] = meta["resourceVersion"]


class WatchChunks:
    """The available chunks of a watch. It counts steps of the event loop, not time, so a slow computer changes nothing."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks
        self._next: asyncio.Future[bytes] | None = None

    async def ready(self) -> bytes | None:
        """The next chunk, or None if the server has sent no more."""
        self._next = self._next or asyncio.ensure_future(anext(self._chunks))
        for _ in range(STEPS):
            if self._next.done():
                chunk, self._next = self._next.result(), None
                return chunk
            await asyncio.sleep(0)
        return None

    async def close(self) -> None:
        if self._next:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._chunks.aclose()


async def write(to: Line, kind: str, name: str, what: Any) -> None:
    match kind:
        case "create":
            await to.ask("POST", NODES, node(name, labels={"team": what}))
        case "label":
            await to.ask("PATCH", f"{NODES}/{name}", {"metadata": {"labels": {"team": what}}}, type_=MERGE)
        case "hold":
            finalizers = ["x.dev/hold"] if what else None
            await to.ask("PATCH", f"{NODES}/{name}", {"metadata": {"finalizers": finalizers}}, type_=MERGE)
        case "delete":
            await to.ask("DELETE", f"{NODES}/{name}")


async def watcher(to: Line, how: str, selector: str) -> Watcher:
    if how == "initial":
        answer = await to.send_watch(f"{NODES}?watch=true{selector}")
        return Watcher(WatchChunks(answer), selector)
    found = await to.get(f"{NODES}?limit=500{selector}")
    version = found["metadata"]["resourceVersion"]
    chunks = await to.send_watch(f"{NODES}?watch=true&resourceVersion={version}{selector}")
    cache = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in found["items"]}
    return Watcher(WatchChunks(chunks), selector, cache, last_version=int(version))


@settings(max_examples=60)
@given(st.lists(st.one_of(writes, watches), max_size=40))
def test_cache_of_a_watcher_equals_the_store(steps: list[tuple[str, Any, Any]]) -> None:
    async def test() -> None:
        async with line() as to:
            watchers: list[Watcher] = []
            for kind, first, second in steps:
                if kind == "watch":
                    watchers.append(await watcher(to, first, second))
                elif kind == "read":
                    if watchers:
                        await watchers[first % len(watchers)].read()
                else:
                    await write(to, kind, first, second)
            for one in watchers:
                await one.read()
                found = await to.get(f"{NODES}?limit=500{one.query}")
                stored = {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in found["items"]}
                assert one.cache == stored
                await one.chunks.close()

    run(test())


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(("put", "merge", "json"))), max_size=40))
def test_writers_with_stale_versions_never_lose_an_update(turns: list[tuple[int, str]]) -> None:
    """Each writer reads, and at its next turn writes the count plus one; the server must refuse a stale version."""

    async def test() -> None:
        async with line() as to:
            await to.create(NODES, node(annotations={"count": "0"}))
            read: dict[int, dict[str, Any]] = {}
            counted = 0
            for writer, how in turns:
                if writer not in read:
                    read[writer] = await to.get(f"{NODES}/n1")
                    continue
                counted += await add_one(to, read.pop(writer), how)
            final = await to.get(f"{NODES}/n1")
            assert int(final["metadata"]["annotations"]["count"]) == counted

    run(test())


async def add_one(to: Line, read_object: dict[str, Any], how: str) -> int:
    meta = read_object["metadata"]
    count = str(int(meta["annotations"]["count"]) + 1)
    if how == "put":
        body: Any = {**read_object, "metadata": {**meta, "annotations": {"count": count}}}
        answer = await to.ask("PUT", f"{NODES}/n1", body)
    elif how == "merge":
        body = {"metadata": {"resourceVersion": meta["resourceVersion"], "annotations": {"count": count}}}
        answer = await to.ask("PATCH", f"{NODES}/n1", body, type_=MERGE)
    else:
        body = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
            {"op": "replace", "path": "/metadata/annotations/count", "value": count},
        ]
        answer = await to.ask("PATCH", f"{NODES}/n1", body, type_=JSON_PATCH)
    assert answer.status in (200, 409, 422)
    return answer.status == 200


steps_of_paths = st.sampled_from(("f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "f:c.d/e"))


@given(st.frozensets(st.lists(steps_of_paths, min_size=1, max_size=4).map(tuple)))
def test_field_set_round_trips(paths: frozenset[tuple[str, ...]]) -> None:
    assert fieldsets.from_fields(fieldsets.to_fields(paths)) == paths


values = st.recursive(
    st.integers(0, 3) | st.sampled_from(("x", "y")),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(objects, objects)
def test_compare_finds_differences_only_between_different_objects(old: Any, new: Any) -> None:
    found = fieldsets.compare(old, new, shapes.ANYTHING)
    assert (not found.changed and not found.removed) == (old == new)
    back = fieldsets.compare(new, old, shapes.ANYTHING)
    assert {path for path in found.removed if path not in back.changed} == set()


PATHS = (
    ("metadata", "labels", "team"),
    ("metadata", "annotations"),
    ("metadata", "unknown"),
    ("spec", "nodeName"),
    ("spec", "containers"),
    ("spec", "terminationGracePeriodSeconds"),
    ("spec", "nodeSelector", "zone"),
    ("status", "conditions"),
    ("status", "phase"),
)
PATCH_VALUES = st.sampled_from((None, "x", 7, {}, {"a": "b"}, [], [{"name": "main", "image": None}]))


def merge_patch(changes: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for path, value in changes.items():
        parent = patch
        for step in path[:-1]:
            parent = parent.setdefault(step, {})
        parent[path[-1]] = value
    return patch


def read(value: Any, shape: shapes.Shape, stored: Any = None) -> tuple[Any, list[str]]:
    unknown: list[str] = []
    try:
        return reading.built_in(value, shape, unknown, stored), unknown
    except reading.WrongType as error:
        return str(error), unknown


@given(st.dictionaries(st.sampled_from(PATHS), PATCH_VALUES, max_size=4))
def test_patch_is_read_like_a_whole_object(changes: dict[tuple[str, ...], Any]) -> None:
    shape = shapes.named("io.k8s.api.core.v1.Pod")
    stored, _ = read({**pod("p"), "metadata": {"name": "p", "labels": {"team": "red"}}}, shape)
    stored["status"] = {"conditions": [{"type": "PodScheduled", "lastProbeTime": None}]}
    patched = json_patches.merge(stored, merge_patch(changes))
    known = {**stored, "status": None}  # the server itself writes null there, so the status is always read
    assert read(patched, shape, known) == read(patched, shape)
