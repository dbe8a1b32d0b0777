"""Offerings that EC2 cannot launch for a while, and reservations that launches skip for a while.

The launcher and interruption warnings write it; the catalog reads it. The two caches are independent (Q-43,
decision 12): a full reservation does not make on-demand or spot capacity unavailable, nor the reverse. The
rule: every entry ends by itself, with time or with a newer count; `now_s` is the monotonic clock's.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

K = TypeVar("K")

OFFERING_TTL_S: Final = 180.0
HOLD_DOWN_FIRST_S: Final = 60.0
HOLD_DOWN_LONGEST_S: Final = 960.0

Pool = tuple[str, str, str]
"""Instance type, zone and capacity type."""


class ExpiringSet(Generic[K]):
    """A set whose members expire, each at its own time; adding a member again extends its time."""

    def __init__(self) -> None:
        self._until_s: dict[K, float] = {}

    def add(self, thing: K, now_s: float, ttl_s: float = OFFERING_TTL_S) -> None:
        self._until_s[thing] = now_s + ttl_s

    def discard(self, thing: K) -> None:
        self._until_s.pop(thing, None)

    def members(self, now_s: float) -> frozenset[K]:
        self._until_s = {thing: until_s for thing, until_s in self._until_s.items() if until_s > now_s}
        return frozenset(self._until_s)


class Unavailable:
    """On-demand and spot capacity that EC2 cannot launch for a while."""

    def __init__(self) -> None:
        self.pools = ExpiringSet[Pool]()  # EC2 has none left there
        self.capacity_types = ExpiringSet[str]()  # the account may not have any
        self.subnets = ExpiringSet[str]()  # no addresses left, whatever is launched


class HoldDowns:
    """Reservations that are left alone, by id, for one of two reasons. One that EC2 called full, and whose count
    agreed, until a reading that began later shows a free slot: what is paid for must not idle. One that EC2
    refuses although its count says free, for longer the more often it does so; else every launch would try."""

    def __init__(self) -> None:
        self._full_s: dict[str, float] = {}  # when each was found full
        self._refused = ExpiringSet[str]()
        self._refusals: dict[str, int] = {}

    def full(self, reservation_ids: Iterable[str], now_s: float) -> None:
        self._full_s |= dict.fromkeys(reservation_ids, now_s)

    def refused(self, reservation_ids: Iterable[str], now_s: float) -> None:
        """Launches of one moment fail together and count once."""
        for reservation_id in set(reservation_ids) - self._refused.members(now_s):
            count = self._refusals.get(reservation_id, 0)
            held_s = min(HOLD_DOWN_FIRST_S * 2.0 ** min(count, 16), HOLD_DOWN_LONGEST_S)
            self._refusals[reservation_id] = count + 1
            self._refused.add(reservation_id, now_s, held_s)

    def succeeded(self, reservation_id: str) -> None:
        """A launch into it."""
        self._full_s.pop(reservation_id, None)
        self._refusals.pop(reservation_id, None)
        self._refused.discard(reservation_id)

    def counted(self, free: Mapping[str, int], began_s: float) -> None:
        """A reading that began then showed so many free slots. A reservation it does not have is forgotten."""
        for gone in (self._full_s.keys() | self._refusals.keys()) - free.keys():
            self.succeeded(gone)
        self._full_s = {
            known: full_s for known, full_s in self._full_s.items() if began_s <= full_s or not free[known]
        }

    def held(self, now_s: float) -> frozenset[str]:
        return self._refused.members(now_s) | self._full_s.keys()
