"""Caches of offerings that EC2 cannot launch, and of reservations that launches skip.

The launcher and interruption notices write to them; the catalog reads them. The two caches are independent (Q-43,
decision 12): a full reservation does not make on-demand or spot capacity unavailable, nor the reverse. Every entry
expires, after some time or with a newer count. `now_s` is of the monotonic clock.
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
    """On-demand and spot capacity that EC2 cannot launch now."""

    def __init__(self) -> None:
        self.pools = ExpiringSet[Pool]()  # EC2 has no capacity
        self.capacity_types = ExpiringSet[str]()  # the account may not launch
        self.subnets = ExpiringSet[str]()  # without free addresses


class HoldDowns:
    """The ids of reservations in hold-down, for one of two reasons. EC2 reported it full and its count agreed: until a
    reading that began later shows a free slot, because paid capacity must not stay idle. EC2 rejects launches although
    the count shows free slots: for longer after each rejection, because otherwise every launch would try it."""

    def __init__(self) -> None:
        self._full_s: dict[str, float] = {}  # when EC2 reported it full
        self._refused = ExpiringSet[str]()
        self._refusals: dict[str, int] = {}

    def full(self, reservation_ids: Iterable[str], now_s: float) -> None:
        self._full_s |= dict.fromkeys(reservation_ids, now_s)

    def refused(self, reservation_ids: Iterable[str], now_s: float) -> None:
        """Launches that fail at the same time count once."""
        for reservation_id in set(reservation_ids) - self._refused.members(now_s):
            count = self._refusals.get(reservation_id, 0)
            held_s = min(HOLD_DOWN_FIRST_S * 2.0 ** min(count, 16), HOLD_DOWN_LONGEST_S)
            self._refusals[reservation_id] = count + 1
            self._refused.add(reservation_id, now_s, held_s)

    def succeeded(self, reservation_id: str) -> None:
        """A launch into the reservation succeeded."""
        self._full_s.pop(reservation_id, None)
        self._refusals.pop(reservation_id, None)
        self._refused.discard(reservation_id)

    def counted(self, free: Mapping[str, int], began_s: float) -> None:
        """Applies the free slots of a reading that began at `began_s`. Entries of reservations that it does not have
        are deleted."""
        for gone in (self._full_s.keys() | self._refusals.keys()) - free.keys():
            self.succeeded(gone)
        self._full_s = {
            known: full_s for known, full_s in self._full_s.items() if began_s <= full_s or not free[known]
        }

    def held(self, now_s: float) -> frozenset[str]:
        return self._refused.members(now_s) | self._full_s.keys()
