"""Snapshots convert only the objects that changed since the last snapshot, and reuse the rest."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
import pytest

import builders
import objects
from app_environment import AppEnvironment
from holdfast import names
from holdfast.api.meta import Object
from holdfast.api.nodepool import NodePool
from holdfast.app.program import App
from holdfast.model.snapshot import NodeView
from holdfast.ports import Change
from holdfast.sim import time

MANY = 1_000


VERSIONS = itertools.count(1)


def put(app: App, *found: Object, kind: Literal["MODIFIED", "DELETED"] = "MODIFIED") -> None:
    """Applies the objects to the caches as a watch does, each with the next resourceVersion."""
    for obj in found:
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(next(VERSIONS)))
        app.caches.of(type(obj)).apply(Change(kind, msgspec.structs.replace(obj, metadata=meta)))


def pod(name: str, **spec: Any) -> Object:
    return objects.pod(name, {"uid": name}, **spec)


def node(name: str, **status: Any) -> Object:
    labels = {names.NODEPOOL: "default", names.INSTANCE_TYPE: "m5.large"}
    return objects.node(name, {"labels": labels}, status=status)


def with_volume_claim(claim_name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]}


async def nodes_of(app: App) -> dict[str, NodeView]:
    return {one.name: one for one in (await app.cluster_state.snapshot()).snapshot.nodes}


def run_with_app(program: Callable[[App], Awaitable[None]]) -> None:
    async def main() -> None:
        await program(AppEnvironment().app)

    time.run(main())


def test_unchanged_nodes_are_reused_in_the_next_snapshot() -> None:
    async def program(app: App) -> None:
        put(app, node("n-0"), node("n-1"), pod("p", nodeName="n-0"))
        before = (await app.cluster_state.snapshot()).snapshot
        assert (await app.cluster_state.snapshot()).snapshot.nodes is before.nodes
        put(app, pod("p", nodeName="n-0"), node("n-1", conditions=[]))
        after = (await app.cluster_state.snapshot()).snapshot
        assert [one is other for one, other in zip(before.nodes, after.nodes, strict=True)] == [True, True]
        put(app, pod("q", nodeName="n-0"))
        after = (await app.cluster_state.snapshot()).snapshot
        assert [one is other for one, other in zip(before.nodes, after.nodes, strict=True)] == [False, True]

    run_with_app(program)


def test_changed_volume_claim_updates_only_the_node_of_its_pod() -> None:
    async def program(app: App) -> None:
        put(app, node("n-0"), node("n-1"))
        put(
            app,
            pod("p", nodeName="n-0", **with_volume_claim("a")),
            pod("q", nodeName="n-1", **with_volume_claim("b")),
        )
        before = await nodes_of(app)
        bound = objects.claim("a", {}, spec={"storageClassName": "gp3"})
        put(app, objects.storage_class(), bound)
        after = await nodes_of(app)
        assert [volume for _, volume in after["n-0"].attached] == ["default/a"]
        assert after["n-1"] is before["n-1"]

    run_with_app(program)


def test_other_tasks_run_while_a_large_snapshot_is_built() -> None:
    async def program(app: App) -> None:
        for number in range(MANY):
            put(app, node(f"n-{number}"), pod(f"p-{number}", nodeName=f"n-{number}"))
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(count_turns())
        nodes = (await app.cluster_state.snapshot()).snapshot.nodes
        running.cancel()
        assert len(nodes) == MANY
        assert turns > MANY // 100

    run_with_app(program)


@pytest.mark.fact("S-4")
def test_snapshot_is_consistent_while_pods_are_bound() -> None:
    """A pod that is both pending and on a node would be planned twice; a pod that is neither would be lost."""

    async def program(app: App) -> None:
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Pending", "conditions": [unscheduled]}
        waiting = (objects.pod(f"p-{n}", {"uid": f"p-{n}"}, status) for n in range(MANY))
        put(app, node("n"), *waiting)
        bound = 0

        async def bind() -> None:
            nonlocal bound
            while bound < MANY:
                put(app, pod(f"p-{bound}", nodeName="n"))
                bound += 1
                await asyncio.sleep(0)

        binding = asyncio.create_task(bind())
        snapshot = (await app.cluster_state.snapshot()).snapshot
        binding.cancel()
        assert 0 < bound < MANY
        running = {one.name for one in snapshot.nodes[0].pods}
        pending = {one.name for one in snapshot.pending}
        assert running.isdisjoint(pending)
        assert len(running) + len(pending) == MANY

    run_with_app(program)


def test_used_resources_of_a_nodepool_follow_its_nodes() -> None:
    async def program(app: App) -> None:
        document = builders.nodepool_document()
        put(app, objects.read(NodePool, "default", {}, spec=document["spec"]))
        put(app, node("n-0"), node("n-1"))
        assert used(app) == {"cpu": 8_000, "nodes": 2}
        put(app, node("n-1", capacity={"cpu": "16"}))
        assert used(app) == {"cpu": 20_000, "nodes": 2}
        put(app, node("n-0"), kind="DELETED")
        assert used(app) == {"cpu": 16_000, "nodes": 1}

    run_with_app(program)


def used(app: App) -> dict[str, int]:
    pool = app.cluster_state.pool("default")
    assert pool is not None
    return dict(pool.used.amounts)


def test_unregistered_node_without_nodeclaim_is_not_in_the_snapshot() -> None:
    async def program(app: App) -> None:
        taint = {"key": names.UNREGISTERED_TAINT, "effect": "NoExecute"}
        labels = {names.NODEPOOL: "default", names.INSTANCE_TYPE: "m5.large"}
        put(
            app,
            node("n-0"),
            objects.node("n-1", {"labels": labels}, spec={"taints": [taint], "providerID": "aws:///i-1"}),
        )
        assert list(await nodes_of(app)) == ["n-0"]

    run_with_app(program)
