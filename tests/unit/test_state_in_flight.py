"""A NodeClaim that is not launched yet is planned as the node that it most likely becomes."""

from dataclasses import replace
from typing import Any

import pytest

from builders import requirement
from holdfast import names
from holdfast.model.snapshot import CloudLabels, NodeView
from holdfast.state.conversion import claims
from objects import nodeclaim
from planner_builders import RESERVATION_ID, instance_type, reservation

LABELS = CloudLabels(
    well_known=names.WELL_KNOWN_LABELS | {RESERVATION_ID},
    reservation_id=RESERVATION_ID,
    reserved=frozenset({RESERVATION_ID}),
)
RESERVED = reservation("cr-1", "big", zone="z2")
TYPES = (instance_type("small", 2, 4, 0.1), instance_type("big", 8, 16, 0.4, [RESERVED]))


def in_flight_node(
    *requirements: dict[str, Any],
    reservation_id: str = "",
    waits: bool = False,
    zone: str = "",
    labels: CloudLabels = LABELS,
    **spec: Any,
) -> NodeView:
    wanted = {
        names.RESERVATION_ID: reservation_id,
        names.WAITS_FOR_INSTANCE: "i-1" * waits,
        names.PREFERRED_ZONE: zone,
    }
    annotations = {key: value for key, value in wanted.items() if value}
    meta = {"labels": {names.NODEPOOL: "default"}, "annotations": annotations}
    claim = nodeclaim("c", meta, requirements=list(requirements), **spec)
    return claims.in_flight_node(claim, TYPES, labels)


@pytest.mark.fact("ST-6")
def test_an_in_flight_node_is_the_cheapest_that_the_claim_allows() -> None:
    node = in_flight_node(
        requirement(names.CAPACITY_TYPE, "In", "on-demand"), requirement(names.ZONE, "In", "z2")
    )
    labels = dict(node.labels)
    assert labels[names.INSTANCE_TYPE] == "small"
    assert (labels[names.CAPACITY_TYPE], labels[names.ZONE]) == ("on-demand", "z2")
    assert node.allocatable == TYPES[0].allocatable
    assert (node.claim, node.node_pool, node.initialized) == ("c", "default", False)


def test_an_in_flight_node_is_in_the_preferred_zone() -> None:
    node = in_flight_node(requirement(names.CAPACITY_TYPE, "In", "on-demand"), zone="z3")
    assert dict(node.labels)[names.ZONE] == "z3"


def test_an_in_flight_node_has_an_instance_type_that_fits_its_requests() -> None:
    on_demand = requirement(names.CAPACITY_TYPE, "In", "on-demand")
    node = in_flight_node(on_demand, resources={"requests": {"cpu": "3", "memory": "1Gi"}})
    assert dict(node.labels)[names.INSTANCE_TYPE] == "big"


def test_an_in_flight_node_has_default_label_values_unless_the_claim_requires_others() -> None:
    default_zone = replace(LABELS, defaults=((names.ZONE, "z2"),))
    assert (
        dict(in_flight_node(requirement(names.CAPACITY_TYPE, "In", "on-demand")).labels)[names.ZONE] == "z1"
    )
    node = in_flight_node(requirement(names.CAPACITY_TYPE, "In", "on-demand"), labels=default_zone)
    assert dict(node.labels)[names.ZONE] == "z2"


def test_an_in_flight_node_with_a_held_slot_is_in_that_reservation() -> None:
    node = in_flight_node(requirement(names.CAPACITY_TYPE, "In", "reserved"), reservation_id="cr-1")
    labels = dict(node.labels)
    assert (labels[names.INSTANCE_TYPE], labels[names.ZONE]) == ("big", "z2")
    assert labels[RESERVATION_ID] == "cr-1"


def test_a_claim_without_a_compatible_instance_type_has_capacity_for_its_own_pods_only() -> None:
    node = in_flight_node(
        requirement(names.INSTANCE_TYPE, "In", "gone"), resources={"requests": {"cpu": "3", "memory": "1Gi"}}
    )
    assert node.allocatable["cpu"] == 3000


def test_a_claim_that_waits_for_its_slot_has_capacity_for_its_own_pods_only() -> None:
    node = in_flight_node(
        requirement(names.CAPACITY_TYPE, "In", "reserved"),
        reservation_id="cr-1",
        waits=True,
        resources={"requests": {"cpu": "3", "memory": "1Gi", "pods": "2"}},
    )
    assert (node.allocatable["cpu"], node.capacity["cpu"]) == (3000, 8000)
    # Only cpu and memory limit the number of pods.
    assert node.allocatable["pods"] == TYPES[1].allocatable["pods"] > 2


def test_startup_taints_of_an_in_flight_node_are_ignored() -> None:
    permanent = {"key": "example.com/only", "effect": "NoSchedule"}
    startup = {"key": "example.com/agent", "effect": "NoSchedule"}
    node = in_flight_node(taints=[permanent], startupTaints=[startup])
    assert [taint.key for taint in node.taints] == ["example.com/only"]


def test_a_claim_with_unreadable_requests_has_no_instance_type() -> None:
    on_demand = requirement(names.CAPACITY_TYPE, "In", "on-demand")
    node = in_flight_node(on_demand, resources={"requests": {"cpu": "1", "memory": "a lot"}})
    assert names.INSTANCE_TYPE not in dict(node.labels)
    assert (node.allocatable["cpu"], node.allocatable["memory"]) == (1000, 0)
