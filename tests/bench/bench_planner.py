"""How long a plan takes: Karpenter's benchmark mix from pod values to claims, and the extreme of one slot.

Run by `make bench`. Prints tables; asserts nothing, since machines differ.
"""

import gc
import statistics
import time
from collections.abc import Sequence

import numpy as np

from holdfast import names
from holdfast.api import aws
from holdfast.cloud.aws import catalog, labels
from holdfast.core.scheduling import duals
from holdfast.core.scheduling.request import Packing, SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.data import ec2
from holdfast.model import requirement
from holdfast.model.pods import PodView
from holdfast.model.requirement import Operator
from holdfast.model.snapshot import NodePoolView
from planner_builders import (
    benchmark_mix,
    fake_types,
    is_in,
    one_per_node,
    pods,
    pool,
    request,
    reservation,
    shape,
)

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
    costs()


def costs() -> None:
    """What plans cost on the getting-started NodePool with list prices, beside first fit and the linear bound."""
    print()
    print("| workload | pods | first fit $/h | plan $/h | bound $/h | above it | packing | s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    types = catalog.build(catalog.shipped(ec2.region("us-east-1")), None, now_s=0)
    wanted = (
        is_in(names.ARCH, "amd64"),
        is_in(names.CAPACITY_TYPE, names.ON_DEMAND),
        is_in(aws.INSTANCE_CATEGORY, "c", "m", "r"),
        requirement.of(aws.INSTANCE_GENERATION, Operator.GT, ("2",)),
    )
    getting_started = pool("default", types, *wanted)
    for size in (100, 1_000, 10_000):
        cost("benchmark sizes", size, getting_started, benchmark_mix(size, topology=False))
    for size in (1_000, 10_000):
        cost("benchmark mix, all constraints", size, getting_started, benchmark_mix(size))


def cost(workload: str, size: int, of: NodePoolView, pending: Sequence[PodView]) -> None:
    asked = request([of], pending, packing=Packing.COST, well_known=labels.WELL_KNOWN_LABELS)
    began = time.perf_counter()
    plan = solve(asked)
    took = time.perf_counter() - began
    demand = np.array(
        [sum(pod.shape.requests[name] for pod in pending) for name in ("cpu", "memory", "pods")]
    )
    offered = [
        ([t.allocatable[name] for name in ("cpu", "memory", "pods")], o.price_nano_usd_per_hour)
        for t in of.instance_types
        if t.requirements.intersects(of.requirements)
        for o in t.offerings
        if o.launchable
        and o.price_nano_usd_per_hour
        and of.requirements.compatible(o.requirements, labels.WELL_KNOWN_LABELS)
    ]
    rooms, prices = (
        np.array([r for r, _ in offered], dtype=float),
        np.array([p for _, p in offered], dtype=float),
    )
    bound = float(duals.worth(rooms, prices, demand.astype(float)) @ demand) / 1e9
    paid, first_fit = plan.price_nano_usd_per_hour / 1e9, plan.baseline_nano_usd_per_hour / 1e9
    print(
        f"| {workload} | {size:,} | {first_fit:.2f} | {paid:.2f} | {bound:.2f} | {paid / bound - 1:.1%} "
        f"| {plan.packing} | {took:.2f} |"
    )


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
