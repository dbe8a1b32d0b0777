"""The checker's rules about reserved capacity."""

from typing import Any

import pytest

from checker import check
from checker.samples import (
    A,
    B,
    Document,
    big_claim,
    catalog,
    claim,
    node_class,
    plan,
    pod,
    pool,
    reservation,
    slot_claim,
    unplaced,
    wanted,
)
from holdfast import names
from holdfast.api import aws


def rules(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.check(documents, found)}


def scenario(*more: Document, **of_reservation: Any) -> list[Document]:
    """One pool, one reservation of a small node in zone a with one slot, one pod."""
    listed = [reservation(**of_reservation)]
    return [catalog(reservations=listed), pool(), node_class(), pod("p"), *more]


def test_a_claim_with_a_slot_is_reserved_and_nothing_else() -> None:
    good = slot_claim("p")
    assert rules(scenario(), plan(good)) == set()
    loose = [one for one in good["requirements"] if one["key"] != names.CAPACITY_TYPE]
    both = wanted(names.CAPACITY_TYPE, "In", names.RESERVED, names.ON_DEMAND)
    assert rules(scenario(), plan({**good, "requirements": [*loose, both]})) == {"slot-pinned"}


def test_a_claim_without_a_slot_is_never_reserved() -> None:
    full = scenario(available=0)
    bought = claim("p")
    assert rules(full, plan(bought)) == set()
    loose = [one for one in bought["requirements"] if one["key"] != names.CAPACITY_TYPE]
    assert rules(full, plan({**bought, "requirements": loose})) == {"slot-pinned"}


def test_reserved_means_with_a_slot() -> None:
    told = slot_claim("p", capacityType=names.ON_DEMAND, pricePerHour="0.10", reservationIDs=[])
    assert "slot-pinned" in rules(scenario(), plan(told))


def test_a_claim_lists_its_slot_and_requires_what_it_lists() -> None:
    two = [reservation(), reservation("cr-2")]
    documents = [catalog(reservations=two), pool(), node_class(), pod("p")]
    good = slot_claim("p", reservationIDs=["cr-1", "cr-2"])
    left = {"cr-1": 0, "cr-2": 1}
    assert rules(documents, plan(good, slotsLeft=left)) == set()
    assert rules(documents, plan(good | {"reservationIDs": ["cr-1"]}, slotsLeft=left)) == {"slot-ids"}
    elsewhere = good | {"reservationIDs": ["cr-2"]}
    assert rules(documents, plan(elsewhere, slotsLeft=left)) == {"slot-ids"}


def test_a_claim_without_a_slot_lists_no_reservations() -> None:
    told = claim("p") | {"reservationIDs": ["cr-1"]}
    excluded = scenario(available=0)
    assert "slot-ids" in rules(excluded, plan(told))


@pytest.mark.parametrize(
    "broken",
    [
        {"ownerID": "444455556666"},  # not selected
        {"state": "expired"},
        {"start": "2026-11-16T00:00:00Z"},
        {"end": "2026-11-15T10:00:00Z"},
        {"type": "capacity-block", "end": "2026-11-15T10:40:00Z"},  # its drain begins now
        {"zone": B},
        {"interruptible": True},
    ],
)
def test_every_reservation_that_a_claim_lists_would_do(broken: Document) -> None:
    def documents(**second: Any) -> list[Document]:
        listed = [reservation(), reservation("cr-2", **second)]
        return [catalog(reservations=listed), pool(), node_class(), pod("p")]

    only = wanted(aws.CAPACITY_RESERVATION_INTERRUPTIBLE, "In", "false")
    good = slot_claim("p", reservationIDs=["cr-1", "cr-2"], extra=[only])
    told = plan(good, slotsLeft={"cr-2": 1})
    assert rules(documents(), told) == set()
    assert rules(documents(type="capacity-block", end="2026-11-15T10:41:00Z"), told) == set()
    assert rules(documents(**broken), told) == {"slot-usable"}


def test_a_reservation_that_is_too_small_does_not_suit() -> None:
    listed = [reservation(), reservation("cr-2", instanceType="large")]
    documents = [catalog(reservations=listed), pool(), node_class(), pod("p", cpu="3")]
    big = slot_claim("p", slot="cr-2", instanceType="large")
    assert rules(documents, plan(big, slotsLeft={"cr-1": 1})) == set()
    both = slot_claim("p", slot="cr-2", instanceType="large", reservationIDs=["cr-1", "cr-2"])
    assert rules(documents, plan(both, slotsLeft={"cr-1": 1})) == {"slot-usable"}


def test_a_class_sees_what_its_status_says() -> None:
    documents = scenario()
    documents[2]["status"] = {"capacityReservations": [{"id": "cr-other"}]}
    assert "slot-usable" in rules(documents, plan(slot_claim("p")))


