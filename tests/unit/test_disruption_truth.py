"""Labels follow what the cloud says of a machine."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.disruption import truth
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.snapshot import CloudLabels
from planner_builders import RESERVATION_ID, WELL_KNOWN

KIND, BRIEF = "cloud.example/reservation-kind", "cloud.example/interruptible"
CLOUD = CloudLabels(WELL_KNOWN, RESERVATION_ID, frozenset({RESERVATION_ID, KIND, BRIEF}))
ON_DEMAND = {names.CAPACITY_TYPE: names.ON_DEMAND, "team": "web"}
IN_CR_1 = {RESERVATION_ID: "cr-1", KIND: "default", BRIEF: "false"}
RESERVED = {names.CAPACITY_TYPE: names.RESERVED, "team": "web"} | IN_CR_1


def machine(capacity_type: str, id_: str | None = None, **more: Any) -> Instance:
    labels = {names.CAPACITY_TYPE: capacity_type}
    if capacity_type == names.RESERVED and id_ is not None:
        labels |= {RESERVATION_ID: id_, KIND: "default", BRIEF: "false"}
    return Instance(
        "id-1",
        "m5.large",
        "z1",
        capacity_type,
        more.pop("state", InstanceState.RUNNING),
        0,
        reservation_id=id_,
        labels=tuple(sorted((labels | more.pop("labels", {})).items())),
    )


@pytest.mark.fact("Q-26", "aws-6.1.3", "aws-6.1.4")
def test_a_node_that_left_its_reservation_is_on_demand_and_loses_every_reservation_label() -> None:
    assert truth.changes(RESERVED, machine(names.ON_DEMAND), CLOUD) == {
        names.CAPACITY_TYPE: names.ON_DEMAND,
        RESERVATION_ID: None,
        KIND: None,
        BRIEF: None,
    }


@pytest.mark.fact("aws-6.1.4")
def test_a_label_that_was_left_behind_goes_too() -> None:
    assert truth.changes(ON_DEMAND | {BRIEF: "false"}, machine(names.ON_DEMAND), CLOUD) == {BRIEF: None}


@pytest.mark.fact("aws-6.1.8")
def test_a_machine_that_was_moved_to_another_reservation_has_its_id() -> None:
    assert truth.changes(RESERVED, machine(names.RESERVED, "cr-2"), CLOUD) == {RESERVATION_ID: "cr-2"}


def test_a_machine_that_was_moved_to_a_reservation_that_nobody_selects_is_still_reserved() -> None:
    """Whether it may be there is drift's question."""
    assert truth.changes(RESERVED, machine(names.ON_DEMAND, "cr-9"), CLOUD) == {RESERVATION_ID: "cr-9"}


@pytest.mark.fact("aws-6.1.2")
def test_a_machine_that_the_cloud_put_in_a_selected_reservation_is_promoted() -> None:
    assert (
        truth.changes(ON_DEMAND, machine(names.RESERVED, "cr-1"), CLOUD)
        == {names.CAPACITY_TYPE: names.RESERVED} | IN_CR_1
    )


def test_a_machine_in_a_reservation_that_its_class_does_not_select_stays_on_demand() -> None:
    assert truth.changes(ON_DEMAND, machine(names.ON_DEMAND, "cr-9"), CLOUD) == {}


def test_where_the_cloud_says_the_id_of_a_node_on_demand_it_is_kept() -> None:
    direct = machine(names.ON_DEMAND, "cr-9", labels={RESERVATION_ID: "cr-9"})
    assert truth.changes(ON_DEMAND | {RESERVATION_ID: "cr-9"}, direct, CLOUD) == {}
    assert truth.changes(ON_DEMAND, direct, CLOUD) == {RESERVATION_ID: "cr-9"}


@pytest.mark.fact("aws-6.1.2")
def test_spot_is_spot_and_what_is_true_is_left_as_it_is() -> None:
    assert truth.changes({names.CAPACITY_TYPE: names.SPOT}, machine(names.SPOT), CLOUD) == {}
    assert truth.changes(RESERVED, machine(names.RESERVED, "cr-1"), CLOUD) == {}
    assert truth.changes(ON_DEMAND, machine(names.ON_DEMAND), CLOUD) == {}


def test_a_machine_that_is_gone_or_a_claim_that_was_not_launched_changes_nothing() -> None:
    assert truth.changes(RESERVED, machine(names.ON_DEMAND, state=InstanceState.GONE), CLOUD) == {}
    assert truth.changes({"team": "web"}, machine(names.ON_DEMAND), CLOUD) == {}


@pytest.mark.fact("Q-26")
def test_twice_is_once() -> None:
    for says in (machine(names.ON_DEMAND), machine(names.RESERVED, "cr-2"), machine(names.ON_DEMAND, "cr-9")):
        changed = truth.changes(RESERVED, says, CLOUD)
        after = {k: v for k, v in (RESERVED | changed).items() if v is not None}
        assert truth.changes(after, says, CLOUD) == {}
