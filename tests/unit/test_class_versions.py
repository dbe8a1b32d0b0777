"""Which changes of a node class and of a NodePool their NodeClaims depend on."""

from typing import Any

import msgspec

from builders import ec2nodeclass, nodepool
from holdfast import names
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodepool import NodePool
from holdfast.api.reservation_slots import NodeClassSlots
from holdfast.controllers.nodeclaim import pool_drift
from holdfast.controllers.nodeclaim.class_versions import ClassVersions


def version(number: int, **status: Any) -> EC2NodeClass:
    node_class = ec2nodeclass()
    return msgspec.structs.replace(
        node_class,
        metadata=msgspec.structs.replace(node_class.metadata, uid="1", resource_version=str(number)),
        status=msgspec.structs.replace(node_class.status, **status),
    )


def test_a_class_has_a_new_version_only_if_more_than_counts_changed() -> None:
    versions = ClassVersions()
    first = versions.of(version(1))
    assert versions.of(version(2, reservation_slots=NodeClassSlots(summary="1/2"))) == first
    assert versions.of(version(3, reservation_slots=NodeClassSlots(summary="2/2"))) == first
    second = versions.of(version(4, instance_profile="p"))
    assert second != first
    assert versions.of(version(5, instance_profile="p")) == second
    assert versions.of(version(6)) not in (first, second)


def test_a_class_that_was_created_again_has_a_new_version() -> None:
    versions, node_class = ClassVersions(), version(1)
    other = msgspec.structs.replace(
        node_class, metadata=msgspec.structs.replace(node_class.metadata, uid="2")
    )
    assert versions.of(node_class) != versions.of(other)


def test_claims_depend_on_the_hash_and_the_generation_of_their_nodepool_alone() -> None:
    def pool(annotations: dict[str, str], generation: int = 1) -> NodePool:
        plain = nodepool()
        meta = msgspec.structs.replace(plain.metadata, generation=generation, annotations=annotations)
        return msgspec.structs.replace(plain, metadata=meta)

    before = pool_drift.of_pool(pool({}))
    assert pool_drift.of_pool(pool({names.CONSOLIDATED: "2026-11-16T00:31:25Z"})) == before
    assert pool_drift.of_pool(pool({}, generation=2)) != before
    assert pool_drift.of_pool(pool({names.NODEPOOL_HASH: "1"})) != before
