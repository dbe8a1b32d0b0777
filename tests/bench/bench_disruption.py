"""How long one pass of disruption takes over a large cluster.

Run by `make bench`. Prints a table; asserts nothing, since computers differ. "first" is with empty caches; "again" is the
next pass of a running controller: the same nodes as the same values, the same catalog, and the caches of the first pass.
CPU seconds are printed too, since on a shared computer only they show the cost of a pass.
"""

import random
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench import workloads
from disruption_builders import NOW_S, disruption_input
from holdfast import names
from holdfast.core.disruption.commands import Decision
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import Budget, DisruptionInput, PoolRules, Settings
from holdfast.core.scheduling.input.columns import CatalogCache
from holdfast.core.scheduling.input.request import Settings as Solving
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape, PodView
from holdfast.model.reasons import BlockedCode
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import NodePoolView, NodeView
from planner_builders import (
    RESERVATION_ID,
    benchmark_mix,
    fake_types,
    is_in,
    pool,
    request,
    reservation,
    shape,
)

NODES: Final = 5_000
TEN_PERCENT: Final = PoolRules(budgets=(Budget("10%"),))
SIZES: Final = ((250, 256), (500, 1024), (1000, 2048), (2000, 4096), (3000, 2048))
ON_DEMAND: Final = is_in(names.CAPACITY_TYPE, names.ON_DEMAND, names.RESERVED)


