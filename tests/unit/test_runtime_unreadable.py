"""Objects that a cache cannot decode: each version is reported once, until the object is readable again or deleted."""

import json
from typing import Any

import structlog.testing

import objects
from filled import filled
from holdfast.api.meta import Object
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.runtime import unreadable
from holdfast.runtime.cache import Cache, Caches
from holdfast.sim import time
from holdfast.sim.time import VirtualClock
from manual_ports import CollectingRecorder
from scripted import START, Response, Script, client, stream

GAUGE = "holdfast_unreadable_objects", (("resource", "pods"),)


def pod(name: str, version: int, **spec: Any) -> dict[str, Any]:
    found = filled(Pod, name)
    found["metadata"] |= {"namespace": "default", "resourceVersion": str(version)}
    found["spec"] |= {"nodeName": "n1"} | spec
    return found


def bad(name: str, version: int, **spec: Any) -> dict[str, Any]:
    return pod(name, version, **spec) | {"status": [5]}


class WatchedCache:
    """A cache filled with scripted responses of the API server."""

    def __init__(self, kind: type[Object] = Pod) -> None:
        self.records = CollectingRecorder()
        self.caches = Caches((kind,), clock=VirtualClock(START))
        self.kind = kind
        self.cache: Cache[Any] = self.caches.of(kind)
        unreadable.report(self.caches, self.records)

    async def list_objects(self, version: int, *items: dict[str, Any]) -> None:
        body = {"metadata": {"resourceVersion": str(version)}, "items": list(items)}
        script = Script(Response(200, json.dumps(body).encode()))
        await self.cache.replace(client(script).pages(self.kind))

    async def watch_events(self, *events: tuple[str, dict[str, Any]]) -> None:
        lines = [json.dumps({"type": kind, "object": obj}).encode() + b"\n" for kind, obj in events]
        async for change in client(Script(stream(*lines))).watch(self.kind, "1"):
            self.cache.apply(change)

    @property
    def names(self) -> list[str]:
        return sorted(name for _, name in self.cache.unreadable)


def test_the_cache_keeps_the_last_readable_version() -> None:
    async def program() -> None:
        watched = WatchedCache()
        await watched.list_objects(9, pod("a", 5), pod("b", 6))
        await watched.watch_events(("MODIFIED", bad("a", 10)), ("MODIFIED", pod("b", 11)))
        assert watched.names == ["a"]
        assert {obj.metadata.name: obj.metadata.resource_version for obj in watched.cache} == {
            "a": "5",
            "b": "11",
        }
        await watched.watch_events(("MODIFIED", pod("a", 12)))
        assert watched.names == []
        assert [obj.metadata.resource_version for obj in watched.cache] == ["12", "11"]
        assert watched.records.gauges[GAUGE] == 0

    time.run(program())


def test_a_deleted_unreadable_object_is_removed() -> None:
    async def program() -> None:
        watched = WatchedCache()
        await watched.list_objects(9, bad("a", 5), bad("b", 6), bad("c", 7))
        assert watched.names == ["a", "b", "c"]
        await watched.watch_events(("DELETED", bad("a", 10)))
        assert watched.names == ["b", "c"]
        await watched.list_objects(20, bad("c", 7))
        assert watched.names == ["c"]
        assert watched.records.gauges[GAUGE] == 1

    time.run(program())


def test_each_version_is_reported_once_with_the_field() -> None:
    async def program() -> None:
        watched = WatchedCache()
        with structlog.testing.capture_logs() as logged:
            await watched.list_objects(9, bad("a", 5))
            await watched.list_objects(10, bad("a", 5))
            await watched.watch_events(("MODIFIED", bad("a", 11)))
        assert [(line["name"], line["resource_version"]) for line in logged] == [("a", "5"), ("a", "11")]
        assert all("$.status" in line["error"] for line in logged)
        assert [(name, reason) for name, reason, _ in watched.records.events] == [("a", "Unreadable")] * 2

    time.run(program())


def test_an_unreadable_object_without_a_name_has_no_event() -> None:
    async def program() -> None:
        watched = WatchedCache()
        await watched.list_objects(9, {"metadata": 5}, pod("a", 5))
        assert watched.names == [""]
        assert len(watched.cache) == 1
        assert not watched.records.events
        await watched.list_objects(10, pod("a", 5))
        assert watched.names == []

    time.run(program())


def test_an_unreadable_pod_counts_for_its_node_or_for_all_nodes() -> None:
    async def program() -> None:
        watched = WatchedCache()
        await watched.list_objects(9, bad("bound", 5), bad("pending", 6, nodeName=""))
        assert [unreadable.pods_on(watched.cache, name) for name in ("n1", "n2")] == [1, 0]
        await watched.watch_events(("ADDED", bad("anywhere", 10, nodeName=5)))
        assert [unreadable.pods_on(watched.cache, name) for name in ("n1", "n2")] == [2, 1]

    time.run(program())


def test_an_unreadable_node_matches_only_its_own_provider_id() -> None:
    async def program() -> None:
        watched = WatchedCache(Node)
        damaged = filled(Node) | {"status": 5, "spec": {"providerID": "aws:///z/i-1"}}
        await watched.list_objects(9, damaged)
        found = [unreadable.may_be_node_of(watched.cache, f"aws:///z/i-{n}") for n in (1, 2)]
        assert found == [True, False]

    time.run(program())


def test_an_older_unreadable_version_is_ignored() -> None:
    async def program() -> None:
        watched = WatchedCache()
        await watched.list_objects(9, pod("a", 5))
        watched.cache.written(objects.pod("a", {"resourceVersion": "30", "uid": "uid-a"}))
        await watched.watch_events(("MODIFIED", bad("a", 20)))
        assert watched.names == []

    time.run(program())
