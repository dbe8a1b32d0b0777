"""Karpenter's scheduler and Holdfast's planner on the same files, in one run: time, nodes, cost, slots and rounds.

Run by `make bench-peer`, which needs Karpenter (see peers/). Prints a table; asserts nothing. Karpenter's time is that of
its scheduler alone, as in its own benchmark, without reading and setup. Holdfast's time is from the decoded scenario to the
plan, with empty caches: once with first fit, as Karpenter packs, and once with the default. "faster", "less CPU" and "saved" compare with the better Karpenter. On a busy computer, compare CPU time.
"""

import argparse
import dataclasses
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from bench import bench_planner, workloads
from holdfast import names
from holdfast.api import aws
from holdfast.cli import scenarios
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from holdfast.scenarios import plan_document
from holdfast.scenarios.scenario import Scenario
from peers import documents, karpenter
from planner_builders import fake_types

SIZES: Final = (1_000, 5_000, 10_000)
GETTING_STARTED: Final = (
    {"key": aws.INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
    {"key": aws.INSTANCE_GENERATION, "operator": "Gt", "values": ["2"]},
    {"key": names.ARCH, "operator": "In", "values": ["amd64"]},
    {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
)


class Measured(NamedTuple):
    seconds: float
    cpu_s: float
    plan: dict[str, Any]
    rounds: int

    @property
    def cost(self) -> float:
        return float(self.plan["cost"]["perHour"])


def main() -> None:
    options = _options()
    ours(fake(1_000), Packing.KARPENTER)  # loads what is loaded once
    print(
        "| case | pods | planner | s | pods/s | faster | CPU s | less CPU | nodes | $/h | saved | slots used | rounds |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in options.sizes:
        report("benchmark mix, 400 fake types", size, fake(size), options.runs)
    for size in options.sizes:
        report("benchmark mix, getting-started NodePool", size, getting_started(size), options.runs)
    report("one per node, 20 reservations of 2", 100, reserved(100), options.runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="how many pods")
    parser.add_argument("--runs", type=int, default=1, help="how many runs of Karpenter the median is of")
    return parser.parse_args()


def fake(size: int) -> list[dict[str, Any]]:
    return documents.scenario(workloads.mix(size), fake_types(400))


def getting_started(size: int) -> list[dict[str, Any]]:
    return documents.scenario(workloads.mix(size), workloads.real_types(), GETTING_STARTED)


def reserved(size: int) -> list[dict[str, Any]]:
    """Pods with anti-affinity, one per node, and slots for some of them, in types that fit all pods."""
    listed = [
        {"id": f"cr-{n:03d}", "instanceType": f"fake-it-{n}", "zone": f"z{n % 3 + 1}", "total": 2}
        for n in range(4, 24)
    ]
    pods = [workloads.pod(n, 1000, 1024, *workloads.one_per_node(random.Random())) for n in range(size)]
    both = {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["reserved", "on-demand"]}
    return documents.scenario(pods, fake_types(400), [both], listed)


def report(case: str, size: int, scenario: Sequence[dict[str, Any]], runs: int) -> None:
    theirs = []
    for version in karpenter.VERSIONS:
        theirs.append(measured([karpenter.ask(scenario, version) for _ in range(runs)]))
        line(case, size, f"Karpenter {version}", theirs[-1], theirs)
    for packing, planner in ((Packing.KARPENTER, "Holdfast, first fit"), (Packing.COST, "Holdfast")):
        line(case, size, planner, ours(scenario, packing), theirs)


def measured(answers: Sequence[karpenter.Answer]) -> Measured:
    last = answers[-1]
    seconds = statistics.median(one.solve_s for one in answers)
    return Measured(
        seconds,
        statistics.median(one.cpu_s for one in answers),
        last.plan,
        last.rounds_until_slots_used or len(last.rounds),
    )


def ours(scenario: Sequence[dict[str, Any]], packing: Packing) -> Measured:
    read = scenarios.of_documents(scenario)
    assert isinstance(read, Scenario), read
    settings = dataclasses.replace(read.request.settings, packing=packing)
    request = dataclasses.replace(read.request, settings=settings)
    seconds, found = bench_planner.timed(lambda: solve(request))
    began = time.process_time()
    solve(request)
    return Measured(seconds, time.process_time() - began, plan_document.document(found), 1)


def line(case: str, size: int, planner: str, one: Measured, theirs: Sequence[Measured]) -> None:
    slots = sum(claim["reservationID"] is not None for claim in one.plan["claims"])
    fastest, cheapest = min(each.seconds for each in theirs), min(each.cost for each in theirs)
    thriftiest = min(each.cpu_s for each in theirs)
    saved = f"{1 - one.cost / cheapest:.1%}" if cheapest else "-"
    print(
        f"| {case} | {size:,} | {planner} | {one.seconds:.3f} | {size / one.seconds:,.0f} | {fastest / one.seconds:.1f} "
        f"| {one.cpu_s:.3f} | {thriftiest / one.cpu_s:.1f} "
        f"| {len(one.plan['claims']):,} | {one.cost:.2f} | {saved} | {slots} | {one.rounds} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
