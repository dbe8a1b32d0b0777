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


def test_claim_with_a_slot_allows_only_capacity_type_reserved() -> None:
    good = slot_claim("p")
    assert rules(scenario(), plan(good)) == set()
    other_requirements = [one for one in good["requirements"] if one["key"] != names.CAPACITY_TYPE]
    both = wanted(names.CAPACITY_TYPE, "In", names.RESERVED, names.ON_DEMAND)
    assert rules(scenario(), plan({**good, "requirements": [*other_requirements, both]})) == {"slot-pinned"}


def test_claim_without_a_slot_does_not_allow_reserved() -> None:
    full = scenario(available=0)
    on_demand = claim("p")
    assert rules(full, plan(on_demand)) == set()
    other_requirements = [one for one in on_demand["requirements"] if one["key"] != names.CAPACITY_TYPE]
    assert rules(full, plan({**on_demand, "requirements": other_requirements})) == {"slot-pinned"}


def test_claim_with_a_slot_is_not_on_demand() -> None:
    with_slot = slot_claim("p", capacityType=names.ON_DEMAND, pricePerHour="0.10", reservationIDs=[])
    assert "slot-pinned" in rules(scenario(), plan(with_slot))


def test_claim_lists_its_reservation_and_requires_the_listed_ids() -> None:
    two = [reservation(), reservation("cr-2")]
    documents = [catalog(reservations=two), pool(), node_class(), pod("p")]
    good = slot_claim("p", reservationIDs=["cr-1", "cr-2"])
    left = {"cr-1": 0, "cr-2": 1}
    assert rules(documents, plan(good, slotsLeft=left)) == set()
    assert rules(documents, plan(good | {"reservationIDs": ["cr-1"]}, slotsLeft=left)) == {"slot-ids"}
    another_id = good | {"reservationIDs": ["cr-2"]}
    assert rules(documents, plan(another_id, slotsLeft=left)) == {"slot-ids"}


def test_a_claim_without_a_slot_lists_no_reservations() -> None:
    with_ids = claim("p") | {"reservationIDs": ["cr-1"]}
    full = scenario(available=0)
    assert "slot-ids" in rules(full, plan(with_ids))


@pytest.mark.parametrize(
    "broken",
    [
        {"ownerID": "444455556666"},  # not selected
        {"state": "expired"},
        {"start": "2026-11-16T00:00:00Z"},
        {"end": "2026-11-15T10:00:00Z"},
        {"type": "capacity-block", "end": "2026-11-15T10:40:00Z"},  # its drain starts now
        {"zone": B},
        {"interruptible": True},
    ],
)
def test_every_listed_reservation_is_usable(broken: Document) -> None:
    def documents(**second: Any) -> list[Document]:
        listed = [reservation(), reservation("cr-2", **second)]
        return [catalog(reservations=listed), pool(), node_class(), pod("p")]

    only = wanted(aws.CAPACITY_RESERVATION_INTERRUPTIBLE, "In", "false")
    good = slot_claim("p", reservationIDs=["cr-1", "cr-2"], extra=[only])
    both_listed = plan(good, slotsLeft={"cr-2": 1})
    assert rules(documents(), both_listed) == set()
    assert rules(documents(type="capacity-block", end="2026-11-15T10:41:00Z"), both_listed) == set()
    assert rules(documents(**broken), both_listed) == {"slot-usable"}


@pytest.mark.parametrize(
    ("ends", "deadline_s"), [("2026-11-15T11:44:59Z", 3600), ("2026-11-15T11:45:00Z", 3601)]
)
def test_pod_is_in_no_block_that_is_drained_before_it_ends(ends: str, deadline_s: int) -> None:
    def broken(ends: str, deadline_s: int) -> set[str]:
        listed = [reservation(type="capacity-block", end=ends)]
        member = pod("p", activeDeadlineSeconds=deadline_s)
        return rules([catalog(reservations=listed), pool(), node_class(), member], plan(slot_claim("p")))

    assert broken("2026-11-15T11:45:00Z", 3600) == set()  # it ends when the drain begins
    assert broken(ends, deadline_s) == {"slot-lasting"}


def test_listed_reservation_of_a_too_small_type_is_unusable() -> None:
    listed = [reservation(), reservation("cr-2", instanceType="large")]
    documents = [catalog(reservations=listed), pool(), node_class(), pod("p", cpu="3")]
    big = slot_claim("p", slot="cr-2", instanceType="large")
    assert rules(documents, plan(big, slotsLeft={"cr-1": 1})) == set()
    both = slot_claim("p", slot="cr-2", instanceType="large", reservationIDs=["cr-1", "cr-2"])
    assert rules(documents, plan(both, slotsLeft={"cr-1": 1})) == {"slot-usable"}


def test_reservations_come_from_the_status_of_the_ec2nodeclass() -> None:
    documents = scenario()
    documents[2]["status"] = {"capacityReservations": [{"id": "cr-other"}]}
    assert "slot-usable" in rules(documents, plan(slot_claim("p")))


