"""The instances of the last list, and those that have terminated in a slot since.

Called by `cluster_state`. A list is the same tuple until the next one is read, and several snapshots use it. So what is
derived from a list is computed once.
"""

import dataclasses
from collections import Counter
from typing import Final

from holdfast.api.nodeclaim import NodeClaim
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.reservations import Reservation
from holdfast.ports import Clock
from holdfast.runtime import indexes
from holdfast.runtime.cache import Cache

_MOVING: Final = (InstanceState.STARTING, InstanceState.ENDING)
_RELEASING: Final = (InstanceState.ENDING, InstanceState.GONE)


class ListedInstances:
    def __init__(self, claims: Cache[NodeClaim], *, clock: Clock, ledger_lag_s: int) -> None:
        self._clock = clock
        self._ledger_lag_s = ledger_lag_s
        self._claims = claims.index(indexes.by_provider_id)
        self._listed: tuple[Instance, ...] = ()
        self._ids: frozenset[str] = frozenset()
        self._in_slots: tuple[Instance, ...] = ()  # of the list
        self._is_one_moving = False  # of `_in_slots`
        self._is_one_releasing = False
        self._has_orphan: bool | None = False  # None: a provider id of a NodeClaim changed
        self._gone: dict[Instance, int] = {}  # terminated in a slot -> time of the first list without them
        self._all: tuple[Instance, ...] = ()
        self._used: dict[str, int] = {}  # slots by reservation, by the counts before the list
        self._first_s: float | None = None  # when instances were first listed
        claims.subscribe(self._on_claim)

    @property
    def is_known(self) -> bool:
        """Whether instances were listed."""
        return self._first_s is not None

    def all(self) -> tuple[Instance, ...]:
        """Sorted by provider id. The same tuple is returned until something changes."""
        return self._all

    def listed(
        self, found: tuple[Instance, ...], counts_began_s: float, reservations: tuple[Reservation, ...] = ()
    ) -> None:
        """Stores a list. Instances that were in slots and are no longer listed have terminated. They stay in the snapshot
        until a count can include their slots as free. `counts_began_s`: when the newest counts were read.
        `reservations`: with these counts."""
        self._used = _used(reservations)
        gone = self._gone
        if found is not self._listed:
            ids, now_s = frozenset([one.provider_id for one in found]), self._clock.now_s()
            missed = (one for one in self._in_slots if one.provider_id not in ids)
            gone = gone | {dataclasses.replace(one, state=InstanceState.GONE): now_s for one in missed}
            self._ids = ids
        gone = {
            one: at_s
            for one, at_s in gone.items()
            if counts_began_s < at_s + self._ledger_lag_s and one.provider_id not in self._ids
        }
        if found is not self._listed or gone.keys() != self._gone.keys():
            self._all = tuple(sorted((*found, *gone), key=lambda one: one.provider_id))
        if found is not self._listed:
            self._listed, self._has_orphan = found, None
            self._in_slots = tuple([one for one in found if one.reservation_id])
            self._is_one_moving = any(one.state in _MOVING for one in self._in_slots)
            self._is_one_releasing = any(one.state in _RELEASING for one in self._in_slots)
        self._gone = gone
        if self._first_s is None:
            self._first_s = self._clock.monotonic_s()

    def has_more_used(self, reservations: tuple[Reservation, ...]) -> bool:
        """Whether a reservation has more used slots than when the list was read. The cloud may have moved an instance into
        an open reservation, and the list would show it outside."""
        return any(count > self._used.get(id_, 0) for id_, count in _used(reservations).items())

    def are_in_motion(self) -> bool:
        """Whether an instance starts or terminates in a slot, or has no NodeClaim. On-demand and spot instances do not
        count: they hold no slot."""
        if self._has_orphan is None:
            self._has_orphan = any(not self._claims.get(one.provider_id) for one in self._in_slots)
        return self._has_orphan or self._is_one_moving

    def are_slots_released(self, reservations: tuple[Reservation, ...]) -> bool:
        """Whether a slot may become free soon: its instance is terminating, or terminated so recently that counts may
        not show the slot as free. A new leader does not list instances that terminated before. Until a lag after its
        first list, every used slot that no listed instance has may be such a slot."""
        if self._gone or self._is_one_releasing:
            return True
        if self._first_s is None or self._clock.monotonic_s() - self._first_s >= self._ledger_lag_s:
            return False
        used_here = Counter(one.reservation_id for one in self._in_slots)
        return any(one.total - one.available > used_here[one.id] for one in reservations)

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        had = before.status.provider_id if before is not None else None
        has = after.status.provider_id if after is not None else None
        if had != has:
            self._has_orphan = None


def _used(reservations: tuple[Reservation, ...]) -> dict[str, int]:
    return {one.id: one.total - one.available for one in reservations}
