"""The NodeClaims and instances of each reservation, as the ledger counts them.

They depend on no time and on no count of the cloud, so a ledger with newer counts uses the same values. `SlotUseCache`
keeps them while NodeClaims and instances stay the same. Most NodeClaims and instances are in no reservation, and cost
almost nothing here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.instances import Instance, InstanceState
from holdfast.model.snapshot import ClaimView, CountBefore, Snapshot

_TERMINATING: Final = (InstanceState.ENDING, InstanceState.GONE)


@dataclass(slots=True)
class SlotUse:
    """The NodeClaims and instances of one reservation. All times are sorted."""

    instances: int = 0
    terminating: int = 0
    gone: int = 0  # of `terminating`: not listed by the cloud any more
    unlisted: int = 0  # NodeClaims whose instances are not in the list of instances yet
    to_launch: int = 0  # NodeClaims that may be launched at any time
    # When our instances were launched: those that are not gone, and those of NodeClaims that are not listed yet.
    ours_s: list[int] = field(default_factory=list)
    claims_s: list[int] = field(default_factory=list)  # when NodeClaims were launched
    unclaimed_s: list[int] = field(default_factory=list)  # when instances without a NodeClaim were launched
    # The counts that NodeClaims have, by the times of these counts, with the times when the NodeClaims were launched.
    counted: list[tuple[CountBefore, int | None]] = field(default_factory=list)

    def counted_between(self, since_s: int, until_s: int) -> list[tuple[CountBefore, int | None]]:
        """The counts after `since_s` and before `until_s`."""
        return self.counted[
            bisect_right(self.counted, since_s, key=_read_s) : bisect_left(self.counted, until_s, key=_read_s)
        ]


SlotUses = Mapping[str, SlotUse]
"""By reservation, if it has NodeClaims or instances."""


def of(snapshot: Snapshot) -> SlotUses:
    found: SlotUses | None = snapshot.cache.get(of)
    if found is None:
        found = snapshot.cache[of] = compute(snapshot.claims, snapshot.instances)
    return found


class SlotUseCache:
    """The last result of `compute`."""

    def __init__(self) -> None:
        self._claims: Sequence[ClaimView] | None = None
        self._instances: Sequence[Instance] = ()
        self._found: SlotUses = {}

    def give(self, snapshot: Snapshot) -> Snapshot:
        """Puts the result into the cache of the snapshot, and returns the snapshot."""
        if self._claims != snapshot.claims or self._instances != snapshot.instances:
            self._claims, self._instances = snapshot.claims, snapshot.instances
            self._found = compute(snapshot.claims, snapshot.instances)
        snapshot.cache[of] = self._found
        return snapshot


def compute(claims: Sequence[ClaimView], instances: Sequence[Instance]) -> SlotUses:
    """Looks at every NodeClaim and instance once."""
    in_slots = [one for one in instances if one.reservation_id is not None]
    with_slots = [claim for claim in claims if claim.reservation_id is not None]
    if not in_slots and not with_slots:
        return {}
    found: dict[str, SlotUse] = {}
    _add_instances(found, in_slots, claims, with_slots)
    listed = {one.provider_id for one in instances}
    waits = any(claim.waits_for_instance is not None for claim in with_slots)
    gone = {one.provider_id for one in instances if one.state is InstanceState.GONE} if waits else set[str]()
    _add_claims(found, with_slots, listed, listed - gone if gone else listed)
    for use in found.values():
        for times in (use.ours_s, use.claims_s, use.unclaimed_s):
            times.sort()
        use.counted.sort(key=_read_s)
    return found


def _add_instances(
    found: dict[str, SlotUse],
    in_slots: Iterable[Instance],
    claims: Iterable[ClaimView],
    with_slots: Iterable[ClaimView],
) -> None:
    launched = {claim.provider_id: claim for claim in claims if claim.launched_s is not None}
    doubtful: list[Instance] = []  # no launched NodeClaim of the same reservation has it
    for one in in_slots:
        id_ = one.reservation_id
        assert id_ is not None
        use = found.get(id_)
        if use is None:
            use = found[id_] = SlotUse()
        claim = launched.get(one.provider_id)
        use.instances += 1
        if one.state in _TERMINATING:
            use.terminating += 1
        if one.state is InstanceState.GONE:
            use.gone += 1
        elif claim is not None and claim.launched_s is not None:
            use.ours_s.append(claim.launched_s)
        else:
            use.ours_s.append(one.launched_s)
        if claim is None or claim.reservation_id != id_:
            doubtful.append(one)
    if doubtful:
        claimed = {(claim.reservation_id, claim.provider_id) for claim in with_slots}
        for one in doubtful:
            if (one.reservation_id, one.provider_id) not in claimed:
                found[one.reservation_id or ""].unclaimed_s.append(one.launched_s)


def _add_claims(
    found: dict[str, SlotUse],
    with_slots: Iterable[ClaimView],
    listed: AbstractSet[str | None],
    occupying: AbstractSet[str | None],
) -> None:
    """`listed`: provider ids of all instances; `occupying`: of those that are not gone."""
    for claim in with_slots:
        id_, at_s = claim.reservation_id, claim.launched_s
        assert id_ is not None
        use = found.get(id_)
        if use is None:
            use = found[id_] = SlotUse()
        if at_s is None:
            use.to_launch += _waits_to_be_launched(claim, occupying)
        else:
            use.claims_s.append(at_s)
            if claim.provider_id not in listed:
                use.ours_s.append(at_s)
                use.unlisted += not claim.deleting
        if claim.counted is not None:
            use.counted.append((claim.counted, at_s))


def _waits_to_be_launched(claim: ClaimView, occupying: AbstractSet[str | None]) -> bool:
    """Whether a claim may be launched at any time. A claim that waits for an instance may, once it terminated."""
    if claim.waits_for_instance is not None:
        return claim.waits_for_instance not in occupying
    return not claim.deleting


def between(times_s: Sequence[int], since_s: int, until_s: int) -> int:
    """How many of the sorted times are not before `since_s` and before `until_s`."""
    return max(0, bisect_left(times_s, until_s) - bisect_left(times_s, since_s))


def _read_s(counted: tuple[CountBefore, int | None]) -> int:
    return counted[0].read_s
