"""solve(request) -> plan.

Called by provisioning, by every disruption simulation and by `holdfast plan`. Nothing depends on a clock or on the
order of the input.
"""

import dataclasses
from collections.abc import Callable

from holdfast.core.reservations import ledger
from holdfast.core.scheduling import claims, problem, reasons, run, trials, variants, zones
from holdfast.core.scheduling import waiting as waits
from holdfast.core.scheduling.columns import Memory
from holdfast.core.scheduling.finalize import Chooser, Nodes
from holdfast.core.scheduling.plan import Plan
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.request import SolveRequest
from holdfast.core.scheduling.suitability import Suitability


def solve(
    request: SolveRequest, memory: Memory | None = None, hurried: Callable[[], bool] = lambda: False
) -> Plan:
    """The plan for a request.

    Whoever solves often keeps a memory, which makes the next solve faster, not other. Who is `hurried` gets the best
    of the packings that were tried by then; first fit always is.
    """
    entries = ledger.ledger(request.snapshot, request.settings.ledger_lag_s)
    p = problem.build(request, entries, memory or Memory())
    of_pods = variants.build(p)
    waiting = waits.waits(p)
    begin = run.start(p, of_pods, waits.flags(p, waiting))
    tried = trials.tried(begin, Chooser(p, begin.shapes), hurried)
    best = trials.best(tried)
    zones.spread(p, best.nodes)
    pods = claims.pods_by_node(p, best.outcome)
    plan = Plan(
        claims=claims.planned(p, best.outcome, best.nodes, pods),
        placed=claims.placed(p, best.outcome, pods),
        unplaced=reasons.unplaced(p, best.outcome, best.nodes.free, waiting),
        price_nano_usd_per_hour=best.nodes.price_nano,
        baseline_nano_usd_per_hour=tried[0].nodes.price_nano,
        baseline_unplaced=int(tried[0].outcome.left.sum()),
        packing=best.candidate.name,
        slots_left=_slots_left(p, best.nodes),
        baseline_nodes=tried[0].nodes.bought(p),
        node_cost_nano=p.settings.node_cost_nano,
    )
    if request.explain_slots:
        told = Suitability(p).not_reserved(plan, best.outcome, best.nodes.free)
        return dataclasses.replace(plan, not_reserved=told)
    return plan


def _slots_left(p: Problem, nodes: Nodes) -> tuple[tuple[str, int], ...]:
    return tuple((id_, int(nodes.free[i])) for i, id_ in enumerate(p.reservation_ids))
