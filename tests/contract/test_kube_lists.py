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
from kube_servers import WINDOW, KubeServer, Session

STALE = "1"  # older than every NodePool


def test_list_of_several_pages_is_complete(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        label = {"test": session.name("list")}
        names = [session.name(f"node-{number}") for number in range(7)]
        for name in names:
            await session.kube.create(objects.node(name, {"labels": label}))
        await session.kube.create(objects.node(session.name("other")))
        listing = await session.kube.list(Node, label_selector=f"test={session.name('list')}")
        assert sorted(node.metadata.name for node in listing.items) == names
        everything = await session.kube.list(Node)
        assert {*names, session.name("other")} <= {node.metadata.name for node in everything.items}
        newest = max(int(node.metadata.resource_version) for node in everything.items)
        assert int(everything.resource_version) >= newest

    server.run(program)


def test_pages_of_a_list_have_one_resource_version(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        early = {session.name(f"node-{number}") for number in range(7)}
        for name in sorted(early):
            await session.kube.create(objects.node(name))
        names, versions = set(), []
        async for page in session.kube.pages(Node):
            names |= {node.metadata.name for node in page.items}
            versions.append(page.resource_version)
            await session.kube.create(objects.node(f"z-{len(versions)}-{session.suffix}"))
        assert early <= names
        assert not [name for name in names if name.startswith("z-") and name.endswith(session.suffix)]
        assert len(versions) >= 3
        assert len(set(versions)) == 1

    server.run(program)


def test_objects_of_all_namespaces_are_listed_together(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        await session.kube.create(Namespace(metadata=ObjectMeta(name=session.name("ns"))))
        await session.pod(session.name("pod"), namespace=session.name("ns"))
        await session.pod(session.name("pod"))
        pods = (await session.kube.list(Pod)).items
        namespaces = {pod.metadata.namespace for pod in pods if pod.metadata.name == session.name("pod")}
        assert namespaces == {"default", session.name("ns")}

    server.run(program)


def test_watch_continues_from_a_list_in_order_and_without_gaps(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        before = await session.kube.list(Node)
        node = await session.kube.create(objects.node(session.name("node")))
        node = await session.kube.patch(node, {"metadata": {"labels": {"step": "2"}}})
        await session.kube.delete(node)
        changes = await first(session, 3, before.resource_version)
        assert [change.kind for change in changes] == ["ADDED", "MODIFIED", "DELETED"]
        versions = [int(change.object.metadata.resource_version) for change in changes]
        assert versions == sorted(set(versions))
        assert versions[0] > int(before.resource_version)
        assert changes[1].object.metadata.labels["step"] == "2"
        assert changes[2].object.metadata.uid == node.metadata.uid
        resumed = await first(session, 2, changes[0].object.metadata.resource_version)
        assert resumed == changes[1:]

    server.run(program)


def test_open_watch_receives_new_changes(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        before = await session.kube.list(Node)
        watching = asyncio.create_task(first(session, 2, before.resource_version))
        await session.clock.sleep(0.2)
        node = await session.kube.create(objects.node(session.name("node")))
        await session.kube.delete(node)
        assert [change.kind for change in await watching] == ["ADDED", "DELETED"]

    server.run(program)


async def first(session: Session, count: int, version: str) -> list[Change[Any]]:
    """The first changes to this test's objects. It cannot hang, because the server ends every watch."""
    found: list[Change[Any]] = []
    async for change in session.kube.watch(Node, version):
        if change.kind != "BOOKMARK" and change.object.metadata.name.endswith(session.suffix):
            found.append(change)
        if len(found) == count:
            break
    return found


def test_watch_from_a_too_old_version_raises_resource_expired(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        pool = await session.kube.create(nodepool(session.name("pool")))
        for number in range(2 * WINDOW):
            await session.kube.patch(pool, {"metadata": {"labels": {"step": str(number)}}})
        with pytest.raises(errors.ResourceExpired):
            async for _ in session.kube.watch(NodePool, STALE):
                pass

    server.run(program)
