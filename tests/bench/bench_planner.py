"""How long a plan takes: Karpenter's benchmark mix from pod values to claims, and the extreme of one slot.

Run by `make bench`. Prints tables; asserts nothing, since machines differ.
"""

import gc
import statistics
import time

from holdfast import names
from holdfast.core.scheduling.request import SolveRequest
from holdfast.core.scheduling.solve import solve
from planner_builders import benchmark_mix, fake_types, one_per_node, pods, pool, request, reservation, shape

RUNS = 5
SIZES = (100, 1_000, 5_000, 10_000, 50_000)


def main() -> None:
    print("| case | pods | nodes | s | pods/s |")
    print("| --- | --- | --- | --- | --- |")
    types = fake_types(400)
    for size in SIZES:
        report("mix", size, request([pool("default", types)], benchmark_mix(size)))
    for count in (0, 20, 500):
        kept = [reservation(f"cr-{i:03d}", f"fake-it-{i % 400}", f"z{i % 3 + 1}") for i in range(count)]
        asked = request([pool("default", fake_types(400, kept))], benchmark_mix(10_000), kept)
        report(f"mix, {count} reservations", 10_000, asked)
    kept = [reservation("cr-1", "fake-it-5")]
    extreme = pods(10_000, shape(**one_per_node()))
    report("one per node, one slot", 10_000, request([pool("default", fake_types(400, kept))], extreme, kept))


def report(case: str, size: int, asked: SolveRequest) -> None:
    plan = solve(asked)  # compiles, where that is needed
    times = []
    for _ in range(RUNS):
        gc.collect()
        began = time.perf_counter()
        solve(asked)
        times.append(time.perf_counter() - began)
    median = statistics.median(times)
    reserved = sum(claim.capacity_type == names.RESERVED for claim in plan.claims)
    print(
        f"| {case} | {size:,} | {len(plan.claims):,} ({reserved} reserved) | {median:.3f} | {size / median:,.0f} |"
    )


if __name__ == "__main__":
    main()
