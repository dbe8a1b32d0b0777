"""Drift from the cache is the drift from scratch, after any sequence of changes."""

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from aws_builders import reservation
from aws_launches import STATUS, claim, resolved, types
from builders import nodepool, requirement
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.cloud.aws.catalog import labels as aws_labels
from holdfast.cloud.aws.instances import drift
from holdfast.cloud.aws.instances.drift import Reasons
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance
from holdfast.cloud.aws.nodeclass import class_hash
from holdfast.controllers.nodeclaim.pool_drift import PoolDrift
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType

HOUR_S = 3600
SELECTS: dict[str, Any] = {"capacityReservationSelectorTerms": [{"ownerID": "111122223333"}]}
RESERVED = [{"id": "cr-1", "availabilityZone": "us-west-2a", "instanceMatchCriteria": "open", "instanceType": "m5.large", "ownerID": "111122223333", "reservationType": "default", "state": "active"}]  # fmt: skip

specs = st.sampled_from([{}, {"userData": "echo"}, SELECTS, {"placementGroupSelector": {"id": "pg-1"}}])
statuses = st.sampled_from(
    [
        {},
        {"amis": STATUS["amis"][:1]},
        {"subnets": STATUS["subnets"][:1]},
        {"securityGroups": STATUS["securityGroups"][:1]},
        {"capacityReservations": RESERVED},
    ]
)
stamps = st.sampled_from(["this", "old", None])
instances = st.fixed_dictionaries(
    {
        "image_id": st.sampled_from(["ami-x86", "ami-arm"]),
        "subnet_id": st.sampled_from(["subnet-a", "subnet-b"]),
        "capacity_type": st.sampled_from(["on-demand", "reserved"]),
        "placement_group": st.sampled_from([None, ("pg-1", "wide")]),
    }
)


def ec2_instance(fields: dict[str, Any]) -> EC2Instance:
    reserved = fields["capacity_type"] == "reserved"
    found = Instance(
        provider_id="aws:///us-west-2a/i-1",
        instance_type="m5.large",
        zone="us-west-2a",
        capacity_type=fields["capacity_type"],
        state=InstanceState.RUNNING,
        launched_s=0,
        image_id=fields["image_id"],
        reservation_id="cr-1" if reserved else None,
    )
    groups = frozenset({"sg-1", "sg-2"})
    return EC2Instance(
        "i-1", found, fields["subnet_id"], groups, {}, placement_group=fields["placement_group"]
    )


@settings(max_examples=150)
@given(some=st.lists(st.tuples(specs, statuses, stamps, instances, st.booleans()), min_size=2, max_size=6))
def test_class_drift_from_the_cache_is_that_from_scratch(some: list[tuple[Any, ...]]) -> None:
    cache = Reasons()
    for spec, status, stamp, fields, is_known in some:
        node_class = resolved(status, **spec)
        value = class_hash.of(resolved()) if stamp == "this" else stamp
        hashed = {"karpenter.k8s.aws/ec2nodeclass-hash": value} if value else {}
        version = {"karpenter.k8s.aws/ec2nodeclass-hash-version": class_hash.VERSION}
        launched = claim(meta={"annotations": hashed | version})
        known = types(node_class)[0] if is_known else None
        inputs = (launched, node_class, ec2_instance(fields))
        assert cache.reason(*inputs, instance_type=known) == drift.reason(*inputs, instance_type=known)


def catalog(count: int | None) -> tuple[InstanceType, ...]:
    """Types with a reservation of so many free slots; without offerings of m5.large if None."""
    found = types(resolved(**SELECTS), reservation("cr-1", available=count or 0, total=2))
    if count is not None:
        return found
    return tuple(replace(one, offerings=()) if one.name == "m5.large" else one for one in found)


CATALOGS = tuple(map(catalog, (0, 1, None)))


def launched_claim(labels: dict[str, str], stamp: str | None) -> NodeClaim:
    annotations = {names.NODEPOOL_HASH: stamp, names.NODEPOOL_HASH_VERSION: "v3"} if stamp else {}
    known = {names.INSTANCE_TYPE: "m5.large", names.ZONE: "us-west-2a", names.CAPACITY_TYPE: "on-demand"}
    return claim(meta={"labels": known | labels, "annotations": annotations, "uid": "one"})


def pool_of(zones: tuple[str, ...], stamp: str, generation: int) -> NodePool:
    pool = nodepool(requirements=[requirement(names.ZONE, "In", *zones)])
    annotations = {names.NODEPOOL_HASH: stamp, names.NODEPOOL_HASH_VERSION: "v3"}
    meta = msgspec.structs.replace(pool.metadata, annotations=annotations, generation=generation)
    return msgspec.structs.replace(pool, metadata=meta)


ZONES = (("us-west-2a",), ("us-west-2b",), ("us-west-2a", "us-west-2b"))
labels = st.sampled_from(
    [{}, {names.ZONE: "us-west-2b"}, {names.CAPACITY_TYPE: "reserved"}, {names.INSTANCE_TYPE: "x"}]
)
hashes = st.sampled_from(["1", "2", None])
steps = st.tuples(
    labels, hashes, st.integers(0, 2), st.sampled_from(["1", "2"]), st.sampled_from(CATALOGS), st.booleans()
)


@settings(max_examples=150)
@given(some=st.lists(steps, min_size=2, max_size=6))
def test_pool_drift_from_the_cache_is_that_from_scratch(some: list[tuple[Any, ...]]) -> None:
    cache = PoolDrift(aws_labels.CLOUD_LABELS)
    for own_labels, stamp, zones, pool_stamp, known, is_old in some:
        # A change of the NodePool's spec is a new generation.
        inputs = (launched_claim(own_labels, stamp), pool_of(ZONES[zones], pool_stamp, zones), known)
        age_s = HOUR_S if is_old else HOUR_S - 1
        scratch = PoolDrift(aws_labels.CLOUD_LABELS)
        assert cache.reason(*inputs, age_s) == scratch.reason(*inputs, age_s)
