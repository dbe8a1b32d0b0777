"""A claim that is not launched yet, as the node it will most likely be."""

from dataclasses import replace
from typing import Any

import pytest

from builders import requirement
from holdfast import names
from holdfast.model.snapshot import CloudLabels, NodeView
from holdfast.state.conversion import in_flight
from objects import nodeclaim
from planner_builders import RESERVATION_ID, instance_type, reservation

LABELS = CloudLabels(
    well_known=names.WELL_KNOWN_LABELS | {RESERVATION_ID},
    reservation_id=RESERVATION_ID,
    reserved=frozenset({RESERVATION_ID}),
)
SLOT = reservation("cr-1", "big", zone="z2")
TYPES = (instance_type("small", 2, 4, 0.1), instance_type("big", 8, 16, 0.4, [SLOT]))


def seen(
    *requirements: dict[str, Any],
    slot: str = "",
    waits: bool = False,
    zone: str = "",
    labels: CloudLabels = LABELS,
    **spec: Any,
) -> NodeView:
    wanted = {names.RESERVATION_ID: slot, names.WAITS_FOR_INSTANCE: "i-1" * waits, names.PREFERRED_ZONE: zone}
    notes = {key: value for key, value in wanted.items() if value}
    meta = {"labels": {names.NODEPOOL: "default"}, "annotations": notes}
    claim = nodeclaim("c", meta, requirements=list(requirements), **spec)
    return in_flight.view(claim, TYPES, labels)


@pytest.mark.fact("ST-6")
def test_it_is_the_cheapest_node_that_the_claim_allows() -> None:
    node = seen(requirement(names.CAPACITY_TYPE, "In", "on-demand"), requirement(names.ZONE, "In", "z2"))
    labels = dict(node.labels)
    assert labels[names.INSTANCE_TYPE] == "small"
    assert (labels[names.CAPACITY_TYPE], labels[names.ZONE]) == ("on-demand", "z2")
    assert node.allocatable == TYPES[0].allocatable
    assert (node.claim, node.node_pool, node.initialized) == ("c", "default", False)


def test_it_is_in_the_zone_that_the_launch_prefers() -> None:
    node = seen(requirement(names.CAPACITY_TYPE, "In", "on-demand"), zone="z3")
    assert dict(node.labels)[names.ZONE] == "z3"


def test_it_is_of_a_type_that_has_capacity_for_its_pods() -> None:
    on_demand = requirement(names.CAPACITY_TYPE, "In", "on-demand")
    node = seen(on_demand, resources={"requests": {"cpu": "3", "memory": "1Gi"}})
    assert dict(node.labels)[names.INSTANCE_TYPE] == "big"


def test_it_has_no_value_other_than_the_default_that_the_claim_does_not_ask_for() -> None:
    only_by_name = replace(LABELS, defaults=((names.ZONE, "z2"),))
    assert dict(seen(requirement(names.CAPACITY_TYPE, "In", "on-demand")).labels)[names.ZONE] == "z1"
    node = seen(requirement(names.CAPACITY_TYPE, "In", "on-demand"), labels=only_by_name)
    assert dict(node.labels)[names.ZONE] == "z2"


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


def test_a_claim_whose_requests_cannot_be_read_is_no_offering() -> None:
    on_demand = requirement(names.CAPACITY_TYPE, "In", "on-demand")
    node = seen(on_demand, resources={"requests": {"cpu": "1", "memory": "a lot"}})
    assert names.INSTANCE_TYPE not in dict(node.labels)
    assert (node.allocatable["cpu"], node.allocatable["memory"]) == (1000, 0)