def main() -> None:
    print("| case | nodes | pods | first s | CPU s | again s | CPU s | decided | peak MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    fake = pool("default", fake_types(400), ON_DEMAND)
    four_cores = pool("default", fake_types(4)[3:], ON_DEMAND)
    solve(request([fake], benchmark_mix(100)))  # loads what is loaded once
    for count in (500, NODES):
        report("full nodes of one type: nothing to gain", packed(count, four_cores, tight=True, sizes=(4,)))
        report("full nodes", packed(count, fake, tight=True))
        report("nodes two thirds full", packed(count, fake, tight=False))
        report("pods with spread and anti-affinity", constrained(count, fake))
    slots = [
        reservation(f"cr-{i:03d}", f"fake-it-{3 + 4 * (i % 4)}", f"z{i % 3 + 1}", available=5)
        for i in range(40)
    ]
    with_slots = pool("default", fake_types(400, slots), ON_DEMAND)
    report("full nodes, 200 free slots", packed(NODES, with_slots, tight=True, reservations=slots))
    real = workloads.getting_started(workloads.real_types())
    report(f"{len(real.instance_types)} real types, full nodes", packed(NODES, real, tight=True))


def packed(
    count: int,
    of: NodePoolView,
    *,
    tight: bool,
    reservations: Sequence[Reservation] = (),
    sizes: Sequence[int] = (4, 8, 12, 16),
) -> DisruptionInput:
    """Nodes of a few types that hold pods of five sizes; `tight` ones are the cheapest that hold them."""
    dice = random.Random(7)
    shapes = [shape(cpu, memory, app=f"app-{i}") for i, (cpu, memory) in enumerate(SIZES)]
    types = sorted(_on_demand(of), key=lambda t: t.capacity["cpu"])
    made, number = [], 0
    for n in range(count):
        wanted = dice.choice(sizes) * 1000
        type_ = next(t for t in types if t.capacity["cpu"] >= wanted)
        pods: list[PodView] = []
        left = type_.allocatable["cpu"] * (100 if tight else 66) // 100
        memory_left = type_.allocatable["memory"]
        while fitting := [
            s for s in shapes if s.requests["cpu"] <= left and s.requests["memory"] <= memory_left
        ]:
            picked = dice.choice(fitting)
            left, memory_left = left - picked.requests["cpu"], memory_left - picked.requests["memory"]
            number += 1
            pods.append(running(number, picked))
            if tight and left < 250:
                break
        made.append(node(n, type_, pods, of.name))
    return disruption_input(
        *made,
        pools=[of],
        rules=TEN_PERCENT,
        reservations=reservations,
        well_known=workloads.KNOWN,
        instances=(),
    )


def constrained(count: int, of: NodePoolView) -> DisruptionInput:
    """The planner's own plan for the mix of Karpenter's benchmark: little can be saved, and every simulation depends on the
    whole cluster, since pods have spread constraints and anti-affinity."""
    pending = benchmark_mix(5 * count)
    plan = solve(SolveRequest(request([of], pending).snapshot, Solving()))
    by_uid = {pod.uid: pod for pod in pending}
    types = {t.name: t for t in of.instance_types}
    made = [
        node(n, types[claim.instance_type], [by_uid[uid] for uid in claim.pods], of.name, zone=claim.zone)
        for n, claim in enumerate(plan.claims)
    ]
    return disruption_input(*made, pools=[of], rules=TEN_PERCENT, instances=())


def node(n: int, type_: InstanceType, pods: Sequence[PodView], pool_name: str, zone: str = "") -> NodeView:
    offering = next(
        o for o in type_.offerings if o.capacity_type == names.ON_DEMAND and (not zone or o.zone == zone)
    )
    name = f"node-{n:05d}"
    labels = {
        r.key: next(iter(r.values)) for r in type_.requirements if not r.complement and len(r.values) == 1
    }
    labels |= {
        names.HOSTNAME: name,
        names.NODEPOOL: pool_name,
        names.ZONE: offering.zone,
        names.CAPACITY_TYPE: names.ON_DEMAND,
    }
    labels.pop(RESERVATION_ID, None)
    return NodeView(
        name=name,
        labels=tuple(sorted(labels.items())),
        allocatable=type_.allocatable,
        capacity=type_.capacity,
        pods=tuple(pods),
        provider_id=f"id-{n}",
        node_pool=pool_name,
        claim=f"claim-{n}",
        last_pod_event_s=NOW_S - 3600,
    )


def running(number: int, of: PodShape) -> PodView:
    return PodView(f"uid-{number:06d}", f"pod-{number}", number, of, node_name="somewhere")


def _on_demand(of: NodePoolView) -> list[InstanceType]:
    """The cheapest type of each size, so that no node can be replaced by a cheaper one of its size."""
    best: dict[int, InstanceType] = {}
    for t in of.instance_types:
        on_demand = [
            o for o in t.offerings if o.capacity_type == names.ON_DEMAND and o.price_nano_usd_per_hour
        ]
        if on_demand and of.requirements.intersects(t.requirements):
            known = best.setdefault(t.capacity["cpu"], t)
            if _price(t) < _price(known):
                best[t.capacity["cpu"]] = t
    return list(best.values())


def _price(t: InstanceType) -> int:
    return min(o.price_nano_usd_per_hour or 0 for o in t.offerings if o.capacity_type == names.ON_DEMAND)


def report(case: str, disruption_input: DisruptionInput) -> None:
    planner = CatalogCache()
    first, decision = timed(lambda: decide(disruption_input, Settings(), planner=planner))
    again, _ = timed(lambda: decide(disruption_input, Settings(), decision.cache, planner=planner))
    pods = sum(len(one.pods) for one in disruption_input.snapshot.nodes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    size = f"{len(disruption_input.snapshot.nodes):,} | {pods:,}"
    print(f"| {case} | {size} | {first} | {again} | {decision_text(decision)} | {peak} |", flush=True)


def decision_text(decision: Decision) -> str:
    left = sum(
        any(why.reason.code is BlockedCode.NOT_REACHED for why in one.blockers)
        for one in decision.undisrupted
    )
    later = f"; {left:,} nodes left for the next pass" if left else ""
    if decision.command is None:
        return f"nothing{later}"
    found = decision.command
    return f"{found.method}: {len(found.candidates)} to {len(found.replacements)}{later}"


def timed(run: Callable[[], Any]) -> tuple[str, Any]:
    """Wall-clock and CPU seconds, as two cells of the table."""
    began, began_cpu = time.perf_counter(), time.process_time()
    found = run()
    return f"{time.perf_counter() - began:.2f} | {time.process_time() - began_cpu:.2f}", found


if __name__ == "__main__":
    main()
