"""The Batcher merges concurrent reads into one call."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from holdfast import errors
from holdfast.cloud.aws.client.batching import Batcher
from manual_ports import CollectingRecorder


class Clock:
    """sleep() returns after the other tasks have run."""

    def now_s(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        for _ in range(5):
            await asyncio.sleep(0)


class BatchCall:
    def __init__(self, error: errors.HoldfastError | None = None) -> None:
        self.batches: list[list[str]] = []
        self._error = error

    async def __call__(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.batches.append(list(keys))
        if self._error:
            raise self._error
        return {key: key.upper() for key in keys if key != "missing"}


def get_all(batch_call: BatchCall, *keys: str, most: int = 10) -> list[Any]:
    async def gather() -> list[Any]:
        batcher = Batcher(batch_call, clock=Clock(), recorder=CollectingRecorder(), name="test", most=most)
        return await asyncio.gather(*(batcher.get(key) for key in keys), return_exceptions=True)

    return asyncio.run(gather())


def test_concurrent_gets_share_one_call_without_duplicate_keys() -> None:
    batch_call = BatchCall()
    assert get_all(batch_call, "b", "a", "b") == ["B", "A", "B"]
    assert batch_call.batches == [["a", "b"]]


def test_batch_size_is_limited() -> None:
    batch_call = BatchCall()
    assert get_all(batch_call, *"abcde", most=2) == list("ABCDE")
    assert sorted(map(len, batch_call.batches)) == [1, 2, 2]


def test_key_missing_in_the_response_is_not_found() -> None:
    found, missing = get_all(BatchCall(), "a", "missing")
    assert found == "A"
    assert isinstance(missing, errors.NotFound)


def test_error_is_raised_to_every_caller() -> None:
    outcomes = get_all(BatchCall(errors.Throttled("slower")), "a", "b")
    assert [type(each) for each in outcomes] == [errors.Throttled, errors.Throttled]


@pytest.mark.fact("aws-9.1.1")
def test_cancelled_caller_does_not_cancel_the_other_callers() -> None:
    batch_call = BatchCall()

    async def cancel_one() -> str:
        batcher = Batcher(batch_call, clock=Clock(), recorder=CollectingRecorder(), name="test", most=10)
        cancelled_get = asyncio.ensure_future(batcher.get("a"))
        other_get = asyncio.ensure_future(batcher.get("a"))
        await asyncio.sleep(0)
        cancelled_get.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled_get
        return await other_get

    assert asyncio.run(cancel_one()) == "A"
