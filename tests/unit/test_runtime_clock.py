"""Time that is real, but faster."""

import asyncio

from doors import ManualClock
from holdfast.runtime.clock import ScaledClock


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
