"""When a window of pods ends."""

import pytest

from holdfast.controllers.provisioning.batch import Batch


@pytest.mark.fact("P-2")
def test_a_window_ends_after_a_silence_or_when_it_was_open_for_long_enough() -> None:
    batch = Batch(idle_s=1, longest_s=10)
    assert batch.ends_s() is None
    batch.add("a", 100)
    assert batch.ends_s() == 101
    batch.add("b", 100.5)
    assert batch.ends_s() == 101.5
    batch.add("a", 101)
    assert batch.ends_s() == 101.5
    for tenth in range(200):
        batch.add(f"pod-{tenth}", 101 + tenth / 10)
    assert batch.ends_s() == 110


def test_whoever_is_in_a_hurry_ends_it_now() -> None:
    batch = Batch(idle_s=1, longest_s=10)
    batch.hurry()
    assert batch.ends_s() == 0
    batch.close()
    assert batch.ends_s() is None
