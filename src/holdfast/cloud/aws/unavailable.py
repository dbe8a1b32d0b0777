"""What launches found out: what cannot be bought for a while, and which reservations are to be left alone.

Written by whoever launches and by interruption warnings, read by the catalog. Two memories that never touch
(Q-43, decision 12): a full reservation says nothing about what can be bought, nor the other way round. The
rule: every entry ends by itself; `now_s` is the monotonic clock's.
"""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

K = TypeVar("K")

OFFERING_TTL_S: Final = 180.0
HOLD_DOWN_FIRST_S: Final = 60.0
HOLD_DOWN_LONGEST_S: Final = 960.0

Pool = tuple[str, str, str]
"""Instance type, zone and capacity type."""


class Marks(Generic[K]):
    """Things that are out of the question until a time of their own; marking again puts it off."""

    def __init__(self) -> None:
        self._until_s: dict[K, float] = {}

    def mark(self, thing: K, now_s: float, ttl_s: float = OFFERING_TTL_S) -> None:
        self._until_s[thing] = now_s + ttl_s

    def unmark(self, thing: K) -> None:
        self._until_s.pop(thing, None)

    def marked(self, now_s: float) -> frozenset[K]:
        self._until_s = {thing: until_s for thing, until_s in self._until_s.items() if until_s > now_s}
        return frozenset(self._until_s)


class Unavailable:
    """What cannot be bought for a while."""

    def __init__(self) -> None:
        self.pools = Marks[Pool]()  # EC2 has none left there
        self.capacity_types = Marks[str]()  # the account may not have any
        self.subnets = Marks[str]()  # no addresses left, whatever is launched


class HoldDowns:
    """Reservations into which a launch failed although their count said free, by id: each is left alone for
    longer the more often it fails, until a launch into it succeeds."""

    def __init__(self) -> None:
        self._marks = Marks[str]()
        self._failures: dict[str, int] = {}

    def failed(self, reservation_ids: Iterable[str], now_s: float) -> None:
        """Launches of one moment fail together and count once."""
        for reservation_id in set(reservation_ids) - self.held(now_s):
            count = self._failures.get(reservation_id, 0)
            held_s = min(HOLD_DOWN_FIRST_S * 2.0 ** min(count, 16), HOLD_DOWN_LONGEST_S)
            self._failures[reservation_id] = count + 1
            self._marks.mark(reservation_id, now_s, held_s)

    def succeeded(self, reservation_id: str) -> None:
        self._failures.pop(reservation_id, None)
        self._marks.unmark(reservation_id)

    def held(self, now_s: float) -> frozenset[str]:
        return self._marks.marked(now_s)

    def keep_only(self, reservation_ids: Iterable[str]) -> None:
        """Forgets reservations that no longer exist."""
        for gone in set(self._failures) - set(reservation_ids):
            self.succeeded(gone)
