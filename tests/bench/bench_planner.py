"""How long a plan takes, from pod objects to claims, and how that grows.

Run by `make bench`. Prints tables; asserts nothing, since computers differ. "first" is with empty caches; "again" is with
the caches of a running controller, which has converted the pods and the catalog before.
"""

import gc
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench import workloads
from holdfast import names
from holdfast.api.pods import Pod
from holdfast.core.scheduling.input.columns import CatalogCache
from holdfast.core.scheduling.input.request import Packing, SolveRequest
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import PodView
from holdfast.model.snapshot import NodePoolView
from planner_builders import fake_types, pool, request, reservation

RUNS: Final = 5
Asked = Callable[[Sequence[PodView]], SolveRequest]


def main() -> None:
    fake = pool("default", fake_types(400))
    real = workloads.getting_started(workloads.real_types())
    solve(asking(fake)(workloads.views(workloads.mix(100))))  # loads what is loaded once
    print("| case | pods | nodes | first s | pods/s | again s | pods/s | peak MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in (100, 1_000, 5_000, 10_000, 20_000, 50_000):
        report("mix, 400 fake types", workloads.mix(size), asking(fake))
    for size in (1_000, 10_000, 50_000):
        report(f"mix, {len(real.instance_types)} real types", workloads.mix(size), asking(real))
    for size in (10_000, 50_000):
        report("every pod different", workloads.mix(size, own_size=True), asking(fake))
    own = workloads.own_requirements(5_000, fake.instance_types)
    report("every pod its own requirements", own, asking(fake))
    for count in (0, 20, 500):
        reservations = [
            reservation(f"cr-{i:03d}", f"fake-it-{i % 400}", f"z{i % 3 + 1}") for i in range(count)
        ]
        with_slots = pool("default", fake_types(400, reservations))
        report(
            f"mix, {count} reservations", workloads.mix(10_000), asking(with_slots, reservations=reservations)
        )
    slots()
    existing(fake, real)
    print("\n| default packing, real types, fresh process: pods | s |\n| --- | --- |")
    for size in (200, 1_000, 5_000, 10_000):
        print(
            f"| {size:,} | {statistics.median(in_fresh_process(size) for _ in range(RUNS)):.3f} |", flush=True
        )


def in_fresh_process(size: int) -> float:
    """Seconds of the first plan of a process, from pod objects to claims, with everything imported."""
    command = [sys.executable, "-c", f"from bench import bench_planner; bench_planner.plan_once({size})"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def plan_once(size: int) -> None:
    pods, real = workloads.mix(size), workloads.getting_started(workloads.real_types())
    gc.collect()
    gc.disable()
    began = time.perf_counter()
    solve(asking(real, packing=Packing.COST)(workloads.views(pods)))
    print(time.perf_counter() - began)


def slots() -> None:
    """Ten thousand pods with anti-affinity, one per node, and one slot."""
    reservations = [reservation("cr-1", "fake-it-5")]
    extreme = [workloads.pod(n, 1000, 1024, *workloads.one_per_node(random.Random())) for n in range(10_000)]
    asked = asking(pool("default", fake_types(400, reservations)), reservations=reservations)
    report("one per node, one slot", extreme, asked)


def existing(fake: NodePoolView, real: NodePoolView) -> None:
    """Existing nodes, and unschedulable pods."""
    twenty = [workloads.getting_started(real.instance_types) for _ in range(20)]
    pools = [pool(f"pool-{i}", p.instance_types, *p.requirements) for i, p in enumerate(twenty)]
    unschedulable = [*workloads.unschedulable(2_000), *workloads.mix(170)]
    full = workloads.nodes(1_060)
    report("2,000 unschedulable, 1,060 nodes, 20 NodePools", unschedulable, asking(*pools, nodes=full))
    for count in (100, 1_000, 10_000):
        existing_nodes = workloads.nodes(count)
        report(f"one pod, {count:,} full nodes", workloads.mix(1), asking(fake, nodes=existing_nodes))
    for count in (100, 1_000, 10_000):
        existing_nodes = workloads.nodes(count, full=False)
        report(
            f"mix, {count:,} nodes with free capacity",
            workloads.mix(10_000),
            asking(fake, nodes=existing_nodes),
        )


def asking(*pools: NodePoolView, **more: Any) -> Asked:
    return lambda pending: request(list(pools), pending, well_known=workloads.KNOWN, **more)


def report(case: str, pods: Sequence[Pod], asked: Asked) -> None:
    first, plan = timed(lambda: solve(asked(workloads.views(pods))))
    converter, catalog_cache = workloads.converter(), CatalogCache()

    def with_caches() -> Plan:
        return solve(asked(workloads.views(pods, converter)), catalog_cache)

    with_caches()
    again, _ = timed(with_caches)
    reserved = sum(claim.capacity_type == names.RESERVED for claim in plan.claims)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {case} | {len(pods):,} | {len(plan.claims):,} ({reserved} reserved) | {first:.3f} | {len(pods) / first:,.0f} "
        f"| {again:.3f} | {len(pods) / again:,.0f} | {peak:,.0f} |",
        flush=True,
    )


def timed(plan: Callable[[], Plan]) -> tuple[float, Plan]:
    """The median of a few runs, with the garbage collector off, as in a running controller while it plans."""
    times, found = [], plan()
    for _ in range(RUNS):
        gc.collect()
        gc.disable()
        began = time.perf_counter()
        found = plan()
        times.append(time.perf_counter() - began)
        gc.enable()
    return statistics.median(times), found


if __name__ == "__main__":
    main()
