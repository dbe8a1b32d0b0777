"""Each checker of the simulated EC2 catches a world that is broken in just its point, and no other does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ec2_world import START_S, Dice, Region, config
from holdfast.sim.ec2 import checkers
from holdfast.sim.ec2.checkers import BrokenWorld
from holdfast.sim.ec2.entities import Instance, Reservation, ScheduledEvent


def world() -> tuple[Region, Instance, Reservation]:
    """One instance in a reservation of two, one outside, and a capacity block that holds one."""
    region = Region()
    reservation = region.reserve(criteria="targeted")
    fields: dict[str, Any] = {"kind": "capacity-block", "criteria": "targeted", "end_s": START_S + 86400}
    block = region.reserve("p5.48xlarge", "b", **fields)
    target = region.targeting(block, market="capacity-block")
    region.fleet(config(target, "p5.48xlarge/b"), kind="capacity-block")
    (inside,) = region.launched(region.fleet(config(region.targeting(reservation), "m5.large/a")))
    region.launch(CapacityReservationSpecification={"CapacityReservationPreference": "none"})
    region.wait(60)
    checkers.check(region.world)
    return region, region.world.instances[inside.id], region.world.reservations[reservation.id]


def outside(region: Region) -> Instance:
    return next(i for i in region.world.instances if not i.reservation_id)


def oversold(region: Region, _: Instance, reservation: Reservation) -> None:
    region.world.reservations.put(replace(reservation, total=0, available=-1))


def miscounted(region: Region, _: Instance, reservation: Reservation) -> None:
    region.world.reservations.put(replace(reservation, available=2))


def in_two(region: Region, inside: Instance, _: Reservation) -> None:
    other = region.reserve(criteria="targeted")
    region.world.instances.put(
        replace(inside, reservation_id=other.id, spec=replace(inside.spec, target_id=""))
    )


def mismatched(region: Region, inside: Instance, _: Reservation) -> None:
    region.world.instances.put(replace(inside, spec=replace(inside.spec, preference="none")))


def in_an_ended_one(region: Region, _: Instance, reservation: Reservation) -> None:
    region.world.reservations.put(replace(reservation, state="expired"))
    region.world.ledger.stop(reservation.id, region.world.now_s)


def in_a_block_that_is_over(region: Region, _: Instance, __: Reservation) -> None:
    block = next(r for r in region.world.reservations if r.kind == "capacity-block")
    region.world.reservations.put(replace(block, end_s=region.world.now_s + 60))


class SameAgain(Dice):
    def token(self) -> str:
        return "the same again"


def reused(region: Region, _: Instance, __: Reservation) -> None:
    region.world._ids = SameAgain()
    assert region.world.new_id("i") == region.world.new_id("i")


def unknown(region: Region, _: Instance, __: Reservation) -> None:
    stranger = replace(outside(region), id="i-0123456789abcdef0", private_ip="10.0.9.9", state="pending")
    region.world.put_instance(stranger)


def overfull(region: Region, inside: Instance, _: Reservation) -> None:
    region.world.instances.put(replace(inside, spec=replace(inside.spec, addresses=5000)))


def same_address(region: Region, inside: Instance, _: Reservation) -> None:
    region.world.instances.put(replace(outside(region), private_ip=inside.private_ip))


def unpaid(region: Region, inside: Instance, _: Reservation) -> None:
    region.world.ledger.stop(inside.id, region.world.now_s)


def paid_twice(region: Region, inside: Instance, _: Reservation) -> None:
    charge = region.world.ledger.open[inside.id]
    region.world.ledger.book(replace(charge, kind="on-demand", nano_usd_per_hour=1))


def ill_before_it_was_there(region: Region, inside: Instance, _: Reservation) -> None:
    region.world.instances.put(replace(inside, impaired={"system": inside.launched_s - 1}))


def left_behind(region: Region, inside: Instance, _: Reservation) -> None:
    event = ScheduledEvent(id="instance-event-1", code="instance-stop", at_s=region.world.now_s - 1)
    region.world.instances.put(replace(inside, event=event))


DAMAGES = pytest.mark.parametrize(
    ("damage", "checker", "words"),
    [
        (oversold, checkers.no_reservation_is_oversold, "holds 1 of 0"),
        (miscounted, checkers.counts_add_up, "says 2 are available; of 2, 1 are held"),
        (in_two, checkers.no_instance_is_in_two_reservations, "and holds a slot of"),
        (mismatched, checkers.instances_match_their_reservation, "it wants none"),
        (in_an_ended_one, checkers.nothing_runs_in_an_ended_reservation, "which is expired"),
        (in_a_block_that_is_over, checkers.nothing_runs_in_an_ended_reservation, "after its reclaim began"),
        (reused, checkers.ids_are_never_reused, "given twice: .'i-"),
        (unknown, checkers.ids_are_never_reused, "never given: .'i-"),
        (overfull, checkers.subnets_are_not_overfull, r"4091 addresses and 5\d+"),
        (same_address, checkers.subnets_are_not_overfull, "in use twice"),
        (unpaid, checkers.everything_is_paid_for_once, "not billed: .'i-"),
        (paid_twice, checkers.everything_is_paid_for_once, "is billed as on-demand"),
        (ill_before_it_was_there, checkers.instance_health_is_valid, "fails its check 'system'"),
        (left_behind, checkers.instance_health_is_valid, "waits for instance-stop"),
    ],
)


@DAMAGES
def test_each_checker_catches_a_world_that_is_broken_in_its_point_alone(
    damage: Callable[[Region, Instance, Reservation], None], checker: object, words: str
) -> None:
    region, inside, reservation = world()
    damage(region, inside, reservation)
    caught = []
    for each in checkers.CHECKERS:
        try:
            each(region.world, checkers.everything(region.world))
        except BrokenWorld as broken:
            caught.append((each, str(broken)))
    assert [each for each, _ in caught] == [checker]
    with pytest.raises(BrokenWorld, match=words):
        checkers.check(region.world)


@DAMAGES
def test_what_a_write_broke_is_found_right_after_it_among_many_instances(
    damage: Callable[[Region, Instance, Reservation], None], checker: object, words: str
) -> None:
    region, inside, reservation = world()
    region.launch(count=500, CapacityReservationSpecification={"CapacityReservationPreference": "none"})
    damage(region, inside, reservation)
    with pytest.raises(BrokenWorld, match=words) as broken:
        region.ec2.advance()
    assert broken.traceback[-1].name == getattr(checker, "__name__", "")


def test_a_broken_world_ends_the_next_call() -> None:
    region, inside, reservation = world()
    miscounted(region, inside, reservation)
    with pytest.raises(BrokenWorld):
        region.call("DescribeSubnets")


def test_a_block_that_nobody_takes_back_is_found_when_its_time_has_come() -> None:
    region, _, __ = world()
    region.world.agenda.clear()
    with pytest.raises(BrokenWorld, match="after its reclaim began"):
        region.wait(86400 - 30 * 60)


def unseen(region: Region, inside: Instance) -> None:
    """No write: nothing tells the checkers."""
    region.world.instances._values[inside.id] = replace(inside, private_ip="10.0.9.9")


def test_what_no_write_did_is_found_by_a_full_check() -> None:
    region, inside, _ = world()
    region.ec2.check_all()
    unseen(region, inside)
    region.call("DescribeSubnets")
    with pytest.raises(BrokenWorld, match="counted anew"):
        region.ec2.check_all()


def seconds(region: Region, count: int) -> None:
    for _ in range(count):
        region.wait(1)


def test_a_full_check_comes_by_itself_every_so_often() -> None:
    region, inside, _ = world()
    unseen(region, inside)
    with pytest.raises(BrokenWorld, match="counted anew"):
        seconds(region, 1000)


def work_of_a_check(instances: int) -> int:
    """How many things are looked at after one more launch."""
    region = Region()
    region.launch(count=instances)
    region.launch()
    return len(region.ec2._watch._tally.ids)


def test_a_write_costs_the_same_check_in_a_large_world() -> None:
    assert work_of_a_check(900) == work_of_a_check(9)
