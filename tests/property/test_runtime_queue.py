"""The work queue against a model of a few lines, under any order of calls."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.runtime.backoff import Backoff
from holdfast.runtime.queue import WorkQueue
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock, VirtualLoop
from scripted import START

T = TypeVar("T")
KEYS = st.sampled_from([("", name) for name in "abc"])
MAX_KEYS = 3


class QueueTest(RuleBasedStateMachine):
    """The model: when each key is due, which keys are processed, and which of those are due again."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.due_s_of_key: dict[tuple[str, str], float] = {}
        self.processing: set[tuple[str, str]] = set()
        self.failures: dict[tuple[str, str], int] = {}
        self.queue = self.run(self.make())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def make(self) -> WorkQueue:
        return WorkQueue(
            clock=VirtualClock(START), ids=SeededIds(1), backoff=Backoff(1, 8), max_keys=MAX_KEYS
        )

    def teardown(self) -> None:
        self.loop.close()

    def add_to_model(self, key: tuple[str, str], at_s: float) -> None:
        self.due_s_of_key[key] = min(at_s, self.due_s_of_key.get(key, at_s))

    @rule(key=KEYS)
    def add(self, key: tuple[str, str]) -> None:
        async def call() -> None:
            self.queue.add(key)

        self.run(call())
        self.add_to_model(key, self.loop.time())

    @rule(key=KEYS, seconds=st.integers(0, 10))
    def add_after(self, key: tuple[str, str], seconds: int) -> None:
        async def call() -> None:
            self.queue.add_after(key, seconds)

        self.run(call())
        self.add_to_model(key, self.loop.time() + seconds)

    @rule(key=KEYS)
    def retry(self, key: tuple[str, str]) -> None:
        async def call() -> float:
            return self.queue.retry(key)

        wait_s = self.run(call())
        self.failures[key] = self.failures.get(key, 0) + 1
        longest_s = min(8, 2 ** (self.failures[key] - 1))
        assert longest_s / 2 <= wait_s <= longest_s
        self.add_to_model(key, self.loop.time() + wait_s)

    @rule(key=KEYS)
    def succeeded(self, key: tuple[str, str]) -> None:
        self.queue.succeeded(key)
        self.failures.pop(key, None)

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.run(asyncio.sleep(seconds))

    @precondition(lambda self: self.free())
    @rule()
    def get(self) -> None:
        """The queue returns a key that no worker processes, when the first such key is due."""
        due_s = max(self.loop.time(), min(self.due_s_of_key[key] for key in self.free()))
        key = self.run(self.queue.get())
        assert abs(self.loop.time() - due_s) < 1e-6
        assert key in self.free()
        assert self.due_s_of_key.pop(key) <= due_s + 1e-6
        self.processing.add(key)

    @precondition(lambda self: self.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.processing)))

        async def call() -> None:
            self.queue.done(key)

        self.run(call())
        self.processing.remove(key)

    def free(self) -> list[tuple[str, str]]:
        return [key for key in self.due_s_of_key if key not in self.processing]

    @invariant()
    def every_key_is_queued_once(self) -> None:
        assert len(self.queue) == len(self.due_s_of_key)
        assert not self.queue.overflowed


TestQueue = QueueTest.TestCase
