"""Guarantees of the Kube port for single objects, tested with every API server: the embedded one through both fronts,
and a real one."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

import objects
from builders import nodepool
from holdfast import errors
from holdfast.api import discovery
from holdfast.api.cluster import Lease
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.reviews import (
    AccessReviewSpec,
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectReview,
)
from kube_servers import SETTINGS, KubeServer, Session


def test_create_returns_the_object_as_the_server_completed_it(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        made = await session.kube.create(nodepool(session.name("pool")))
        assert made.metadata.uid
        assert int(made.metadata.resource_version) > 0
        assert made.metadata.creation_timestamp is not None
        assert made.spec.template.spec.expire_after == "720h"  # a default of the CRD
        assert await session.kube.get(NodePool, session.name("pool")) == made

    server.run(program)


def test_dry_run_has_the_time_of_the_server_and_stores_nothing(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        shown = await session.kube.create(nodepool(session.name("pool")), dry_run=True)
        assert shown.metadata.creation_timestamp is not None
        assert shown.metadata.resource_version == ""
        with pytest.raises(errors.NotFound):
            await session.kube.get(NodePool, session.name("pool"))

    server.run(program)


def test_reviews_and_documents_are_answered(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        attributes = ResourceAttributes(group="karpenter.sh", resource="nodepools", verb="list")
        review = SelfSubjectAccessReview(spec=AccessReviewSpec(resource_attributes=attributes))
        assert (await session.kube.review(review)).status.allowed
        assert (await session.kube.review(SelfSubjectReview())).status.user_info.username
        groups = (await session.kube.document("/apis", discovery.GroupList)).groups
        assert [one.versions for one in groups if one.name == "karpenter.sh"] == [
            (discovery.GroupVersion("v1"),)
        ]
        with pytest.raises(errors.Unreachable, match="malformed response for /apis"):
            await session.kube.document("/apis", discovery.Group)

    server.run(program)


def test_create_with_an_existing_name_raises_already_exists(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        await session.kube.create(nodepool(session.name("pool")))
        with pytest.raises(errors.AlreadyExists):
            await session.kube.create(nodepool(session.name("pool")))

    server.run(program)


def test_missing_object_raises_not_found(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        with pytest.raises(errors.NotFound):
            await session.kube.get(NodePool, session.name("none"))
        with pytest.raises(errors.NotFound):
            await session.kube.get(Pod, session.name("none"), "default")
        with pytest.raises(errors.NotFound):
            await session.kube.patch(nodepool(session.name("none")), {"metadata": {"labels": {"a": "b"}}})
        nowhere = ObjectMeta(name="lease", namespace=session.name("nowhere"))
        with pytest.raises(errors.NotFound):
            await session.kube.create(Lease(metadata=nowhere))

    server.run(program)


def test_invalid_object_is_rejected(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        with pytest.raises(
            errors.Rejected, match="image"
        ):  # the wire types of Holdfast do not have this field
            await session.kube.create(objects.pod(session.name("pod")))
        pool = await session.kube.create(nodepool(session.name("pool")))
        with pytest.raises(errors.Rejected, match="weight"):
            await session.kube.patch(pool, {"spec": {"weight": 1000}})
        assert await session.kube.get(NodePool, session.name("pool")) == pool

    server.run(program)


def test_patch_changes_only_the_fields_that_it_has(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        labels = {"keep": "me", "drop": "me"}
        node = await session.kube.create(objects.node(session.name("node"), {"labels": labels}))
        patched = await session.kube.patch(node, {"metadata": {"labels": {"drop": None, "new": "1"}}})
        assert patched.metadata.labels == {"keep": "me", "new": "1"}
        assert patched.spec == node.spec
        assert patched.metadata.uid == node.metadata.uid
        assert int(patched.metadata.resource_version) > int(node.metadata.resource_version)

    server.run(program)


def test_patch_without_a_change_leaves_the_resource_version(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        node = await session.kube.create(objects.node(session.name("node"), {"labels": {"a": "b"}}))
        again = await session.kube.patch(node, {"metadata": {"labels": {"a": "b"}}})
        assert again == node

    server.run(program)


def test_two_writers_of_one_list_never_lose_an_update(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        node = await session.kube.create(objects.node(session.name("node")))
        first = {"spec": {"taints": [{"key": "first", "effect": "NoSchedule"}]}}
        second = {"spec": {"taints": [{"key": "second", "effect": "NoSchedule"}]}}
        await session.kube.patch(node, first, only_if_unchanged=True)
        with pytest.raises(errors.Conflict):
            await session.kube.patch(node, second, only_if_unchanged=True)
        found = await session.kube.get(Node, session.name("node"))
        assert [taint.key for taint in found.spec.taints] == ["first"]

    server.run(program)


def test_status_and_spec_are_patched_separately(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        pool = await session.kube.create(nodepool(session.name("pool")))
        change: dict[str, Any] = {"status": {"nodes": 3}, "spec": {"weight": 7}}
        patched = await session.kube.patch(pool, change, status=True)
        assert patched.status.nodes == 3
        assert patched.spec == pool.spec
        assert patched.metadata.generation == pool.metadata.generation
        respecced = await session.kube.patch(patched, {"status": {"nodes": 9}, "spec": {"weight": 7}})
        assert respecced.status.nodes == 3
        assert respecced.spec.weight == 7
        assert respecced.metadata.generation == pool.metadata.generation + 1

    server.run(program)


def test_second_apply_changes_nothing(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        wanted = nodepool(session.name("pool"), labels={"team": "a"})
        once = await session.kube.apply(wanted)
        twice = await session.kube.apply(wanted)
        assert twice == once

    server.run(program)


def test_apply_removes_only_its_own_fields_that_it_no_longer_has(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        name = session.name("node")
        await session.kube.apply(objects.node(name, {"labels": {"ours": "1", "later-not": "1"}}))
        other_manager = session.client(replace(SETTINGS, field_manager="somebody-else"))
        await other_manager.patch(objects.node(name), {"metadata": {"annotations": {"theirs": "1"}}})
        applied = await session.kube.apply(objects.node(name, {"labels": {"ours": "1"}}))
        assert applied.metadata.labels == {"ours": "1"}
        assert applied.metadata.annotations["theirs"] == "1"

    server.run(program)


def test_apply_replaces_the_status(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        made = await session.kube.create(nodepool(session.name("pool")))
        status = msgspec.convert({"nodes": 2, "resources": {"cpu": "4"}}, type(made.status))
        applied = await session.kube.apply(msgspec.structs.replace(made, status=status), status=True)
        assert applied.status.nodes == 2
        assert applied.status.resources == {"cpu": "4"}
        fewer = msgspec.convert({"nodes": 1}, type(made.status))
        applied = await session.kube.apply(msgspec.structs.replace(made, status=fewer), status=True)
        assert applied.status.nodes == 1
        assert applied.status.resources == {}
        assert applied.spec == made.spec

    server.run(program)


def test_delete_has_the_uid_as_precondition(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        old = await session.kube.create(nodepool(session.name("pool")))
        await session.kube.delete(old)
        with pytest.raises(errors.NotFound):
            await session.kube.get(NodePool, session.name("pool"))
        with pytest.raises(errors.NotFound):
            await session.kube.delete(old)
        new = await session.kube.create(nodepool(session.name("pool")))
        with pytest.raises(errors.NotFound):
            await session.kube.delete(old)
        assert await session.kube.get(NodePool, session.name("pool")) == new
        await session.kube.delete(old, only_this=False)
        with pytest.raises(errors.NotFound):
            await session.kube.get(NodePool, session.name("pool"))

    server.run(program)


def test_object_with_a_finalizer_stays_until_the_finalizer_is_removed(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        finalized = objects.node(session.name("node"), {"finalizers": ["karpenter.sh/termination"]})
        node = await session.kube.create(finalized)
        await session.kube.delete(node)
        await session.kube.delete(node)  # it is being deleted already, so this is no error
        held = await session.kube.get(Node, session.name("node"))
        assert held.metadata.deletion_timestamp is not None
        await session.kube.patch(held, {"metadata": {"finalizers": None}})
        with pytest.raises(errors.NotFound):
            await session.kube.get(Node, session.name("node"))

    server.run(program)
