"""The cost of plans on the getting-started NodePool with list prices, compared with first fit and a lower bound.

Run by `make bench`. The bound is a linear program: fractions of instance types whose capacity covers the requests of all
pods, and at least one node for each pod with anti-affinity. It ignores spread and zones, so plans cost more.
"""

import time
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from bench import workloads
from holdfast import names
from holdfast.api.pods import Pod
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import PodView
from holdfast.model.snapshot import NodePoolView
from planner_builders import is_in, request

MEASURED = ("cpu", "memory", "pods")


def main() -> None:
    types = workloads.real_types()
    offered = workloads.getting_started(
        types, is_in(names.ARCH, "amd64"), is_in(names.CAPACITY_TYPE, names.ON_DEMAND)
    )
    solve(
        request([offered], workloads.views(workloads.mix(100)), well_known=workloads.KNOWN)
    )  # loads what is loaded once
    print("| workload | pods | first fit $/h | plan $/h | saved | bound $/h | above it | packing | s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in (100, 1_000, 10_000):
        cost("benchmark sizes", workloads.mix(size, topology=False), offered)
    for size in (100, 1_000, 10_000):
        cost("benchmark mix, all constraints", workloads.mix(size), offered)


def cost(workload: str, pods: Sequence[Pod], of: NodePoolView) -> None:
    pending = workloads.views(pods)
    began = time.perf_counter()
    plan = solve(request([of], pending, packing=Packing.COST, well_known=workloads.KNOWN))
    seconds = time.perf_counter() - began
    lowest = bound(pending, of)
    paid, first_fit = plan.price_nano_usd_per_hour / 1e9, plan.baseline_nano_usd_per_hour / 1e9
    print(
        f"| {workload} | {len(pods):,} | {first_fit:.2f} | {paid:.2f} | {1 - paid / first_fit:.1%} | {lowest:.2f} "
        f"| {paid / lowest - 1:.1%} | {plan.packing} | {seconds:.2f} |",
        flush=True,
    )


def bound(pending: Sequence[PodView], of: NodePoolView) -> float:
    """A lower bound for the cost of every plan, in USD per hour."""
    apart = sum(bool(pod.shape.anti_affinity) for pod in pending)
    demand = [*(sum(pod.shape.requests[name] for pod in pending) for name in MEASURED), apart]
    offered = [
        ([*(t.allocatable[name] for name in MEASURED), 1], o.price_nano_usd_per_hour)
        for t in of.instance_types
        if t.requirements.intersects(of.requirements)
        for o in t.offerings
        if o.launchable
        and o.price_nano_usd_per_hour
        and of.requirements.compatible(o.requirements, workloads.KNOWN)
    ]
    capacities = np.array([capacity for capacity, _ in offered], dtype=float)
    scale = capacities.max(axis=0)
    found = linprog(
        [price for _, price in offered],
        A_ub=-(capacities / scale).T,
        b_ub=-np.array(demand) / scale,
        bounds=(0, None),
    )
    return float(found.fun) / 1e9


if __name__ == "__main__":
    main()
