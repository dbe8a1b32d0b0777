"""The ledger of slots: how many slots of every reservation are used, held, releasing and free.

The planner, disruption and the metrics use the same ledger. It is a pure function of the cloud's counts, our NodeClaims
and our instances, so a restart loses nothing. A slot is never free before the cloud's count shows it as free. A launch
is subtracted from every count that was read less than a lag after it, unless that count includes the launch.

A count lists no instances, so two lower bounds decide whether it includes our launches. First: the slots that were free
at the previous count, minus our launches since, are still free. Second: all slots minus our instances and those of
other clusters are free. If the new count is not higher than such a bound, it includes our launches. The second bound
also holds if our own instances released slots since the previous count, as when a reservation is rolled.

A claim with a slot has the count of its plan, so a new leader has a previous count too. It also shows how many slots our
instances used. Instances that terminated before the new leader started are not listed; their slots, which the cloud
releases later, would look like slots of other clusters.

Both bounds hold unless another cluster takes a slot between two counts. Then a slot may be counted once too often until
a count is a lag old. The cloud refuses that launch, as always when another cluster is faster.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from holdfast.core.reservations import slot_use
from holdfast.core.reservations.slot_use import SlotUse, between
from holdfast.model import reservations
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import CountBefore, Snapshot

_ID: Final = attrgetter("id")


@dataclass(frozen=True, slots=True)
class Entry:
    """The slots of one reservation."""

    reservation: Reservation
    usable: bool  # active and started, and its drain has not started
    used_here: int  # by instances of this cluster that are not terminating
    used_elsewhere: int  # by other clusters and accounts; slots that our instances released recently are not
    releasing: int  # its instance is terminating, or terminated so recently that the count may not show it
    held: int  # by NodeClaims whose instances the count does not include yet
    free: int  # slots that a plan may use; 0 if the reservation is not usable
    upcoming: int  # slots of a reservation that has not started
    unlisted: int = (
        0  # of `used_here`: launched, and not in the list of instances yet. `held` may include them
    )

    @property
    def waiting(self) -> int:
        """How many slots are held for NodeClaims that are not launched: what users see as held."""
        return max(0, self.held - self.unlisted)


def ledger(snapshot: Snapshot, lag_s: int) -> Mapping[str, Entry]:
    """The entries by reservation id. Cached in the snapshot: every launch and every disruption candidate needs them."""
    found: dict[str, Entry] | None = snapshot.cache.get((ledger, lag_s))
    if found is None:
        found = {one.id: one.entry() for one in _countings(snapshot, lag_s)}
        snapshot.cache[ledger, lag_s] = found
    return found


def reuse(before: Snapshot, after: Snapshot, lag_s: int) -> None:
    """Caches the ledger of `before` in `after`. The two may differ in nodes, NodePools and pending pods only: simulations
    of one disruption pass have the same ledger."""
    for name in ("taken_s", "claims", "reservations", "counts_read_s", "count_before", "instances"):
        assert getattr(after, name) is getattr(before, name), f"the ledger depends on {name}"
    after.cache[ledger, lag_s] = ledger(before, lag_s)


def count_before(snapshot: Snapshot, lag_s: int) -> Mapping[str, CountBefore]:
    """By reservation, the result of this snapshot's count that the ledger of the next count needs. Claims that may be
    launching now are subtracted: it is unknown which of the two counts includes them."""
    return {one.id: one.count_before() for one in _countings(snapshot, lag_s)}


def _countings(snapshot: Snapshot, lag_s: int) -> Iterator["_Counting"]:
    """By id of the reservation."""
    if snapshot.reservations:
        uses = slot_use.of(snapshot)
        for one in sorted(snapshot.reservations, key=_ID):
            yield _Counting(one, uses.get(one.id) or SlotUse(), snapshot, lag_s)


class _Counting:
    """The free slots of one reservation that follow from its NodeClaims, its instances and a count."""

    def __init__(self, one: Reservation, use: SlotUse, snapshot: Snapshot, lag_s: int) -> None:
        self.id = one.id
        self._one = one
        self._use = use
        self._snapshot = snapshot
        self._lag_s = lag_s
        self._read_s = snapshot.counts_read_s
        self._before = self._count_before()
        self._elsewhere = self._used_elsewhere()

    def entry(self) -> Entry:
        one, use, now_s = self._one, self._use, self._snapshot.taken_s
        # Claims that use a slot that was free when the count was read: they were launched since, or will be.
        held = use.to_launch + len(use.claims_s) - bisect_left(use.claims_s, self._read_s)
        held += one.available - self.free_when_counted()
        usable = reservations.launches_into(one, now_s)
        window = reservations.window(one, now_s)
        used = one.total - one.available
        return Entry(
            reservation=one,
            usable=usable,
            used_here=use.instances - use.terminating + use.unlisted,
            used_elsewhere=max(0, used - use.instances - max(0, use.unlisted - held)),
            releasing=use.terminating,
            held=held,
            free=max(0, one.available - held) if usable else 0,
            upcoming=one.total if isinstance(window, reservations.Upcoming) else 0,
            unlisted=use.unlisted,
        )

    def count_before(self) -> CountBefore:
        free = self.free_when_counted() - self._use.to_launch
        return CountBefore(self._read_s, free, self._elsewhere, self._ours(until_s=self._read_s))

    def free_when_counted(self) -> int:
        """How many slots were certainly free when the count was read, whichever of our launches it includes."""
        one, use, read_s, before = self._one, self._use, self._read_s, self._before
        certain = one.available - between(use.claims_s, read_s - self._lag_s + 1, read_s)
        if before is not None:
            # An instance without a claim was launched too, and may not have released its slot yet.
            since = between(use.claims_s, before.read_s, read_s)
            since += between(use.unclaimed_s, before.read_s, read_s)
            certain = max(certain, before.free - since)
        unused = one.total - self._elsewhere - self._ours(until_s=read_s)
        return min(max(certain, unused), one.available)

    def _used_elsewhere(self) -> int:
        """The maximum number of slots that other clusters used when the count was read: all used slots minus those that
        are certainly ours; or the number at the previous count, unless this count shows more."""
        used = self._one.total - self._one.available
        certain = used - self._ours(until_s=self._read_s - self._lag_s + 1)
        if self._before is None:
            return max(0, certain)
        shown = used - self._gone() - self._ours(until_s=self._read_s)
        return max(0, shown, min(certain, self._before.elsewhere))

    def _gone(self) -> int:
        """How many of our instances left slots so recently that the count may not show it: those that the process
        listed before, or those that were in slots at the count of a recently launched claim and are not listed now."""
        since_s = self._read_s - self._lag_s
        left = (
            before.here - self._ours(until_s=before.read_s)
            for before, launched_s in self._counts_of_claims()
            if launched_s is not None and launched_s > since_s
        )
        return max(self._use.gone, max(left, default=0))

    def _count_before(self) -> CountBefore | None:
        """The count before. A process that has read only one count, such as a new leader, uses the newest one that a
        claim has, unless it is so old that no launch since then is in doubt."""
        if self._one.id in self._snapshot.count_before:
            return self._snapshot.count_before[self._one.id]
        found = self._counts_of_claims()
        return max((before for before, _ in found), key=lambda before: before.read_s, default=None)

    def _counts_of_claims(self) -> list[tuple[CountBefore, int | None]]:
        """The earlier counts that claims have. The claims of one plan have the same."""
        return self._use.counted_between(self._read_s - 2 * self._lag_s, self._read_s)

    def _ours(self, until_s: int) -> int:
        """How many of our instances in the reservation were launched before a time. Instances of claims count even if
        they are not listed yet."""
        return bisect_left(self._use.ours_s, until_s)
