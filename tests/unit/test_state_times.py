"""Durations and dates, also those out of range."""

import pytest

from holdfast.state.conversion import times

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1h30m", 5400),
        ("1.5s", 2),
        (".5s", 1),
        ("0s", 0),
        ("007m", 420),
        ("720h", 720 * 3600),
        ("1m30s", 90),
        ("999999999999999s", times.LATEST_S),
        ("0" * 5000 + "7s", 7),
        ("99999999h", times.LATEST_S),
        (f"{LONG}h", times.LATEST_S),
        (f"1s{LONG}ns", times.LATEST_S),
        ("", None),
        ("soon", None),
        ("-5s", None),
        ("1.", None),
    ],
)
def test_a_duration_is_capped_at_the_latest_date(written: str, seconds: int | None) -> None:
    assert times.duration_s(written) == seconds


@pytest.mark.parametrize(
    ("moment_s", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (times.LATEST_S, "9999-12-31T23:59:59Z"),
        (10**30, "9999-12-31T23:59:59Z"),
        (-(10**30), "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_out_of_range_is_written_as_the_nearest_date(moment_s: int, text: str) -> None:
    assert times.text(moment_s) == text


@pytest.mark.parametrize("written", ["", None, "yesterday", LONG, "2026-13-01T00:00:00Z"])
def test_an_invalid_time_is_none(written: str | None) -> None:
    assert times.moment_s(written) is None