@pytest.mark.parametrize(
    ("term", "seen"),
    [
        ({"id": "cr-1"}, True),
        ({"id": "cr-2"}, False),
        ({"tags": {"team": "*"}}, True),
        ({"tags": {"team": "ml"}, "ownerID": "111122223333"}, True),
        ({"tags": {"team": "web"}, "ownerID": "111122223333"}, False),
        ({"tags": {"team": "*", "env": "*"}}, False),
        ({"instanceMatchCriteria": "targeted"}, True),
    ],
)
def test_a_class_selects_by_its_terms(term: Document, *, seen: bool) -> None:
    documents = scenario(tags={"team": "ml"}, instanceMatchCriteria="targeted")
    documents[2]["spec"]["capacityReservationSelectorTerms"] = [term]
    assert ("slot-usable" not in rules(documents, plan(slot_claim("p")))) == seen


def test_a_full_reservation_is_never_oversold() -> None:
    documents = scenario(pod("q"))
    assert rules(documents, plan(slot_claim("p"), claim("q"))) == set()
    assert rules(documents, plan(slot_claim("p"), slot_claim("q"))) == {"slot-oversold"}


def holder(**status: Any) -> Document:
    metadata = {"name": "holder", "annotations": {names.RESERVATION_ID: "cr-1"}}
    return {"kind": "NodeClaim", "metadata": metadata, "spec": {}, "status": status}


def launched(moment: str) -> list[Document]:
    return [{"type": "Launched", "status": "True", "lastTransitionTime": moment}]


def test_a_launch_on_its_way_holds_its_slot() -> None:
    documents = [catalog(reservations=[reservation(total=2)]), pool(), node_class(), pod("p"), pod("q")]
    both = plan(slot_claim("p"), slot_claim("q"))
    assert rules(documents, both) == set()
    assert rules([*documents, holder()], both) == {"slot-oversold"}
    late = {"providerID": "i-1", "conditions": launched("2026-11-15T09:59:00Z")}
    assert rules([*documents, holder(**late)], both) == {"slot-oversold"}
    counted = {"providerID": "i-1", "conditions": launched("2026-11-15T09:50:00Z")}
    assert rules([*documents, holder(**counted)], both) == set()


def test_the_slots_that_are_left_are_said_truly() -> None:
    documents = [catalog(reservations=[reservation(total=3)]), pool(), node_class(), pod("p")]
    assert rules(documents, plan(slot_claim("p"), slotsLeft={"cr-1": 2})) == set()
    for wrong in ({"cr-1": 3}, {}, {"cr-1": 2, "cr-2": 0}):
        assert rules(documents, plan(slot_claim("p"), slotsLeft=wrong)) == {"slots-left"}


def test_nothing_is_bought_while_a_paid_slot_would_do() -> None:
    told = plan(claim("p"), slotsLeft={"cr-1": 1})
    assert rules(scenario(), told) == {"paid-slot-left"}
    on_demand = [wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND)]
    heavy = pool("heavy", weight=10, requirements=on_demand)
    weighted = plan(claim("p", nodePool="heavy"), slotsLeft={"cr-1": 1})
    assert rules(scenario(heavy), weighted) == {"paid-slot-left"}
    by_weight = catalog(reservations=[reservation()], reservedBeforeWeight=False)
    assert rules([by_weight, *scenario(heavy)[1:]], weighted) == set()


def test_a_pod_that_excludes_reserved_leaves_the_slot() -> None:
    documents = [*scenario()[:3], pod("p", nodeSelector={names.CAPACITY_TYPE: names.ON_DEMAND})]
    assert rules(documents, plan(claim("p"), slotsLeft={"cr-1": 1})) == set()


def test_a_slot_that_only_some_pods_of_a_node_could_use_is_no_mistake() -> None:
    documents = [*scenario()[:3], pod("big", cpu="5"), pod("little", cpu="1")]
    assert rules(documents, plan(big_claim("big", "little"), slotsLeft={"cr-1": 1})) == set()


def test_a_pool_without_reserved_is_no_way_to_the_slot() -> None:
    bought = pool(requirements=[wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND)])
    documents = [catalog(reservations=[reservation()]), bought, node_class(), pod("p")]
    assert rules(documents, plan(claim("p"), slotsLeft={"cr-1": 1})) == set()
    assert rules([*documents, pool("other")], plan(claim("p"), slotsLeft={"cr-1": 1})) == {"paid-slot-left"}


def test_a_reservation_written_as_an_offering_is_one_too() -> None:
    documents = scenario()
    spec = documents[0]["spec"]
    found = spec["reservations"].pop()
    offering = {"zone": A, "capacityType": names.RESERVED, "reservation": found}
    spec["instanceTypes"][0]["offerings"].append(offering)
    assert rules(documents, plan(slot_claim("p"))) == set()
    assert rules(documents, plan(claim("p"), slotsLeft={"cr-1": 1})) == {"paid-slot-left"}


def test_an_unplaced_pod_had_a_slot_to_go_to() -> None:
    only = pool(requirements=[wanted(names.CAPACITY_TYPE, "In", names.RESERVED)])
    documents = [catalog(reservations=[reservation()]), only, node_class(), pod("p")]
    told = plan(unplaced=[unplaced("p")], slotsLeft={"cr-1": 1})
    assert rules(documents, told) == {"placeable"}
    full = [catalog(reservations=[reservation(available=0)]), *documents[1:]]
    assert rules(full, plan(unplaced=[unplaced("p")])) == set()
