"""Objects that a cache cannot decode: set aside, reported once a version, gone when they can be read or are deleted."""

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
from manual_ports import KeptRecords
from scripted import START, Said, Script, client, stream

GAUGE = "holdfast_unreadable_objects", (("resource", "pods"),)


def pod(name: str, version: int, **spec: Any) -> dict[str, Any]:
    found = filled(Pod, name)
    found["metadata"] |= {"namespace": "default", "resourceVersion": str(version)}
    found["spec"] |= {"nodeName": "n1"} | spec
    return found


def bad(name: str, version: int, **spec: Any) -> dict[str, Any]:
    return pod(name, version, **spec) | {"status": [5]}


class Watched:
    """A cache that a script fills."""

    def __init__(self, kind: type[Object] = Pod) -> None:
        self.records = KeptRecords()
        self.caches = Caches((kind,), clock=VirtualClock(START))
        self.kind = kind
        self.cache: Cache[Any] = self.caches.of(kind)
        unreadable.report(self.caches, self.records)

    async def listed(self, version: int, *items: dict[str, Any]) -> None:
        body = {"metadata": {"resourceVersion": str(version)}, "items": list(items)}
        script = Script(Said(200, json.dumps(body).encode()))
        await self.cache.replace(client(script).pages(self.kind))

    async def watched(self, *events: tuple[str, dict[str, Any]]) -> None:
        lines = [json.dumps({"type": kind, "object": obj}).encode() + b"\n" for kind, obj in events]
        async for change in client(Script(stream(*lines))).watch(self.kind, "1"):
            self.cache.apply(change)

    @property
    def names(self) -> list[str]:
        return sorted(name for _, name in self.cache.unreadable)


def test_readers_see_the_last_readable_version() -> None:
    async def program() -> None:
        it = Watched()
        await it.listed(9, pod("a", 5), pod("b", 6))
        await it.watched(("MODIFIED", bad("a", 10)), ("MODIFIED", pod("b", 11)))
        assert it.names == ["a"]
        assert {obj.metadata.name: obj.metadata.resource_version for obj in it.cache} == {"a": "5", "b": "11"}
        await it.watched(("MODIFIED", pod("a", 12)))
        assert it.names == []
        assert [obj.metadata.resource_version for obj in it.cache] == ["12", "11"]
        assert it.records.gauges[GAUGE] == 0

    time.run(program())


def test_a_deleted_unreadable_object_is_removed() -> None:
    async def program() -> None:
        it = Watched()
        await it.listed(9, bad("a", 5), bad("b", 6), bad("c", 7))
        assert it.names == ["a", "b", "c"]
        await it.watched(("DELETED", bad("a", 10)))
        assert it.names == ["b", "c"]
        await it.listed(20, bad("c", 7))
        assert it.names == ["c"]
        assert it.records.gauges[GAUGE] == 1

    time.run(program())


def test_each_version_is_reported_once_with_the_field() -> None:
    async def program() -> None:
        it = Watched()
        with structlog.testing.capture_logs() as logged:
            await it.listed(9, bad("a", 5))
            await it.listed(10, bad("a", 5))
            await it.watched(("MODIFIED", bad("a", 11)))
        assert [(line["name"], line["resource_version"]) for line in logged] == [("a", "5"), ("a", "11")]
        assert all("$.status" in line["error"] for line in logged)
        assert [(name, reason) for name, reason, _ in it.records.events] == [("a", "Unreadable")] * 2

    time.run(program())


def test_an_unreadable_object_without_a_name_has_no_event() -> None:
    async def program() -> None:
        it = Watched()
        await it.listed(9, {"metadata": 5}, pod("a", 5))
        assert it.names == [""]
        assert len(it.cache) == 1
        assert not it.records.events
        await it.listed(10, pod("a", 5))
        assert it.names == []

    time.run(program())


def test_an_unreadable_pod_counts_for_its_node_or_for_all_nodes() -> None:
    async def program() -> None:
        it = Watched()
        await it.listed(9, bad("bound", 5), bad("pending", 6, nodeName=""))
        assert [unreadable.pods_on(it.cache, name) for name in ("n1", "n2")] == [1, 0]
        await it.watched(("ADDED", bad("anywhere", 10, nodeName=5)))
        assert [unreadable.pods_on(it.cache, name) for name in ("n1", "n2")] == [2, 1]

    time.run(program())


def test_an_unreadable_node_may_only_belong_to_its_instance() -> None:
    async def program() -> None:
        it = Watched(Node)
        damaged = filled(Node) | {"status": 5, "spec": {"providerID": "aws:///z/i-1"}}
        await it.listed(9, damaged)
        found = [unreadable.may_be_node_of(it.cache, f"aws:///z/i-{n}") for n in (1, 2)]
        assert found == [True, False]

    time.run(program())


def test_an_older_unreadable_version_is_ignored() -> None:
    async def program() -> None:
        it = Watched()
        await it.listed(9, pod("a", 5))
        it.cache.written(objects.pod("a", {"resourceVersion": "30", "uid": "uid-a"}))
        await it.watched(("MODIFIED", bad("a", 20)))
        assert it.names == []

    time.run(program())
