"""What a NodeClaim has once its instance is launched."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim import launched_claim
from holdfast.model import resources
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType
from holdfast.state.conversion import reservation_condition
from planner_builders import WELL_KNOWN, instance_type, reservation

NOW_S = 1000
SLOT = reservation("cr-1", "m5.large", available=1)
TYPE = instance_type("m5.large", 2, 8, 0.1, (SLOT,), gpus=1)
OTHER_TYPE = instance_type("m5.xlarge", 4, 16, 0.2)
LABELS = {names.INSTANCE_TYPE: "m5.large", names.ZONE: "z1", names.CAPACITY_TYPE: "on-demand", "team": "a"}
INSTANCE = Instance(
    "i-1", "m5.large", "z1", "on-demand", InstanceState.STARTING, 0, labels=tuple(sorted(LABELS.items()))
)
RESERVED = replace(INSTANCE, zone=SLOT.zone, capacity_type=names.RESERVED, reservation_id="cr-1")


def draft(annotations: dict[str, str] | None = None, **labels: str) -> Draft:
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [],
    }
    metadata: dict[str, Any] = {
        "name": "c-1",
        "annotations": annotations or {},
        "labels": {key.replace("_", "/"): value for key, value in labels.items()},
        "creationTimestamp": "1970-01-01T00:00:00Z",
    }
    return Draft(msgspec.convert({"metadata": metadata, "spec": spec}, NodeClaim), NOW_S)


def filled(found: Draft, instance: Instance = INSTANCE, *types: InstanceType) -> Draft:
    launched_claim.fill(found, instance, (OTHER_TYPE, *(types or (TYPE,))), WELL_KNOWN)
    return found


# --- Labels ------------------------------------------------------------------------------------------


@pytest.mark.fact("NC-9")
def test_labels_of_the_claim_win_over_those_of_the_instance() -> None:
    assert filled(draft(team="b", own="x")).labels == {**LABELS, "team": "b", "own": "x"}


def test_labels_of_an_earlier_instance_are_removed() -> None:
    """A launch wrote the labels of an instance that is terminated since. Labels of the user and of the NodePool stay."""
    before = draft(team="b")
    before.labels |= {
        names.ZONE: "z2",
        names.CAPACITY_TYPE: "on-demand",
        names.ARCH: "arm64",
        names.NODEPOOL: "default",
    }
    assert filled(before).labels == {**LABELS, "team": "b", names.NODEPOOL: "default"}


@pytest.mark.parametrize("key", [names.INSTANCE_TYPE, names.ZONE, names.CAPACITY_TYPE])
def test_labels_of_the_same_instance_stay(key: str) -> None:
    before = draft()
    before.labels |= {key: LABELS[key], names.ARCH: "amd64"}
    assert filled(before).labels == {**LABELS, names.ARCH: "amd64"}


# --- Annotations -------------------------------------------------------------------------------------


@pytest.mark.fact("NC-9")
def test_annotations_of_the_instance_win_over_those_of_the_claim() -> None:
    instance = replace(INSTANCE, annotations=(("hash", "new"),))
    assert filled(draft({"hash": "old", "own": "x"}), instance).annotations == {"hash": "new", "own": "x"}


def test_claim_has_the_reservation_that_its_instance_is_in() -> None:
    held = {names.RESERVATION_ID: "cr-0", names.HELD_FOR: "x", names.INSTANCE_GONE: "y"}
    assert filled(draft(held), RESERVED).annotations == {names.RESERVATION_ID: "cr-1"}
    assert filled(draft({names.RESERVATION_ID_BEFORE_0_2: "cr-0"}), RESERVED).annotations == {
        names.RESERVATION_ID: "cr-1"
    }


def test_claim_that_held_no_slot_gets_no_reservation_annotation() -> None:
    assert filled(draft(), RESERVED).annotations == {}
    held = {names.RESERVATION_ID: "cr-0"}
    assert filled(draft(held), INSTANCE).annotations == held


# --- Status ------------------------------------------------------------------------------------------


def test_status_has_the_instance_and_the_capacity_of_its_offering() -> None:
    status = filled(draft(), replace(INSTANCE, image_id="ami-1")).status
    assert (status.provider_id, status.image_id) == ("i-1", "ami-1")
    assert status.capacity == {"cpu": "2", "gpus": "1", "memory": "8Gi", "pods": "110"}
    assert status.allocatable == {"cpu": "1900m", "gpus": "1", "memory": "8182Mi", "pods": "110"}
    assert filled(draft()).status.image_id is None


def test_resources_that_the_instance_lacks_are_left_out() -> None:
    status = filled(draft(), replace(INSTANCE, lacks=("gpus",))).status
    assert "gpus" not in status.capacity
    assert "gpus" not in status.allocatable


def test_status_of_an_unknown_instance_type_has_no_capacity() -> None:
    found = draft()
    assert launched_claim.fill(found, INSTANCE, (OTHER_TYPE,), WELL_KNOWN) is None
    assert (found.status.capacity, found.status.allocatable) == ({}, {})


def test_capacity_is_that_of_the_offering() -> None:
    larger = resources.of({"cpu": 4000})
    offerings = tuple(
        replace(one, capacity_override=larger) if one.reservation_id == "cr-1" else one
        for one in TYPE.offerings
    )
    known = replace(TYPE, offerings=offerings)
    assert filled(draft(), RESERVED, known).status.capacity["cpu"] == "4"
    assert filled(draft(), RESERVED, known).status.allocatable["cpu"] == "3900m"
    assert filled(draft(), INSTANCE, known).status.capacity["cpu"] == "2"


def test_offering_of_an_instance_has_its_zone_capacity_type_and_reservation() -> None:
    found = launched_claim.offering_of(RESERVED, TYPE)
    assert found is not None
    assert (found.zone, found.capacity_type, found.reservation_id) == (SLOT.zone, "reserved", "cr-1")
    # An instance that EC2 placed into an open reservation was launched on demand.
    in_open = launched_claim.offering_of(replace(INSTANCE, reservation_id="cr-1"), TYPE)
    assert in_open is not None
    assert (in_open.zone, in_open.capacity_type, in_open.reservation_id) == ("z1", "on-demand", None)
    assert launched_claim.offering_of(replace(INSTANCE, zone="z9"), TYPE) is None
    assert launched_claim.offering_of(INSTANCE, None) is None


# --- Conditions --------------------------------------------------------------------------------------


def status_of(found: Draft, type_: str) -> str | None:
    condition = found.conditions.find(type_)
    return None if condition is None else condition.status


def test_claim_is_launched_and_a_reserved_one_has_its_slot() -> None:
    on_demand, reserved = filled(draft()), filled(draft(), RESERVED)
    assert status_of(on_demand, claim_conditions.LAUNCHED) == conditions.TRUE
    assert status_of(on_demand, reservation_condition.TYPE) is None
    assert status_of(reserved, reservation_condition.TYPE) == conditions.TRUE


def test_time_to_register_starts_when_the_claim_no_longer_waits_for_its_slot() -> None:
    waited, at_once = filled(draft({names.WAITS_FOR_INSTANCE: "i-0"})), filled(draft())
    assert waited.age_s(claim_conditions.REGISTERED) == 0
    assert at_once.age_s(claim_conditions.REGISTERED) == NOW_S
    assert names.WAITS_FOR_INSTANCE not in waited.annotations