@pytest.mark.parametrize(
    ("term", "selected"),
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
def test_ec2nodeclass_selects_reservations_by_its_terms(term: Document, *, selected: bool) -> None:
    documents = scenario(tags={"team": "ml"}, instanceMatchCriteria="targeted")
    documents[2]["spec"]["capacityReservationSelectorTerms"] = [term]
    assert ("slot-usable" not in rules(documents, plan(slot_claim("p")))) == selected


def test_a_full_reservation_is_never_oversold() -> None:
    documents = scenario(pod("q"))
    assert rules(documents, plan(slot_claim("p"), claim("q"))) == set()
    assert rules(documents, plan(slot_claim("p"), slot_claim("q"))) == {"slot-oversold"}


def holder(**status: Any) -> Document:
    metadata = {"name": "holder", "annotations": {names.RESERVATION_ID: "cr-1"}}
    return {"kind": "NodeClaim", "metadata": metadata, "spec": {}, "status": status}


def launched(moment: str) -> list[Document]:
    return [{"type": "Launched", "status": "True", "lastTransitionTime": moment}]


def test_nodeclaim_holds_its_slot_until_ec2_counts_it() -> None:
    documents = [catalog(reservations=[reservation(total=2)]), pool(), node_class(), pod("p"), pod("q")]
    both = plan(slot_claim("p"), slot_claim("q"))
    assert rules(documents, both) == set()
    assert rules([*documents, holder()], both) == {"slot-oversold"}
    recent = {"providerID": "i-1", "conditions": launched("2026-11-15T09:59:00Z")}
    assert rules([*documents, holder(**recent)], both) == {"slot-oversold"}
    counted = {"providerID": "i-1", "conditions": launched("2026-11-15T09:50:00Z")}
    assert rules([*documents, holder(**counted)], both) == set()


def test_slots_left_are_the_free_slots() -> None:
    documents = [catalog(reservations=[reservation(total=3)]), pool(), node_class(), pod("p")]
    assert rules(documents, plan(slot_claim("p"), slotsLeft={"cr-1": 2})) == set()
    for wrong in ({"cr-1": 3}, {}, {"cr-1": 2, "cr-2": 0}):
        assert rules(documents, plan(slot_claim("p"), slotsLeft=wrong)) == {"slots-left"}


def test_nothing_is_launched_on_demand_while_a_slot_fits() -> None:
    without_slot = plan(claim("p"), slotsLeft={"cr-1": 1})
    assert rules(scenario(), without_slot) == {"paid-slot-left"}
    on_demand = [wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND)]
    heavy = pool("heavy", weight=10, requirements=on_demand)
    weighted = plan(claim("p", nodePool="heavy"), slotsLeft={"cr-1": 1})
    assert rules(scenario(heavy), weighted) == {"paid-slot-left"}
    by_weight = catalog(reservations=[reservation()], reservedBeforeWeight=False)
    assert rules([by_weight, *scenario(heavy)[1:]], weighted) == set()


def test_pod_that_excludes_reserved_uses_no_slot() -> None:
    documents = [*scenario()[:3], pod("p", nodeSelector={names.CAPACITY_TYPE: names.ON_DEMAND})]
    assert rules(documents, plan(claim("p"), slotsLeft={"cr-1": 1})) == set()


def test_slot_that_fits_only_some_pods_of_a_node_may_stay_free() -> None:
    documents = [*scenario()[:3], pod("big", cpu="5"), pod("little", cpu="1")]
    assert rules(documents, plan(big_claim("big", "little"), slotsLeft={"cr-1": 1})) == set()


def test_nodepool_without_reserved_cannot_use_the_slot() -> None:
    on_demand_pool = pool(requirements=[wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND)])
    documents = [catalog(reservations=[reservation()]), on_demand_pool, node_class(), pod("p")]
    assert rules(documents, plan(claim("p"), slotsLeft={"cr-1": 1})) == set()
    assert rules([*documents, pool("other")], plan(claim("p"), slotsLeft={"cr-1": 1})) == {"paid-slot-left"}


def test_reservation_in_an_offering_is_treated_like_one_in_the_catalog() -> None:
    documents = scenario()
    spec = documents[0]["spec"]
    found = spec["reservations"].pop()
    offering = {"zone": A, "capacityType": names.RESERVED, "reservation": found}
    spec["instanceTypes"][0]["offerings"].append(offering)
    assert rules(documents, plan(slot_claim("p"))) == set()
    assert rules(documents, plan(claim("p"), slotsLeft={"cr-1": 1})) == {"paid-slot-left"}


def test_unplaced_pod_that_fits_a_slot_is_reported() -> None:
    only = pool(requirements=[wanted(names.CAPACITY_TYPE, "In", names.RESERVED)])
    documents = [catalog(reservations=[reservation()]), only, node_class(), pod("p")]
    without_claims = plan(unplaced=[unplaced("p")], slotsLeft={"cr-1": 1})
    assert rules(documents, without_claims) == {"placeable"}
    full = [catalog(reservations=[reservation(available=0)]), *documents[1:]]
    assert rules(full, plan(unplaced=[unplaced("p")])) == set()
