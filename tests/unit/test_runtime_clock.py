"""Time that is real but faster, and time that is put right."""

import asyncio

import pytest
from structlog.testing import capture_logs

from doors import ManualClock
from holdfast.runtime.clock import CorrectedClock, ScaledClock


def test_scaled_time_passes_so_many_times_as_fast_from_now_on() -> None:
    real = ManualClock()
    clock = ScaledClock(real, 60)
    began_s, mark_s = clock.now_s(), clock.monotonic_s()
    assert began_s == real.now_s()
    asyncio.run(real.sleep(2))
    assert clock.now_s() - began_s == 120
    assert clock.monotonic_s() - mark_s == 120


def test_a_sleep_in_scaled_time_is_shorter_in_real_time() -> None:
    real = ManualClock()
    before_s = real.monotonic_s()
    asyncio.run(ScaledClock(real, 60).sleep(90))
    assert real.monotonic_s() - before_s == 1.5


@pytest.mark.parametrize(
    ("off_s", "took_s", "offset_s"),
    [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (300, 0, 300), (-300, 0, -300), (-15, 20, 0), (-60, 20, -50)],
)
def test_a_clock_is_put_right_when_it_cannot_be_right(off_s: int, took_s: float, offset_s: int) -> None:
    """An answer that took long says little: the time in it is from somewhere between."""
    own = ManualClock()
    clock = CorrectedClock(own)
    clock.heard(own.now_s() + off_s, took_s=took_s)
    assert clock.now_s() - own.now_s() == offset_s
    clock.heard(own.now_s() + offset_s, took_s=0)
    assert clock.now_s() - own.now_s() == offset_s
    assert clock.monotonic_s() == own.monotonic_s()


def test_a_clock_that_is_far_off_is_said_once() -> None:
    own = ManualClock()
    clock = CorrectedClock(own)
    with capture_logs() as logged:
        clock.heard(own.now_s() + 25, took_s=0)
        assert logged == []
        for off_s in (31, 34, 34, 400):
            clock.heard(own.now_s() + off_s, took_s=0)
    assert [(line["log_level"], line["behind_s"]) for line in logged] == [("warning", 31)]
    assert clock.offset_s == 400


def test_a_clock_that_was_set_right_is_its_own_again() -> None:
    own = ManualClock()
    clock = CorrectedClock(own)
    clock.heard(own.now_s() + 500, took_s=0)
    clock.heard(own.now_s(), took_s=0)
    assert clock.now_s() == own.now_s()
