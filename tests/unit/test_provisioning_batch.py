"""When a batch of pods ends."""

import pytest

from holdfast.controllers.provisioning.batch import Batch


@pytest.mark.fact("P-2")
def test_a_batch_ends_after_the_idle_time_or_the_maximum_duration() -> None:
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


def test_a_trigger_ends_the_batch_at_once() -> None:
    batch = Batch(idle_s=1, longest_s=10)
    batch.add("a", 99.5)
    batch.trigger(100)
    assert batch.ends_s() == 100
    batch.close(100)
    assert batch.ends_s() is None


def test_repeated_triggers_are_delayed_more_and_more() -> None:
    batch = Batch(idle_s=1, longest_s=10)
    now_s, batch_ends = 100.0, []
    while now_s < 200:
        batch.trigger(now_s)
        ends_s = batch.ends_s()
        assert ends_s is not None
        now_s = ends_s
        batch.close(now_s)
        batch_ends.append(now_s)
    assert batch_ends[:10] == [100.0] * 10
    assert batch_ends[10:15] == [101, 103, 107, 115, 131]
    assert len([at_s for at_s in batch_ends if at_s > 115]) < 20
    batch.trigger(now_s + 120)
    assert batch.ends_s() == now_s + 120
