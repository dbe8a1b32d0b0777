"""solve(request) -> plan.

Called by provisioning, by every disruption simulation and by `holdfast plan`. First fit is always computed; with
`packing: cost` a set number of other packings is tried, and the cheapest plan that places as many pods is kept.
Nothing depends on a clock or on the order of the input.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.core.reservations import ledger
from holdfast.core.scheduling import (
    claims,
    finalize,
    packings,
    problem,
    reasons,
    run,
    variants,
    weights,
)
from holdfast.core.scheduling import waiting as waits
from holdfast.core.scheduling.columns import Memory
from holdfast.core.scheduling.finalize import Chooser, Nodes
from holdfast.core.scheduling.packings import Candidate
from holdfast.core.scheduling.plan import Plan
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.request import Packing, SolveRequest
from holdfast.core.scheduling.run import Outcome, Start
from holdfast.core.scheduling.suitability import Suitability

FIRST_FIT = "first-fit"


@dataclass
class Packed:
    """A packing that was tried, with what it costs."""

    candidate: Candidate
    outcome: Outcome
    nodes: Nodes

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Most pods placed, then cheapest, then fewest nodes."""
        return int(self.outcome.left.sum()), self.nodes.unpriced, self.nodes.price_nano, len(self.nodes.row)


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
    chooser = Chooser(p, begin.shapes)
    tried = [_pack(begin, chooser, Candidate(FIRST_FIT))]
    if request.settings.packing is Packing.COST:
        others = _others(begin, tried, request.settings.packing_candidates)
        for candidate in itertools.takewhile(lambda _: not hurried(), others):
            tried.append(_pack(begin, chooser, candidate))  # noqa: PERF401 - the last asks what was tried
    best = _best(p, tried)
    pods = claims.pods_by_node(p, best.outcome)
    plan = Plan(
        claims=claims.planned(p, best.outcome, best.nodes, pods),
        placed=claims.placed(p, best.outcome, pods),
        unplaced=reasons.unplaced(p, best.outcome, waiting),
        price_nano_usd_per_hour=best.nodes.price_nano,
        baseline_nano_usd_per_hour=tried[0].nodes.price_nano,
        baseline_unplaced=int(tried[0].outcome.left.sum()),
        packing=best.candidate.name,
        slots_left=_slots_left(p, best.nodes),
    )
    if request.explain_slots:
        return dataclasses.replace(plan, not_reserved=Suitability(p).not_reserved(plan, best.outcome.limits))
    return plan


def _pack(begin: Start, chooser: Chooser, candidate: Candidate) -> Packed:
    outcome = run.place(begin, candidate)
    return Packed(candidate, outcome, finalize.choose(chooser, outcome))


def _others(begin: Start, tried: list[Packed], most: int) -> Iterator[Candidate]:
    """Packings to try beside first fit, then the best of all that were `tried` by then in one more way."""
    p = begin.problem
    yield from packings.candidates(p, begin.whole, tried[0].nodes.largest_millis(p), most)
    if len(tried) <= most:
        yield packings.again(_best(p, tried).candidate)


def _best(p: Problem, tried: list[Packed]) -> Packed:
    """The best of those that respect weights as first fit does, which was tried first."""
    fair = [packed for packed in tried if weights.respected(p, tried[0].outcome, packed.outcome)]
    return min(fair, key=lambda packed: packed.rank)


def _slots_left(p: Problem, nodes: Nodes) -> tuple[tuple[str, int], ...]:
    return tuple((id_, int(nodes.free[i])) for i, id_ in enumerate(p.reservation_ids))
