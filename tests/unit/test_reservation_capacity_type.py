"""Labels of capacity follow the machine, whatever was asked for."""

from dataclasses import replace

import pytest

from holdfast import names
from holdfast.controllers.reservations import capacity_type as controller
from holdfast.core.reservations import capacity_type
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.snapshot import CloudLabels

ID, KIND, INTERRUPTIBLE = "cloud/reservation-id", "cloud/reservation-kind", "cloud/interruptible"
KEYS = CloudLabels(frozenset(), ID, frozenset({ID, KIND, INTERRUPTIBLE}))
OTHERS = {names.ZONE: "a", "team": "blue"}


def of_reservation(id_: str, kind: str = "default") -> dict[str, str]:
    return {names.CAPACITY_TYPE: "reserved", ID: id_, KIND: kind, INTERRUPTIBLE: "false"}


def machine(
    said: dict[str, str], in_: str | None = None, state: InstanceState = InstanceState.RUNNING
) -> Instance:
    labels = tuple(sorted((OTHERS | said).items()))
    kind = said[names.CAPACITY_TYPE]
    return Instance("id", "m", "a", kind, state, 0, reservation_id=in_, labels=labels)


ON_DEMAND = {names.CAPACITY_TYPE: "on-demand"}
SPOT = {names.CAPACITY_TYPE: "spot"}
LOST = {names.CAPACITY_TYPE: "on-demand", ID: None, KIND: None, INTERRUPTIBLE: None}


@pytest.mark.fact("aws-14.8")
@pytest.mark.parametrize(
    ("labels", "found", "changes"),
    [
        (of_reservation("cr-1"), machine(of_reservation("cr-1"), "cr-1"), {}),
        (ON_DEMAND, machine(ON_DEMAND), {}),
        (of_reservation("cr-1"), machine(ON_DEMAND), LOST),
        (of_reservation("cr-1"), machine(of_reservation("cr-2"), "cr-2"), {ID: "cr-2"}),
        (of_reservation("cr-1", "block"), machine(of_reservation("cr-2"), "cr-2"), {ID: "cr-2", KIND: "default"}),
        (ON_DEMAND, machine(of_reservation("cr-1"), "cr-1"), of_reservation("cr-1")),
        (ON_DEMAND, machine(ON_DEMAND, "cr-unselected"), {}),
        (of_reservation("cr-1"), machine(ON_DEMAND, "cr-1"), {}),
        (of_reservation("cr-1"), machine(ON_DEMAND, "cr-unselected"), {ID: "cr-unselected"}),
        (of_reservation("cr-1"), machine(SPOT), {}),
    ],
    ids=[
        "nothing changed",
        "nothing changed outside",
        "it left",
        "it was moved",
        "it was moved to another kind",
        "promoted",
        "in one that nobody selected",
        "its own is not selected any more",
        "moved to one that nobody selected",
        "spot",
    ],
)  # fmt: skip
def test_what_a_node_is_follows_its_machine(
    labels: dict[str, str], found: Instance, changes: dict[str, str | None]
) -> None:
    assert capacity_type.changes(OTHERS | labels, found, KEYS, frozenset()) == changes


def test_after_a_change_there_is_nothing_left_to_change() -> None:
    for found in (machine(ON_DEMAND), machine(of_reservation("cr-2"), "cr-2"), machine(ON_DEMAND, "cr-3")):
        labels = OTHERS | of_reservation("cr-1")
        changed = {
            key: value
            for key, value in (labels | capacity_type.changes(labels, found, KEYS, frozenset())).items()
            if value is not None
        }
        assert changed != labels
        assert capacity_type.changes(changed, found, KEYS, frozenset()) == {}


def test_a_node_whose_reservation_is_shown_without_being_reserved_keeps_its_capacity_type() -> None:
    """As where a class targets one itself: the id is as the cloud says."""
    direct = ON_DEMAND | {ID: "cr-1"}
    assert capacity_type.changes(direct, machine(direct, "cr-1"), KEYS, frozenset()) == {}
    assert capacity_type.changes(direct, machine(ON_DEMAND | {ID: "cr-2"}, "cr-2"), KEYS, frozenset()) == {
        ID: "cr-2"
    }
    assert capacity_type.changes(direct, machine(ON_DEMAND), KEYS, frozenset()) == {ID: None}


def test_a_look_from_before_a_reservation_was_over_changes_nothing() -> None:
    early = machine(of_reservation("cr-1"), "cr-1")
    assert capacity_type.changes(ON_DEMAND, early, KEYS, frozenset({"cr-1"})) == {}
    assert capacity_type.changes(ON_DEMAND, early, KEYS, frozenset({"cr-2"})) == of_reservation("cr-1")


@pytest.mark.parametrize("state", [InstanceState.ENDING, InstanceState.GONE])
def test_a_machine_that_ends_changes_nothing_any_more(state: InstanceState) -> None:
    assert (
        capacity_type.changes(of_reservation("cr-1"), machine(ON_DEMAND, state=state), KEYS, frozenset())
        == {}
    )


def test_a_change_is_confirmed_only_by_a_second_list() -> None:
    seen = machine(ON_DEMAND)
    assert not controller._confirms(seen, None)
    assert not controller._confirms(seen, seen)  # one list of many pages serves several reads
    assert controller._confirms(replace(seen), seen)
    assert not controller._confirms(replace(seen, capacity_type="spot"), seen)
    assert not controller._confirms(replace(seen, reservation_id="cr-1"), seen)
