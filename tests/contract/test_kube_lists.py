"""Guarantees of the Kube port for lists and watches, tested with every API server."""

import asyncio
from typing import Any

import pytest

import objects
from builders import nodepool
from holdfast import errors
from holdfast.api.cluster import Namespace
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.ports import Change
from kube_servers import WINDOW, KubeServer, Place

STALE = "1"  # older than every NodePool


def test_list_of_several_pages_is_complete(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        label = {"test": place.name("list")}
        names = [place.name(f"node-{number}") for number in range(7)]
        for name in names:
            await place.kube.create(objects.node(name, {"labels": label}))
        await place.kube.create(objects.node(place.name("other")))
        listing = await place.kube.list(Node, label_selector=f"test={place.name('list')}")
        assert sorted(node.metadata.name for node in listing.items) == names
        everything = await place.kube.list(Node)
        assert {*names, place.name("other")} <= {node.metadata.name for node in everything.items}
        newest = max(int(node.metadata.resource_version) for node in everything.items)
        assert int(everything.resource_version) >= newest

    server.run(program)


def test_pages_of_a_list_have_one_resource_version(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        early = {place.name(f"node-{number}") for number in range(7)}
        for name in sorted(early):
            await place.kube.create(objects.node(name))
        names, versions = set(), []
        async for page in place.kube.pages(Node):
            names |= {node.metadata.name for node in page.items}
            versions.append(page.resource_version)
            await place.kube.create(objects.node(f"z-{len(versions)}-{place.suffix}"))
        assert early <= names
        assert not [name for name in names if name.startswith("z-") and name.endswith(place.suffix)]
        assert len(versions) >= 3
        assert len(set(versions)) == 1

    server.run(program)


def test_objects_of_all_namespaces_are_listed_together(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        await place.kube.create(Namespace(metadata=ObjectMeta(name=place.name("ns"))))
        await place.pod(place.name("pod"), namespace=place.name("ns"))
        await place.pod(place.name("pod"))
        pods = (await place.kube.list(Pod)).items
        namespaces = {pod.metadata.namespace for pod in pods if pod.metadata.name == place.name("pod")}
        assert namespaces == {"default", place.name("ns")}

    server.run(program)


def test_watch_continues_from_a_list_in_order_and_without_gaps(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        before = await place.kube.list(Node)
        node = await place.kube.create(objects.node(place.name("node")))
        node = await place.kube.patch(node, {"metadata": {"labels": {"step": "2"}}})
        await place.kube.delete(node)
        changes = await first(place, 3, before.resource_version)
        assert [change.kind for change in changes] == ["ADDED", "MODIFIED", "DELETED"]
        versions = [int(change.object.metadata.resource_version) for change in changes]
        assert versions == sorted(set(versions))
        assert versions[0] > int(before.resource_version)
        assert changes[1].object.metadata.labels["step"] == "2"
        assert changes[2].object.metadata.uid == node.metadata.uid
        resumed = await first(place, 2, changes[0].object.metadata.resource_version)
        assert resumed == changes[1:]

    server.run(program)


def test_open_watch_receives_new_changes(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        before = await place.kube.list(Node)
        watching = asyncio.create_task(first(place, 2, before.resource_version))
        await place.clock.sleep(0.2)
        node = await place.kube.create(objects.node(place.name("node")))
        await place.kube.delete(node)
        assert [change.kind for change in await watching] == ["ADDED", "DELETED"]

    server.run(program)


async def first(place: Place, count: int, version: str) -> list[Change[Any]]:
    """The first changes to this test's objects. It cannot hang, because the server ends every watch."""
    found: list[Change[Any]] = []
    async for change in place.kube.watch(Node, version):
        if change.kind != "BOOKMARK" and change.object.metadata.name.endswith(place.suffix):
            found.append(change)
        if len(found) == count:
            break
    return found


def test_watch_from_a_too_old_version_raises_resource_expired(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        pool = await place.kube.create(nodepool(place.name("pool")))
        for number in range(2 * WINDOW):
            await place.kube.patch(pool, {"metadata": {"labels": {"step": str(number)}}})
        with pytest.raises(errors.ResourceExpired):
            async for _ in place.kube.watch(NodePool, STALE):
                pass

    server.run(program)
