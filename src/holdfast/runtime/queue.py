"""The work queue of a controller: keys that are due now or later.

A key is in the queue at most once. It is not given out while it is being reconciled; if it is added meanwhile, it is
queued again afterwards. Of two due times of a key the earlier one counts. The queue is bounded: when it is full, `add`
only sets `overflowed`, and the controller adds all keys again later.
"""

import asyncio
import heapq
from collections import deque
from typing import Final

from holdfast import errors
from holdfast.ports import Clock, Ids
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.results import Key

MAX_KEYS: Final = 1_000_000
BACKOFF: Final = Backoff(base_s=0.2, cap_s=300)
_FEW: Final = 64


class WorkQueue:
    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        backoff: Backoff = BACKOFF,
        max_keys: int = MAX_KEYS,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._backoff = backoff
        self._max_keys = max_keys
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()  # those in `_ready`
        self._working: set[Key] = set()
        self._added_again: set[Key] = set()  # while they were reconciled
        self._due_s: dict[Key, float] = {}
        self._timers: list[tuple[float, Key]] = []  # a heap; entries that differ from `_due_s` are obsolete
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()
        self._alarm: asyncio.Task[None] | None = None  # sets `_changed` at `_alarm_s`
        self._alarm_s = 0.0
        self._since_s: dict[Key, float] = {}  # since when a key of `_ready` is due
        self._added, self._delayed = 0, 0
        self.overflowed = False
        self.waited_s = 0.0  # how long the last key of `get` was due

    def __len__(self) -> int:
        """How many keys are queued, due or not, without those being reconciled."""
        return len(self._waiting) + len(self._added_again) + len(self._due_s)

    @property
    def due(self) -> int:
        """How many keys are due, without those being reconciled."""
        return len(self._waiting) + len(self._added_again)

    @property
    def due_since_s(self) -> float | None:
        """Since when the oldest due key waits; None: no key is due."""
        self._add_due_keys()
        return next(iter(self._since_s.values()), None)

    def take_counts(self) -> tuple[int, int]:
        """How many keys became due, and how many were added for later, since the last call."""
        counts = self._added, self._delayed
        self._added, self._delayed = 0, 0
        return counts

    @property
    def is_full(self) -> bool:
        return len(self) >= self._max_keys

    @property
    def is_due(self) -> bool:
        """Whether a key is due."""
        self._add_due_keys()
        return bool(self._ready)

    def add(self, key: Key) -> None:
        if key in self._working:
            self._added_again.add(key)
            self._due_s.pop(key, None)
        elif key not in self._waiting and self._has_space(key):
            self._due_s.pop(key, None)
            self._waiting.add(key)
            self._ready.append(key)
            self._since_s[key] = self._clock.monotonic_s()
            self._added += 1
            self._changed.set()

    def add_after(self, key: Key, seconds: float) -> None:
        if seconds <= 0:
            self.add(key)
            return
        due_s = self._clock.monotonic_s() + seconds
        if key in self._waiting or key in self._added_again or self._due_s.get(key, due_s + 1) <= due_s:
            return
        if self._has_space(key):
            self._delayed += 1
            self._due_s[key] = due_s
            heapq.heappush(self._timers, (due_s, key))
            if len(self._timers) > 2 * len(self._due_s) + _FEW:
                self._timers = sorted((at_s, wanted) for wanted, at_s in self._due_s.items())
            self._changed.set()

    def retry(self, key: Key, *, at_least_s: float = 0) -> float:
        """Adds the key after a backoff for its failures in a row, and returns the delay."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        wait_s = max(min(at_least_s, errors.RETRY_AFTER_MAX_S), self._backoff.delay_s(failures, self._ids))
        self.add_after(key, wait_s)
        return wait_s

    def succeeded(self, key: Key) -> None:
        """Resets the backoff of the key."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """The next key that is due; the caller must call `done` for it. For one consumer, which calls `close` at the end."""
        while True:
            self._changed.clear()
            self._add_due_keys()
            if self._ready:
                key = self._ready.popleft()
                self._waiting.remove(key)
                self._working.add(key)
                self.waited_s = self._clock.monotonic_s() - self._since_s.pop(key)
                return key
            self._set_alarm()
            await self._changed.wait()

    def close(self) -> None:
        """Ends the task that waits for the next due time."""
        if self._alarm is not None:
            self._alarm.cancel()

    def done(self, key: Key) -> None:
        self._working.remove(key)
        if key in self._added_again:
            self._added_again.remove(key)
            self.add(key)

    def _has_space(self, key: Key) -> bool:
        if key in self._due_s or not self.is_full:
            return True
        self.overflowed = True
        return False

    def _add_due_keys(self) -> None:
        now_s = self._clock.monotonic_s()
        while self._timers and self._timers[0][0] <= now_s:
            due_s, key = heapq.heappop(self._timers)
            if self._due_s.get(key) == due_s:
                del self._due_s[key]
                self.add(key)

    def _set_alarm(self) -> None:
        """One task waits for the earliest due time, and is kept while keys come and go: most of them are due later."""
        while self._timers and self._due_s.get(self._timers[0][1]) != self._timers[0][0]:
            heapq.heappop(self._timers)  # obsolete: the key was added since, or is due sooner
        if not self._timers:
            return
        due_s, now_s = self._timers[0][0], self._clock.monotonic_s()
        is_set = self._alarm is not None and not self._alarm.done() and now_s < self._alarm_s <= due_s
        if not is_set:
            self.close()
            self._alarm, self._alarm_s = asyncio.create_task(self._ring(due_s - now_s)), due_s

    async def _ring(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._changed.set()
