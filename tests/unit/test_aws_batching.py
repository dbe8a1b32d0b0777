"""Many questions, one call."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from holdfast import errors
from holdfast.cloud.aws.client.batching import Batcher
from manual_ports import KeptRecords


class Clock:
    """Whoever sleeps wakes when all others have had their turn."""

    def now_s(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        for _ in range(5):
            await asyncio.sleep(0)


class Asked:
    def __init__(self, error: errors.HoldfastError | None = None) -> None:
        self.batches: list[list[str]] = []
        self._error = error

    async def __call__(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.batches.append(list(keys))
        if self._error:
            raise self._error
        return {key: key.upper() for key in keys if key != "missing"}


def ask(asked: Asked, *keys: str, most: int = 10) -> list[Any]:
    async def all_of_them() -> list[Any]:
        batcher = Batcher(asked, clock=Clock(), recorder=KeptRecords(), name="test", most=most)
        return await asyncio.gather(*(batcher.get(key) for key in keys), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_what_is_asked_at_once_goes_together_and_once() -> None:
    asked = Asked()
    assert ask(asked, "b", "a", "b") == ["B", "A", "B"]
    assert asked.batches == [["a", "b"]]


def test_a_batch_has_a_bound() -> None:
    asked = Asked()
    assert ask(asked, *"abcde", most=2) == list("ABCDE")
    assert sorted(map(len, asked.batches)) == [1, 2, 2]


def test_what_is_left_out_of_the_answer_is_not_found() -> None:
    found, missing = ask(Asked(), "a", "missing")
    assert found == "A"
    assert isinstance(missing, errors.NotFound)


def test_an_error_reaches_everybody_who_asked() -> None:
    outcomes = ask(Asked(errors.Throttled("slower")), "a", "b")
    assert [type(each) for each in outcomes] == [errors.Throttled, errors.Throttled]


@pytest.mark.fact("aws-9.1.1")
def test_whoever_stops_waiting_does_not_stop_the_others() -> None:
    asked = Asked()

    async def one_leaves() -> str:
        batcher = Batcher(asked, clock=Clock(), recorder=KeptRecords(), name="test", most=10)
        leaving = asyncio.ensure_future(batcher.get("a"))
        staying = asyncio.ensure_future(batcher.get("a"))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        return await staying

    assert asyncio.run(one_leaves()) == "A"
