"""Each checker of the simulated EC2 reports the invalid state that it is for, and no other checker does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ec2_region import START_S, Dice, Region, config
from holdfast.sim.ec2 import checkers
from holdfast.sim.ec2.checkers import BrokenRule
from holdfast.sim.ec2.entities import Instance, Reservation, ScheduledEvent


def valid_region() -> tuple[Region, Instance, Reservation]:
    """A region with one instance in a reservation of two slots, one outside, and one in a capacity block."""
    region = Region()
    reservation = region.reserve(criteria="targeted")
    fields: dict[str, Any] = {"kind": "capacity-block", "criteria": "targeted", "end_s": START_S + 86400}
    block = region.reserve("p5.48xlarge", "b", **fields)
    target = region.targeting(block, market="capacity-block")
    region.fleet(config(target, "p5.48xlarge/b"), kind="capacity-block")
    (inside,) = region.launched(region.fleet(config(region.targeting(reservation), "m5.large/a")))
    region.launch(CapacityReservationSpecification={"CapacityReservationPreference": "none"})
    region.wait(60)
    checkers.check(region.state)
    return region, region.state.instances[inside.id], region.state.reservations[reservation.id]


def outside(region: Region) -> Instance:
    return next(i for i in region.state.instances if not i.reservation_id)


def oversold(region: Region, _: Instance, reservation: Reservation) -> None:
    region.state.reservations.put(replace(reservation, total=0, available=-1))


def miscounted(region: Region, _: Instance, reservation: Reservation) -> None:
    region.state.reservations.put(replace(reservation, available=2))


def in_two_reservations(region: Region, inside: Instance, _: Reservation) -> None:
    other = region.reserve(criteria="targeted")
    region.state.instances.put(
        replace(inside, reservation_id=other.id, spec=replace(inside.spec, target_id=""))
    )


def mismatched(region: Region, inside: Instance, _: Reservation) -> None:
    region.state.instances.put(replace(inside, spec=replace(inside.spec, preference="none")))


def in_an_expired_reservation(region: Region, _: Instance, reservation: Reservation) -> None:
    region.state.reservations.put(replace(reservation, state="expired"))
    region.state.ledger.stop(reservation.id, region.state.now_s)


def in_a_reclaimed_capacity_block(region: Region, _: Instance, __: Reservation) -> None:
    block = next(r for r in region.state.reservations if r.kind == "capacity-block")
    region.state.reservations.put(replace(block, end_s=region.state.now_s + 60))


class ConstantIds(Dice):
    def token(self) -> str:
        return "the same again"


def reused_id(region: Region, _: Instance, __: Reservation) -> None:
    region.state._ids = ConstantIds()
    assert region.state.new_id("i") == region.state.new_id("i")


def unknown_id(region: Region, _: Instance, __: Reservation) -> None:
    instance = replace(outside(region), id="i-0123456789abcdef0", private_ip="10.0.9.9", state="pending")
    region.state.put_instance(instance)


def overfull_subnet(region: Region, inside: Instance, _: Reservation) -> None:
    region.state.instances.put(replace(inside, spec=replace(inside.spec, addresses=5000)))


def same_address(region: Region, inside: Instance, _: Reservation) -> None:
    region.state.instances.put(replace(outside(region), private_ip=inside.private_ip))


def not_billed(region: Region, inside: Instance, _: Reservation) -> None:
    region.state.ledger.stop(inside.id, region.state.now_s)


def billed_as_on_demand(region: Region, inside: Instance, _: Reservation) -> None:
    charge = region.state.ledger.open[inside.id]
    region.state.ledger.book(replace(charge, kind="on-demand", nano_usd_per_hour=1))


def impaired_before_launch(region: Region, inside: Instance, _: Reservation) -> None:
    region.state.instances.put(replace(inside, impaired={"system": inside.launched_s - 1}))


def overdue_event(region: Region, inside: Instance, _: Reservation) -> None:
    event = ScheduledEvent(id="instance-event-1", code="instance-stop", at_s=region.state.now_s - 1)
    region.state.instances.put(replace(inside, event=event))


DAMAGES = pytest.mark.parametrize(
    ("damage", "checker", "words"),
    [
        (oversold, checkers.no_reservation_is_oversold, "holds 1 of 0"),
        (miscounted, checkers.counts_add_up, "says 2 are available; of 2, 1 are held"),
        (in_two_reservations, checkers.no_instance_is_in_two_reservations, "and holds a slot of"),
        (mismatched, checkers.instances_match_their_reservation, "it wants none"),
        (in_an_expired_reservation, checkers.nothing_runs_in_an_ended_reservation, "which is expired"),
        (
            in_a_reclaimed_capacity_block,
            checkers.nothing_runs_in_an_ended_reservation,
            "after its reclaim began",
        ),
        (reused_id, checkers.ids_are_never_reused, "given twice: .'i-"),
        (unknown_id, checkers.ids_are_never_reused, "never given: .'i-"),
        (overfull_subnet, checkers.subnets_are_not_overfull, r"4091 addresses and 5\d+"),
        (same_address, checkers.subnets_are_not_overfull, "in use twice"),
        (not_billed, checkers.everything_is_paid_for_once, "not billed: .'i-"),
        (billed_as_on_demand, checkers.everything_is_paid_for_once, "is billed as on-demand"),
        (impaired_before_launch, checkers.instance_health_is_valid, "fails its check 'system'"),
        (overdue_event, checkers.instance_health_is_valid, "waits for instance-stop"),
    ],
)


@DAMAGES
def test_each_invalid_state_is_reported_by_exactly_one_checker(
    damage: Callable[[Region, Instance, Reservation], None], checker: object, words: str
) -> None:
    region, inside, reservation = valid_region()
    damage(region, inside, reservation)
    caught = []
    for each in checkers.CHECKERS:
        try:
            each(region.state, checkers.everything(region.state))
        except BrokenRule as broken:
            caught.append((each, str(broken)))
    assert [each for each, _ in caught] == [checker]
    with pytest.raises(BrokenRule, match=words):
        checkers.check(region.state)


@DAMAGES
def test_an_invalid_write_is_reported_at_once_among_many_instances(
    damage: Callable[[Region, Instance, Reservation], None], checker: object, words: str
) -> None:
    region, inside, reservation = valid_region()
    region.launch(count=500, CapacityReservationSpecification={"CapacityReservationPreference": "none"})
    damage(region, inside, reservation)
    with pytest.raises(BrokenRule, match=words) as broken:
        region.ec2.advance()
    assert broken.traceback[-1].name == getattr(checker, "__name__", "")


def test_an_invalid_state_fails_the_next_call() -> None:
    region, inside, reservation = valid_region()
    miscounted(region, inside, reservation)
    with pytest.raises(BrokenRule):
        region.call("DescribeSubnets")


def test_a_capacity_block_that_is_not_reclaimed_in_time_is_reported() -> None:
    region, _, __ = valid_region()
    region.state.agenda.clear()
    with pytest.raises(BrokenRule, match="after its reclaim began"):
        region.wait(86400 - 30 * 60)


def change_without_write(region: Region, inside: Instance) -> None:
    """Bypasses the store, so the check after each write does not cover the change."""
    region.state.instances._values[inside.id] = replace(inside, private_ip="10.0.9.9")


def test_a_change_without_a_write_is_reported_by_a_full_check() -> None:
    region, inside, _ = valid_region()
    region.ec2.check_all()
    change_without_write(region, inside)
    region.call("DescribeSubnets")
    with pytest.raises(BrokenRule, match="counted anew"):
        region.ec2.check_all()


def wait_seconds(region: Region, count: int) -> None:
    for _ in range(count):
        region.wait(1)


def test_a_full_check_runs_periodically() -> None:
    region, inside, _ = valid_region()
    change_without_write(region, inside)
    with pytest.raises(BrokenRule, match="counted anew"):
        wait_seconds(region, 1000)


def checked_objects(instances: int) -> int:
    """How many objects are checked after one more launch."""
    region = Region()
    region.launch(count=instances)
    region.launch()
    return len(region.ec2._watch._tally.ids)


def test_the_cost_of_a_check_does_not_grow_with_the_number_of_instances() -> None:
    assert checked_objects(900) == checked_objects(9)
