"""What the ledger keeps of NodeClaims and instances equals what it computes from all of them, after random changes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.reservations import ledger
from holdfast.core.reservations.slot_use import SlotUseCache
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import ClaimView, CloudLabels, CountBefore, Snapshot
from planner_builders import WELL_KNOWN, reservation

LAG_S = 120
READ_S = 1000
IDS = ("cr-1", "cr-2")
PROVIDER_IDS = ("i-1", "i-2", "i-3", "i-4")
NAMES = ("a", "b", "c", "d")

times = st.integers(READ_S - 2 * LAG_S - 2, READ_S + 2)
counts = st.builds(CountBefore, times, st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))


@st.composite
def claims(draw: st.DrawFn, name: str) -> ClaimView:
    return ClaimView(
        name,
        "default",
        NO_REQUIREMENTS,
        reservation_id=draw(st.sampled_from((*IDS, None))),
        waits_for_instance=draw(st.sampled_from((None, *PROVIDER_IDS))),
        counted=draw(st.none() | counts),
        launched_s=draw(st.none() | times),
        provider_id=draw(st.sampled_from((None, *PROVIDER_IDS))),
        deleting=draw(st.booleans()),
    )


@st.composite
def instances(draw: st.DrawFn, provider_id: str) -> Instance:
    return Instance(
        provider_id,
        "m5.large",
        "z1",
        "reserved",
        draw(st.sampled_from(InstanceState)),
        draw(times),
        reservation_id=draw(st.sampled_from((*IDS, None))),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Snapshot]:
    """Successive snapshots. Some values stay the same objects; others change, are removed or new."""
    there: dict[str, Any] = {}
    found = []
    for _ in range(draw(st.integers(1, 6))):
        for key in draw(st.sets(st.sampled_from((*NAMES, *PROVIDER_IDS)))):
            if draw(st.booleans()):
                there[key] = draw(claims(key) if key in NAMES else instances(key))
            else:
                there.pop(key, None)
        found.append(
            Snapshot(
                READ_S + 5,
                CloudLabels(WELL_KNOWN),
                claims=tuple(there[key] for key in NAMES if key in there),
                instances=tuple(there[key] for key in PROVIDER_IDS if key in there),
                reservations=tuple(
                    reservation(id_, "m5.large", available=draw(st.integers(0, 4)), total=4) for id_ in IDS
                ),
                counts_read_s=READ_S,
                count_before=draw(st.dictionaries(st.sampled_from(IDS), counts, max_size=2)),
            )
        )
    return found


@settings(max_examples=200)
@given(histories())
def test_ledger_with_kept_values_equals_the_ledger_of_the_snapshot_alone(history: Sequence[Snapshot]) -> None:
    cache = SlotUseCache()
    for snapshot in history:
        alone = replace(snapshot)  # without the values that are cached in it
        cache.give(snapshot)
        assert ledger.ledger(snapshot, LAG_S) == ledger.ledger(alone, LAG_S)
        assert ledger.count_before(snapshot, LAG_S) == ledger.count_before(alone, LAG_S)


@settings(max_examples=200)
@given(histories(), st.randoms(use_true_random=False))
def test_ledger_does_not_depend_on_the_order_of_instances(history: Sequence[Snapshot], dice: Any) -> None:
    for snapshot in history:
        shuffled = list(snapshot.instances)
        dice.shuffle(shuffled)
        other = replace(snapshot, instances=tuple(shuffled))
        assert ledger.ledger(snapshot, LAG_S) == ledger.ledger(other, LAG_S)
