"""What the status of node classes and NodePools shows of the ledger."""

import dataclasses

import msgspec

from builders import ec2nodeclass
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.status import Subnet
from holdfast.api.reservation_slots import NodeClassSlots, PoolReservation, differ_only_in_counts
from holdfast.core.reservations.ledger import Entry
from holdfast.state.conversion import times
from holdfast.state.conversion.slot_status import SlotReport
from planner_builders import reservation

USD = 10**9
END_S = 1_800_000_000
SLOTS = NodeClassSlots(summary="1/2")


def entry(id_: str, instance_type: str = "small", *, total: int = 10, free: int = 0) -> Entry:
    """A reservation whose other slots are used here."""
    one = reservation(id_, instance_type, available=free, total=total)
    return Entry(one, True, total - free, 0, 0, 0, free, 0)


def report(*entries: Entry) -> SlotReport:
    return SlotReport({one.reservation.id: one for one in entries}, {"small": USD // 2}, 0)


def test_class_has_the_row_of_the_ledger_of_each_selected_reservation() -> None:
    ending = reservation("cr-2", "small", available=3, total=9, end_s=END_S)
    counted = Entry(ending, True, 4, 2, 1, 1, 2, 0)
    found = report(entry("cr-3"), counted, entry("cr-1", free=10)).of_class({"cr-2", "cr-3", "cr-unknown"})
    assert found is not None
    assert (found.summary, found.idle_usd_per_hour, found.more) == ("2/19", "1", 0)
    assert msgspec.to_builtins(found.reservations[0]) == {
        "id": "cr-2",
        "total": 9,
        "usedHere": 4,
        "usedElsewhere": 2,
        "held": 1,
        "releasing": 1,
        "free": 2,
        "idleUSDPerHour": "1",
        "endTime": times.text(END_S),
    }
    assert [one.id for one in found.reservations] == ["cr-2", "cr-3"]
    assert found.reservations[1].idle_usd_per_hour == "0"


def test_idle_cost_with_an_unknown_price_is_unset_also_in_the_sum() -> None:
    found = report(entry("cr-1", "new", free=1), entry("cr-2", free=1)).of_class({"cr-1", "cr-2"})
    assert found is not None
    assert found.idle_usd_per_hour is None
    assert [one.idle_usd_per_hour for one in found.reservations] == [None, "0.5"]


def test_object_that_uses_no_reservation_has_no_slots() -> None:
    assert report(entry("cr-1")).of_class(()) is None
    assert report(entry("cr-1")).of_pool((), {}) is None


def test_number_of_reservations_is_bounded_and_the_sums_include_all() -> None:
    entries = [entry(f"cr-{number:04}", total=3, free=1) for number in range(600)]
    ids = [one.reservation.id for one in entries]
    of_class, of_pool = report(*entries).of_class(ids), report(*entries).of_pool(ids, {})
    assert of_class is not None
    assert of_pool is not None
    assert (len(of_class.reservations), of_class.more) == (500, 100)
    assert (len(of_pool.reservations), of_pool.more) == (50, 550)
    for found in (of_class, of_pool):
        assert (found.summary, found.idle_usd_per_hour) == ("600/1800", "300")
    assert len(msgspec.json.encode(of_class)) < 100_000


def test_nodepool_has_the_slots_that_its_own_nodes_use() -> None:
    found = report(entry("cr-1", free=4), entry("cr-2")).of_pool({"cr-1", "cr-2"}, {"cr-1": 2})
    assert found is not None
    assert found.reservations == (
        PoolReservation(id="cr-1", used=2, free=4),
        PoolReservation(id="cr-2", used=0, free=0),
    )


def test_only_a_change_of_slots_alone_is_ignored() -> None:
    def changed(node_class: EC2NodeClass, version: str, **status: object) -> EC2NodeClass:
        return msgspec.structs.replace(
            node_class,
            metadata=msgspec.structs.replace(node_class.metadata, resource_version=version),
            status=msgspec.structs.replace(node_class.status, **status),
        )

    before = ec2nodeclass()
    assert differ_only_in_counts(before, changed(before, "2", reservation_slots=SLOTS))
    assert not differ_only_in_counts(before, changed(before, "2", instance_profile="p"))
    both = changed(before, "2", reservation_slots=SLOTS, instance_profile="p")
    assert not differ_only_in_counts(before, both)
    subnets = Subnet(id="subnet-1", zone="a"), Subnet(id="subnet-2", zone="b")
    ordered = changed(before, "2", subnets=subnets)
    assert differ_only_in_counts(ordered, changed(before, "3", subnets=subnets[::-1]))
    assert not differ_only_in_counts(ordered, changed(before, "3", subnets=subnets[:1]))
    labelled = msgspec.structs.replace(
        before, metadata=msgspec.structs.replace(before.metadata, labels={"a": "b"})
    )
    assert not differ_only_in_counts(before, labelled)


def test_a_reservation_that_is_drained_has_no_free_slot_and_idle_ones() -> None:
    draining = dataclasses.replace(entry("cr-1", free=4), usable=False, free=0)
    found = report(draining).of_class({"cr-1"})
    assert found is not None
    assert (found.summary, found.idle_usd_per_hour) == ("0/10", "2")
