"""A claim that is not launched yet, as the node it will most likely be."""

from typing import Any

import pytest

from builders import requirement
from holdfast import names
from holdfast.model.snapshot import CloudLabels, NodeView
from holdfast.state import in_flight
from objects import nodeclaim
from planner_builders import RESERVATION_ID, instance_type, reservation

LABELS = CloudLabels(
    well_known=names.WELL_KNOWN_LABELS | {RESERVATION_ID},
    reservation_id=RESERVATION_ID,
    reserved=frozenset({RESERVATION_ID}),
)
SLOT = reservation("cr-1", "big", zone="z2")
TYPES = (instance_type("small", 2, 4, 0.1), instance_type("big", 8, 16, 0.4, [SLOT]))


def seen(*requirements: dict[str, Any], slot: str = "", waits: bool = False, **spec: Any) -> NodeView:
    notes = ({names.RESERVATION_ID: slot} if slot else {}) | (
        {names.WAITS_FOR_INSTANCE: "i-1"} if waits else {}
    )
    meta = {"labels": {names.NODEPOOL: "default"}, "annotations": notes}
    claim = nodeclaim("c", meta, requirements=list(requirements), **spec)
    return in_flight.view(claim, TYPES, LABELS)


@pytest.mark.fact("ST-6")
def test_it_is_the_cheapest_node_that_the_claim_allows() -> None:
    node = seen(requirement(names.CAPACITY_TYPE, "In", "on-demand"), requirement(names.ZONE, "In", "z2"))
    labels = dict(node.labels)
    assert labels[names.INSTANCE_TYPE] == "small"
    assert (labels[names.CAPACITY_TYPE], labels[names.ZONE]) == ("on-demand", "z2")
    assert node.allocatable == TYPES[0].allocatable
    assert (node.claim, node.node_pool, node.initialized) == ("c", "default", False)


def test_with_a_slot_it_is_the_node_of_that_slot() -> None:
    node = seen(requirement(names.CAPACITY_TYPE, "In", "reserved"), slot="cr-1")
    labels = dict(node.labels)
    assert (labels[names.INSTANCE_TYPE], labels[names.ZONE]) == ("big", "z2")
    assert labels[RESERVATION_ID] == "cr-1"


def test_what_no_type_suits_has_room_for_its_own_pods_alone() -> None:
    node = seen(
        requirement(names.INSTANCE_TYPE, "In", "gone"), resources={"requests": {"cpu": "3", "memory": "1Gi"}}
    )
    assert node.allocatable["cpu"] == 3000


def test_one_that_waits_for_its_slot_has_room_for_its_own_pods_alone() -> None:
    node = seen(
        requirement(names.CAPACITY_TYPE, "In", "reserved"),
        slot="cr-1",
        waits=True,
        resources={"requests": {"cpu": "3", "memory": "1Gi", "pods": "2"}},
    )
    assert (node.allocatable["cpu"], node.capacity["cpu"]) == (3000, 8000)
    assert (
        node.allocatable["pods"] == TYPES[1].allocatable["pods"] > 2
    )  # as many as there is cpu and memory for


def test_taints_that_pass_are_not_held_against_it() -> None:
    lasting = {"key": "example.com/only", "effect": "NoSchedule"}
    passing = {"key": "example.com/agent", "effect": "NoSchedule"}
    node = seen(taints=[lasting], startupTaints=[passing])
    assert [taint.key for taint in node.taints] == ["example.com/only"]
