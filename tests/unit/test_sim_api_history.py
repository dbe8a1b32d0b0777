"""How long the embedded API server keeps changes: by number, and by age if an age is set."""

import pytest

from holdfast.sim.api.storage.store import Store, TooOld


class Source:
    """A store with one object, and a clock."""

    def __init__(self, history_s: float) -> None:
        self.now_s = 0.0
        self.store = Store(window=10, history_s=history_s, monotonic_s=lambda: self.now_s)

    def write(self) -> int:
        return self.store.put("/pods", {"metadata": {"name": "a", "uid": "1"}}).version


def test_changes_are_discarded_after_their_age() -> None:
    source = Source(history_s=300)
    first = source.write()
    source.now_s = 500
    second = source.write()
    source.now_s = 601
    third = source.write()
    bucket = source.store.bucket("/pods")
    assert [change.after.version for change in bucket.changes(bucket.position(second))] == [third]
    assert len(bucket.changes(bucket.end - 2)) == 2
    with pytest.raises(TooOld):
        bucket.position(first - 1)
    with pytest.raises(TooOld):
        bucket.changes(bucket.end - 3)


def test_without_an_age_changes_are_discarded_by_their_number_alone() -> None:
    source = Source(history_s=float("inf"))
    first = source.write()
    for _ in range(9):
        source.now_s += 1e6
        source.write()
    bucket = source.store.bucket("/pods")
    assert len(bucket.changes(bucket.position(first))) == 9
