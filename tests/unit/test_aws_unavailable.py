"""What launches found out, and how long it is remembered."""

import pytest

from holdfast.cloud.aws.catalog.unavailable import HoldDowns, Unavailable

POOL = ("m5.large", "us-west-2a", "spot")


@pytest.mark.fact("aws-5.9.1")
def test_a_mark_ends_after_three_minutes_and_marking_again_puts_it_off() -> None:
    unavailable = Unavailable()
    unavailable.pools.add(POOL, 0)
    assert unavailable.pools.members(179) == {POOL}
    unavailable.pools.add(POOL, 100)
    assert unavailable.pools.members(180) == {POOL}
    assert unavailable.pools.members(280) == frozenset()
    unavailable.capacity_types.add("spot", 0)
    unavailable.subnets.add("subnet-1", 60)
    assert unavailable.capacity_types.members(180) == frozenset()
    assert unavailable.subnets.members(180) == {"subnet-1"}


@pytest.mark.fact("AW-04", "aws-3.7")
def test_a_reservation_that_keeps_refusing_is_left_alone_for_longer() -> None:
    holds = HoldDowns()
    now_s, held = 0.0, []
    for _ in range(6):
        holds.refused(["cr-1", "cr-1"], now_s)
        holds.refused(["cr-1"], now_s)  # another launch of the same moment
        began_s = now_s
        while holds.held(now_s):
            now_s += 1
            holds.counted({"cr-1": 2}, now_s)  # it said so before
        held.append(now_s - began_s)
    assert held == [60, 120, 240, 480, 960, 960]
    holds.succeeded("cr-1")
    holds.refused(["cr-1"], now_s)
    assert holds.held(now_s + 59) == {"cr-1"}
    assert holds.held(now_s + 60) == frozenset()


@pytest.mark.fact("aws-3.7")
def test_a_full_reservation_is_held_until_a_later_reading_shows_a_free_slot() -> None:
    holds = HoldDowns()
    holds.full(["cr-1"], 100)
    holds.counted({"cr-1": 1}, 100)  # it had begun already
    assert holds.held(101) == {"cr-1"}
    holds.counted({"cr-1": 0}, 160)
    assert holds.held(10_000) == {"cr-1"}
    holds.counted({"cr-1": 1}, 101)
    assert holds.held(102) == frozenset()


def test_a_launch_that_succeeds_ends_a_hold_down() -> None:
    holds = HoldDowns()
    holds.full(["cr-1", "cr-2"], 0)
    holds.refused(["cr-1", "cr-2"], 0)
    holds.succeeded("cr-1")
    assert holds.held(1) == {"cr-2"}


def test_reservations_that_are_gone_are_forgotten() -> None:
    holds = HoldDowns()
    holds.full(["cr-1", "cr-2"], 0)
    holds.refused(["cr-1"], 0)
    holds.counted({"cr-2": 0}, 1)
    assert holds.held(1) == {"cr-2"}
