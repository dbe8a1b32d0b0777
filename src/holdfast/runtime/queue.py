"""The work queue: which keys are to be looked at, and when.

Callers: `controller` takes keys out, watch caches put them in. The rules: a key is waiting at most once; it is never
given out twice at a time, and one that is added while it is worked on comes again afterwards; of two times a key is
wanted, the earlier counts. The queue is bounded: what finds no room is remembered as one fact, `overflowed`, and
whoever knows all the keys adds them again later.
"""

import asyncio
import heapq
from collections import deque
from typing import Final

from holdfast import errors
from holdfast.ports import Clock, Ids
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.results import Key

MOST_KEYS: Final = 1_000_000
BACKOFF: Final = Backoff(base_s=0.2, cap_s=300)
_FEW: Final = 64


class WorkQueue:
    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        backoff: Backoff = BACKOFF,
        most_keys: int = MOST_KEYS,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._backoff = backoff
        self._most_keys = most_keys
        self._ready: deque[Key] = deque()
        self._waiting: set[Key] = set()  # those in `_ready`
        self._working: set[Key] = set()
        self._again: set[Key] = set()  # added while worked on
        self._due_s: dict[Key, float] = {}
        self._timers: list[tuple[float, Key]] = []  # a heap; an entry counts if it is what `_due_s` says
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()
        self.overflowed = False

    def __len__(self) -> int:
        """How many keys are wanted, now or later. Those being worked on are not counted."""
        return len(self._waiting) + len(self._again) + len(self._due_s)

    @property
    def is_full(self) -> bool:
        return len(self) >= self._most_keys

    @property
    def is_due(self) -> bool:
        """Whether a key could be given out now."""
        self._wake_what_is_due()
        return bool(self._ready)

    def add(self, key: Key) -> None:
        if key in self._working:
            self._again.add(key)
            self._due_s.pop(key, None)
        elif key not in self._waiting and self._has_room(key):
            self._due_s.pop(key, None)
            self._waiting.add(key)
            self._ready.append(key)
            self._changed.set()

    def add_after(self, key: Key, seconds: float) -> None:
        if seconds <= 0:
            self.add(key)
            return
        due_s = self._clock.monotonic_s() + seconds
        if key in self._waiting or key in self._again or self._due_s.get(key, due_s + 1) <= due_s:
            return
        if self._has_room(key):
            self._due_s[key] = due_s
            heapq.heappush(self._timers, (due_s, key))
            if len(self._timers) > 2 * len(self._due_s) + _FEW:
                self._timers = sorted((at_s, wanted) for wanted, at_s in self._due_s.items())
            self._changed.set()

    def retry(self, key: Key, *, at_least_s: float = 0) -> float:
        """Adds the key after the wait of its failures in a row, one more now. The answer is that wait."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        wait_s = max(min(at_least_s, errors.RETRY_AFTER_MAX_S), self._backoff.delay_s(failures, self._ids))
        self.add_after(key, wait_s)
        return wait_s

    def succeeded(self, key: Key) -> None:
        """The next failure of the key is its first again."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """The next key that is due; it must be given back with `done`. For one consumer."""
        while True:
            self._changed.clear()
            self._wake_what_is_due()
            if self._ready:
                key = self._ready.popleft()
                self._waiting.remove(key)
                self._working.add(key)
                return key
            await self._until_something_is_due()

    def done(self, key: Key) -> None:
        self._working.remove(key)
        if key in self._again:
            self._again.remove(key)
            self.add(key)

    def _has_room(self, key: Key) -> bool:
        if key in self._due_s or not self.is_full:
            return True
        self.overflowed = True
        return False

    def _wake_what_is_due(self) -> None:
        now_s = self._clock.monotonic_s()
        while self._timers and self._timers[0][0] <= now_s:
            due_s, key = heapq.heappop(self._timers)
            if self._due_s.get(key) == due_s:
                del self._due_s[key]
                self.add(key)

    async def _until_something_is_due(self) -> None:
        while self._timers and self._due_s.get(self._timers[0][1]) != self._timers[0][0]:
            heapq.heappop(self._timers)  # its key was added since, or is wanted sooner
        if not self._timers:
            await self._changed.wait()
            return
        sleeping = asyncio.ensure_future(self._clock.sleep(self._timers[0][0] - self._clock.monotonic_s()))
        changing = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({sleeping, changing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            changing.cancel()
