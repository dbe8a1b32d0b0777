"""Counts, lists, times, durations and amounts as text."""

import pytest

from holdfast.model import resources, wording
from objects import NOW_S

DAY_S = 86_400


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 slots"), (1, "1 slot"), (2, "2 slots"), (1500, "1,500 slots")]
)
def test_counts_have_the_right_plural(number: int, text: str) -> None:
    assert wording.count(number, "slot") == text


def test_long_lists_end_with_the_number_of_the_rest() -> None:
    ids = [f"cr-{i}" for i in range(600)]
    assert wording.listed(ids[:1]) == "cr-0"
    assert wording.listed(ids[:2]) == "cr-0, cr-1"
    assert wording.listed(ids[:6]) == "cr-0, cr-1, cr-2, cr-3, cr-4, cr-5"
    assert wording.listed(ids) == "cr-0, cr-1, cr-2, cr-3, cr-4, cr-5 and 594 more"
    assert wording.listed(ids[:6], 594) == wording.listed(ids)


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["spot"], "spot"), (["spot", "on-demand"], "spot or on-demand"), (list("abc"), "a, b or c")],
)
def test_alternatives_are_joined_by_or(names: list[str], text: str) -> None:
    assert wording.either(names) == text


def test_times_have_a_date_unless_they_are_today() -> None:
    assert wording.moment(NOW_S, NOW_S) == "10:00"
    assert wording.moment(NOW_S + 2 * 3600 + 56 * 60, NOW_S) == "12:56"
    assert wording.moment(NOW_S + DAY_S, NOW_S) == "2026-11-16 10:00"
    assert wording.moment(2**62, NOW_S) == "9999-12-31 23:59"
    assert wording.moment(-(2**62), NOW_S) == "0001-01-01 00:00"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 seconds"),
        (0, "0 seconds"),
        (1, "1 second"),
        (40, "40 seconds"),
        (60, "1 minute"),
        (3600, "1 hour"),
        (7530, "2 hours 5 minutes"),
        (DAY_S, "1 day"),
        (DAY_S + 60, "1 day"),
        (2 * DAY_S + 3600, "2 days 1 hour"),
    ],
)
def test_durations_have_units(seconds: int, text: str) -> None:
    assert wording.duration(seconds) == text


def test_amounts_are_never_negative() -> None:
    found = resources.of({"cpu": -500, "memory": 2**30})
    assert wording.amounts(found, ["cpu", "memory"]) == "no cpu, memory 1Gi"
    assert wording.amounts(found, ["nvidia.com/gpu"]) == "no nvidia.com/gpu"
