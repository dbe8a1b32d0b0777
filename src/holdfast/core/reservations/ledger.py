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

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.model import reservations
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import ClaimView, CountBefore, Snapshot

_TERMINATING: Final = (InstanceState.ENDING, InstanceState.GONE)


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
        counting = _Counting(snapshot, lag_s)
        found = {one.id: counting.entry(one) for one in sorted(snapshot.reservations, key=lambda r: r.id)}
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
    counting = _Counting(snapshot, lag_s)
    return {one.id: counting.count_before(one) for one in snapshot.reservations}


class _Counting:
    """Claims and instances by reservation, and the free slots that follow from them and a count."""

    def __init__(self, snapshot: Snapshot, lag_s: int) -> None:
        self._snapshot = snapshot
        self._lag_s = lag_s
        self.claims: defaultdict[str | None, list[ClaimView]] = defaultdict(list)
        self.instances: defaultdict[str | None, list[Instance]] = defaultdict(list)
        self._launched_s: defaultdict[str | None, list[int]] = defaultdict(
            list
        )  # of instances that are not GONE
        by_claims = {c.provider_id: c.launched_s for c in snapshot.claims if c.launched_s is not None}
        for one in snapshot.instances:
            self.instances[one.reservation_id].append(one)
            if one.state is not InstanceState.GONE:
                at_s = by_claims.get(one.provider_id, one.launched_s)
                self._launched_s[one.reservation_id].append(at_s)
        self._listed = listed = {one.provider_id for one in snapshot.instances}
        self._occupying = {
            one.provider_id for one in snapshot.instances if one.state is not InstanceState.GONE
        }
        for claim in snapshot.claims:
            self.claims[claim.reservation_id].append(claim)
            if claim.launched_s is not None and claim.provider_id not in listed:
                self._launched_s[claim.reservation_id].append(claim.launched_s)

    def entry(self, one: Reservation) -> Entry:
        snapshot, ours = self._snapshot, self.instances[one.id]
        terminating = sum(instance.state in _TERMINATING for instance in ours)
        unlisted = sum(self._is_unlisted(claim) for claim in self.claims[one.id])
        held = sum(self._holds(claim) for claim in self.claims[one.id])
        held += one.available - self.free_when_counted(one)
        usable = reservations.launches_into(one, snapshot.taken_s)
        window = reservations.window(one, snapshot.taken_s)
        return Entry(
            reservation=one,
            usable=usable,
            used_here=len(ours) - terminating + unlisted,
            used_elsewhere=max(0, one.total - one.available - len(ours) - max(0, unlisted - held)),
            releasing=terminating,
            held=held,
            free=max(0, one.available - held) if usable else 0,
            upcoming=one.total if isinstance(window, reservations.Upcoming) else 0,
            unlisted=unlisted,
        )

    def count_before(self, one: Reservation) -> CountBefore:
        launching = sum(self.waits_to_be_launched(claim) for claim in self.claims[one.id])
        free = self.free_when_counted(one) - launching
        here = self._ours(one, until_s=self._snapshot.counts_read_s)
        return CountBefore(self._snapshot.counts_read_s, free, self.elsewhere(one), here)

    def free_when_counted(self, one: Reservation) -> int:
        """How many slots were certainly free when the count was read, whichever of our launches it includes."""
        read_s, before = self._snapshot.counts_read_s, self._before(one)
        launches = [claim.launched_s for claim in self.claims[one.id] if claim.launched_s is not None]
        certain = one.available - sum(read_s - self._lag_s < at_s < read_s for at_s in launches)
        if before is not None:
            # An instance without a claim was launched too, and may not have released its slot yet.
            since = [*launches, *self._launches_without_claim(one)]
            still_free = before.free - sum(before.read_s <= at_s < read_s for at_s in since)
            certain = max(certain, still_free)
        unused = one.total - self.elsewhere(one) - self._ours(one, until_s=read_s)
        return min(max(certain, unused), one.available)

    def _launches_without_claim(self, one: Reservation) -> list[int]:
        claimed = {claim.provider_id for claim in self.claims[one.id]}
        return [i.launched_s for i in self.instances[one.id] if i.provider_id not in claimed]

    def elsewhere(self, one: Reservation) -> int:
        """The maximum number of slots that other clusters used when the count was read: all used slots minus those that
        are certainly ours; or the number at the previous count, unless this count shows more."""
        used, read_s, before = one.total - one.available, self._snapshot.counts_read_s, self._before(one)
        certain = used - self._ours(one, until_s=read_s - self._lag_s + 1)
        if before is None:
            return max(0, certain)
        shown = used - self._gone(one) - self._ours(one, until_s=read_s)
        return max(0, shown, min(certain, before.elsewhere))

    def _gone(self, one: Reservation) -> int:
        """How many of our instances left slots so recently that the count may not show it: those that the process
        listed before, or those that were in slots at the count of a recently launched claim and are not listed now."""
        listed_before = sum(instance.state is InstanceState.GONE for instance in self.instances[one.id])
        since_s = self._snapshot.counts_read_s - self._lag_s
        launched = [c for c in self.claims[one.id] if c.launched_s is not None and c.launched_s > since_s]
        left = (before.here - self._ours(one, until_s=before.read_s) for before in self._counts_of(launched))
        return max([listed_before, *left])

    def _before(self, one: Reservation) -> CountBefore | None:
        """The count before. A process that has read only one count, such as a new leader, uses the newest one that a
        claim has, unless it is so old that no launch since then is in doubt."""
        if one.id in self._snapshot.count_before:
            return self._snapshot.count_before[one.id]
        return max(self._counts_of(self.claims[one.id]), key=lambda before: before.read_s, default=None)

    def _counts_of(self, claims: Iterable[ClaimView]) -> set[CountBefore]:
        """The earlier counts that claims have. The claims of one plan have the same."""
        read_s = self._snapshot.counts_read_s
        found = {claim.counted for claim in claims if claim.counted is not None}
        return {before for before in found if read_s - 2 * self._lag_s < before.read_s < read_s}

    def _ours(self, one: Reservation, until_s: int) -> int:
        """How many of our instances in a reservation were launched before a time. Instances of claims count even if
        they are not listed yet."""
        return sum(at_s < until_s for at_s in self._launched_s[one.id])

    def _is_unlisted(self, claim: ClaimView) -> bool:
        """Whether the list of instances is older than the claim's instance."""
        return claim.launched_s is not None and not claim.deleting and claim.provider_id not in self._listed

    def _holds(self, claim: ClaimView) -> bool:
        """Whether a claim uses a slot that was free when the count was read: it was launched since, or will be."""
        if claim.launched_s is not None:
            return claim.launched_s >= self._snapshot.counts_read_s
        return self.waits_to_be_launched(claim)

    def waits_to_be_launched(self, claim: ClaimView) -> bool:
        """Whether a claim may be launched at any time. A claim that waits for an instance may, once it terminated."""
        if claim.launched_s is not None:
            return False
        if claim.waits_for_instance is not None:
            return claim.waits_for_instance not in self._occupying
        return not claim.deleting
