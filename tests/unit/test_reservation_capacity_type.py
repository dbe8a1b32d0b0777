"""The capacity labels of a node follow its instance, not the request."""

from dataclasses import replace

import pytest

from holdfast import names
from holdfast.controllers.reservations import capacity_type as controller
from holdfast.core.reservations import capacity_type
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.snapshot import CloudLabels

ID, KIND, INTERRUPTIBLE = "cloud/reservation-id", "cloud/reservation-kind", "cloud/interruptible"
KEYS = CloudLabels(frozenset(), ID, frozenset({ID, KIND, INTERRUPTIBLE}))
OTHER_LABELS = {names.ZONE: "a", "team": "blue"}


def of_reservation(id_: str, kind: str = "default") -> dict[str, str]:
    return {names.CAPACITY_TYPE: "reserved", ID: id_, KIND: kind, INTERRUPTIBLE: "false"}


def instance(
    reported: dict[str, str], reservation_id: str | None = None, state: InstanceState = InstanceState.RUNNING
) -> Instance:
    labels = tuple(sorted((OTHER_LABELS | reported).items()))
    kind = reported[names.CAPACITY_TYPE]
    return Instance("id", "m", "a", kind, state, 0, reservation_id=reservation_id, labels=labels)


ON_DEMAND = {names.CAPACITY_TYPE: "on-demand"}
SPOT = {names.CAPACITY_TYPE: "spot"}
NO_RESERVATION = {names.CAPACITY_TYPE: "on-demand", ID: None, KIND: None, INTERRUPTIBLE: None}


@pytest.mark.fact("aws-14.8")
@pytest.mark.parametrize(
    ("labels", "found", "changes"),
    [
        (of_reservation("cr-1"), instance(of_reservation("cr-1"), "cr-1"), {}),
        (ON_DEMAND, instance(ON_DEMAND), {}),
        (of_reservation("cr-1"), instance(ON_DEMAND), NO_RESERVATION),
        (of_reservation("cr-1"), instance(of_reservation("cr-2"), "cr-2"), {ID: "cr-2"}),
        (of_reservation("cr-1", "block"), instance(of_reservation("cr-2"), "cr-2"), {ID: "cr-2", KIND: "default"}),
        (ON_DEMAND, instance(of_reservation("cr-1"), "cr-1"), of_reservation("cr-1")),
        (ON_DEMAND, instance(ON_DEMAND, "cr-unselected"), {}),
        (of_reservation("cr-1"), instance(ON_DEMAND, "cr-1"), {}),
        (of_reservation("cr-1"), instance(ON_DEMAND, "cr-unselected"), {ID: "cr-unselected"}),
        (of_reservation("cr-1"), instance(SPOT), {}),
    ],
    ids=[
        "nothing changed",
        "nothing changed on demand",
        "left its reservation",
        "moved to another reservation",
        "moved to a reservation of another kind",
        "moved into a reservation",
        "in a reservation that is not selected",
        "its reservation is no longer selected",
        "moved to a reservation that is not selected",
        "spot",
    ],
)  # fmt: skip
def test_capacity_labels_follow_the_instance(
    labels: dict[str, str], found: Instance, changes: dict[str, str | None]
) -> None:
    assert capacity_type.changes(OTHER_LABELS | labels, found, KEYS, frozenset()) == changes


def test_applied_changes_cause_no_further_changes() -> None:
    for found in (instance(ON_DEMAND), instance(of_reservation("cr-2"), "cr-2"), instance(ON_DEMAND, "cr-3")):
        labels = OTHER_LABELS | of_reservation("cr-1")
        changed = {
            key: value
            for key, value in (labels | capacity_type.changes(labels, found, KEYS, frozenset())).items()
            if value is not None
        }
        assert changed != labels
        assert capacity_type.changes(changed, found, KEYS, frozenset()) == {}


def test_in_direct_mode_only_the_reservation_id_label_changes() -> None:
    """The launch template refers to the reservation: the label has the id that the cloud reports."""
    direct = ON_DEMAND | {ID: "cr-1"}
    assert capacity_type.changes(direct, instance(direct, "cr-1"), KEYS, frozenset()) == {}
    assert capacity_type.changes(direct, instance(ON_DEMAND | {ID: "cr-2"}, "cr-2"), KEYS, frozenset()) == {
        ID: "cr-2"
    }
    assert capacity_type.changes(direct, instance(ON_DEMAND), KEYS, frozenset()) == {ID: None}


def test_an_instance_listed_before_its_reservation_ended_changes_nothing() -> None:
    stale = instance(of_reservation("cr-1"), "cr-1")
    assert capacity_type.changes(ON_DEMAND, stale, KEYS, frozenset({"cr-1"})) == {}
    assert capacity_type.changes(ON_DEMAND, stale, KEYS, frozenset({"cr-2"})) == of_reservation("cr-1")


@pytest.mark.parametrize("state", [InstanceState.ENDING, InstanceState.GONE])
def test_a_terminating_instance_changes_nothing(state: InstanceState) -> None:
    assert (
        capacity_type.changes(of_reservation("cr-1"), instance(ON_DEMAND, state=state), KEYS, frozenset())
        == {}
    )


def test_a_change_is_confirmed_only_by_a_second_list() -> None:
    listed = instance(ON_DEMAND)
    assert not controller._confirms(listed, None, is_new=True)
    assert not controller._confirms(
        listed, listed, is_new=False
    )  # one list of many pages serves several reads
    assert controller._confirms(listed, listed, is_new=True)
    assert not controller._confirms(replace(listed, capacity_type="spot"), listed, is_new=True)
    assert not controller._confirms(replace(listed, reservation_id="cr-1"), listed, is_new=True)
