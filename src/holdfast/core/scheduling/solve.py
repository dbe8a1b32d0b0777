"""solve(request) -> plan.

Provisioning, disruption simulations and `holdfast plan` call it. The plan depends on no clock and not on the order of
the input.
"""

import dataclasses
from collections.abc import Callable, Mapping

from holdfast.core.reservations import ledger
from holdfast.core.reservations.ledger import Entry
from holdfast.core.scheduling.input import displaced, problem
from holdfast.core.scheduling.input.columns import CatalogCache
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.request import Settings, SolveRequest
from holdfast.core.scheduling.output import claims, reasons, waiting
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.output.suitability import Suitability
from holdfast.core.scheduling.search import packing_search, run, variants, zones
from holdfast.core.scheduling.search.finalize import Chooser, Nodes


def solve(
    request: SolveRequest,
    catalogs: CatalogCache | None = None,
    stop_early: Callable[[], bool] = lambda: False,
) -> Plan:
    """The plan for a request.

    Pass a `CatalogCache` to speed up repeated calls; it never changes the plan. If `stop_early()` returns true, the best
    packing found so far is returned; first fit is always tried.
    """
    entries = ledger.ledger(request.snapshot, request.settings.ledger_lag_s)
    if not displaced.to_place(request.snapshot):  # most plans, while nodes start for the pods of the last one
        return _nothing_to_place(entries, request.settings)
    p = problem.build(request, entries, catalogs or CatalogCache())
    of_pods = variants.build(p)
    waits = waiting.waiting_classes(p)
    inputs = run.prepare(p, of_pods, waiting.waiting_flags(p, waits))
    results = packing_search.try_packings(inputs, Chooser(p, inputs.shapes), stop_early)
    first_fit, best = results[0], packing_search.best(results)
    zones.spread(p, best.nodes)
    pods = claims.pods_by_node(p, best.outcome)
    plan = Plan(
        claims=claims.planned_claims(p, best.outcome, best.nodes, pods),
        placed=claims.placed_pods(p, best.outcome, pods),
        unplaced=reasons.unplaced(p, best.outcome, best.nodes.free, waits),
        price_nano_usd_per_hour=best.nodes.price_nano,
        baseline_nano_usd_per_hour=first_fit.nodes.price_nano,
        baseline_unplaced=int(first_fit.outcome.unplaced.sum()),
        packing=best.candidate.name,
        slots_left=_slots_left(p, best.nodes),
        baseline_nodes=first_fit.nodes.unreserved_count(p),
        node_cost_nano=p.settings.node_cost_nano,
    )
    if request.explain_slots or request.explain_claims:
        suitability = Suitability(p, plan, best.outcome, best.nodes.free)
        if request.explain_slots:
            plan = dataclasses.replace(plan, not_reserved=suitability.not_reserved())
        if request.explain_claims:
            plan = dataclasses.replace(plan, claims=suitability.explained_claims())
    return plan


def _nothing_to_place(entries: Mapping[str, Entry], settings: Settings) -> Plan:
    return Plan(
        claims=(),
        placed=(),
        unplaced=(),
        price_nano_usd_per_hour=0,
        baseline_nano_usd_per_hour=0,
        baseline_unplaced=0,
        packing=packing_search.FIRST_FIT,
        slots_left=tuple((id_, entries[id_].free) for id_ in problem.free_reservations(entries, settings)),
        node_cost_nano=settings.node_cost_nano,
    )


def _slots_left(p: Problem, nodes: Nodes) -> tuple[tuple[str, int], ...]:
    return tuple((id_, int(nodes.free[i])) for i, id_ in enumerate(p.reservation_ids))
