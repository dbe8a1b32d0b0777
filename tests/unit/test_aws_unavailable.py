"""Caches of failed launches, and how long their entries last."""

import pytest

from holdfast.cloud.aws.catalog.unavailable import HoldDowns, Unavailable

POOL = ("m5.large", "us-west-2a", "spot")


@pytest.mark.fact("aws-5.9.1")
def test_entry_expires_after_three_minutes_and_a_repeated_failure_extends_it() -> None:
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
def test_hold_down_grows_with_each_failed_launch() -> None:
    hold_downs = HoldDowns()
    now_s, durations_s = 0.0, []
    for _ in range(6):
        hold_downs.refused(["cr-1", "cr-1"], now_s)
        hold_downs.refused(["cr-1"], now_s)  # another launch at the same time
        start_s = now_s
        while hold_downs.held(now_s):
            now_s += 1
            hold_downs.counted({"cr-1": 2}, now_s)  # the count shows free slots all the time
        durations_s.append(now_s - start_s)
    assert durations_s == [60, 120, 240, 480, 960, 960]
    hold_downs.succeeded("cr-1")
    hold_downs.refused(["cr-1"], now_s)
    assert hold_downs.held(now_s + 59) == {"cr-1"}
    assert hold_downs.held(now_s + 60) == frozenset()


@pytest.mark.fact("aws-3.7")
def test_full_reservation_is_held_down_until_a_later_count_shows_a_free_slot() -> None:
    hold_downs = HoldDowns()
    hold_downs.full(["cr-1"], 100)
    hold_downs.counted({"cr-1": 1}, 100)  # this read did not start after the failed launch
    assert hold_downs.held(101) == {"cr-1"}
    hold_downs.counted({"cr-1": 0}, 160)
    assert hold_downs.held(10_000) == {"cr-1"}
    hold_downs.counted({"cr-1": 1}, 101)
    assert hold_downs.held(102) == frozenset()


def test_a_launch_that_succeeds_ends_a_hold_down() -> None:
    hold_downs = HoldDowns()
    hold_downs.full(["cr-1", "cr-2"], 0)
    hold_downs.refused(["cr-1", "cr-2"], 0)
    hold_downs.succeeded("cr-1")
    assert hold_downs.held(1) == {"cr-2"}


def test_hold_down_of_a_deleted_reservation_is_removed() -> None:
    hold_downs = HoldDowns()
    hold_downs.full(["cr-1", "cr-2"], 0)
    hold_downs.refused(["cr-1"], 0)
    hold_downs.counted({"cr-2": 0}, 1)
    assert hold_downs.held(1) == {"cr-2"}
