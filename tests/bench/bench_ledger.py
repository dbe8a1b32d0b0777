"""How long the ledger takes over a large cluster: CPU milliseconds, the smallest of several runs.

Run by `make bench`. Prints a table; asserts nothing, since computers differ. "first" looks at all NodeClaims and
instances. "newer counts" is the next ledger while NodeClaims and instances stay the same.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from holdfast.core.reservations import ledger
from holdfast.core.reservations.slot_use import SlotUseCache
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import ClaimView, CloudLabels, CountBefore, Snapshot
from planner_builders import WELL_KNOWN, reservation

RUNS: Final = 15
LAG_S: Final = 120
NOW_S: Final = 10_000


def main() -> None:
    print("| reservations | NodeClaims | in reservations | first ms | newer counts ms |")
    print("| --- | --- | --- | --- | --- |")
    for reservations, claims, in_slots in (
        (1, 1_000, 333),
        (500, 1_000, 1_000),
        (500, 10_000, 1_000),
        (500, 10_000, 10_000),
    ):
        snapshot, cache = cluster(reservations, claims, in_slots), SlotUseCache()
        first = best(snapshot, lambda one: one)
        again = best(snapshot, cache.give)
        print(f"| {reservations} | {claims:,} | {in_slots:,} | {first:.2f} | {again:.2f} |", flush=True)


def cluster(reservations: int, claims: int, in_slots: int) -> Snapshot:
    ids = [f"cr-{i % reservations:03d}" if i < in_slots else None for i in range(claims)]
    total = in_slots // reservations + 5
    return Snapshot(
        NOW_S,
        CloudLabels(WELL_KNOWN),
        claims=tuple(
            ClaimView(
                f"claim-{i:05d}",
                "default",
                NO_REQUIREMENTS,
                reservation_id=id_,
                counted=CountBefore(i % NOW_S, 1, 0, 0) if id_ is not None else None,
                launched_s=i % NOW_S,
                provider_id=f"id-{i:05d}",
            )
            for i, id_ in enumerate(ids)
        ),
        instances=tuple(
            Instance(
                f"id-{i:05d}", "m5.large", "z1", "any", InstanceState.RUNNING, i % NOW_S, reservation_id=id_
            )
            for i, id_ in enumerate(ids)
        ),
        reservations=tuple(
            reservation(f"cr-{i:03d}", "m5.large", available=5, total=total) for i in range(reservations)
        ),
        counts_read_s=NOW_S - 10,
    )


def best(snapshot: Snapshot, prepare: Callable[[Snapshot], Snapshot]) -> float:
    found = []
    for _ in range(RUNS):
        fresh = replace(snapshot)  # without cached values
        began = time.process_time()
        ledger.ledger(prepare(fresh), LAG_S)
        found.append(time.process_time() - began)
    return min(found) * 1000


if __name__ == "__main__":
    main()
