"""Tries packings and chooses the best one, which is never worse than first fit.

Called by `solve`. First fit always comes first. With `packing: cost` a fixed number of others follow; a time limit would
make plans depend on the speed of the computer. A small plan tries all of them. A large plan compares them on a sample of
the pods that first fit launches unreserved nodes for, and then tries them in full in that order until one costs no more
than the sample predicts: most often the first.
"""

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.kernel.packing_state import UNRESERVED
from holdfast.core.scheduling.search import finalize, packings, preferences, repairs, run
from holdfast.core.scheduling.search.finalize import Chooser, Nodes
from holdfast.core.scheduling.search.packings import Candidate
from holdfast.core.scheduling.search.repairs import Repair
from holdfast.core.scheduling.search.run import Outcome, RunInputs
from holdfast.core.scheduling.search.variants import Variants

FIRST_FIT: Final = "first-fit"
REPAIRED: Final = "first-fit, scarce capacity first"

SAMPLE_PODS: Final = 1000
SAMPLE_STEP: Final = (
    4  # if the sample would be more than one pod in this many, all packings are tried in full
)
SAMPLE_TOLERANCE: Final = (
    1.02  # up to this factor above the best on the sample, a packing may be better in full
)
COST_TOLERANCE: Final = 1.02  # a packing that costs at most this factor of the predicted cost is good enough


@dataclass
class PackingResult:
    """The outcome of one packing, with its nodes and their cost."""

    candidate: Candidate
    variants: Variants
    outcome: Outcome
    nodes: Nodes

    @functools.cached_property
    def rank(self) -> tuple[tuple[int, ...], int, int, int]:
        """The lowest is best: most pods placed, highest priority first, then cheapest, then fewest nodes."""
        return self.unplaced, self.nodes.unpriced, self.nodes.cost_nano, len(self.nodes.row)

    @functools.cached_property
    def unplaced(self) -> tuple[int, ...]:
        """How many pods are unplaced, by priority from the highest to the lowest."""
        classes = self.outcome.problem.classes
        by_priority = dict.fromkeys(self.outcome.problem.priorities, 0)
        for c in np.flatnonzero(self.outcome.unplaced).tolist():
            by_priority[classes[c].priority] += int(self.outcome.unplaced[c])
        return tuple(by_priority.values())


def try_packings(inputs: RunInputs, chooser: Chooser, stop_early: Callable[[], bool]) -> list[PackingResult]:
    """The results of first fit, and of other packings until `stop_early()` returns true."""
    results = [_pack(inputs, chooser, Candidate(FIRST_FIT))]
    repair = _repair(inputs, chooser, results)
    settings = inputs.problem.settings
    if settings.packing is Packing.COST and _is_worth_trying(results[0]):
        sample = _sample(inputs, results[0].outcome)
        others = (
            _all(inputs, results, settings.packing_candidates)
            if sample is None
            else _by_sample(inputs, results, try_packings(sample.inputs, chooser, stop_early), sample.share)
        )
        for candidate in itertools.takewhile(lambda _: not stop_early(), others):
            results.append(_pack(inputs, chooser, repair.of(candidate)))  # noqa: PERF401 - the iterator reads `results` to choose the next candidate
    return results


def _repair(inputs: RunInputs, chooser: Chooser, results: list[PackingResult]) -> Repair:
    """The best repair of first fit; its plan is added to `results` if it is better. A plan that is only as good as the one
    before is repaired as well: two groups may have to change before another pod can be placed."""
    at, chosen = results[0], Repair()
    open_, attempted = [(at, chosen)], {chosen}
    runs = repairs.runs(inputs)
    while open_ and runs > 0:
        packed, before = open_.pop(min(range(len(open_)), key=lambda i: open_[i][0].rank))
        next_ = deque(repairs.repairs(inputs, before, packed.outcome, packed.nodes))
        while next_ and runs > 0:
            repair = next_.popleft()
            if repair in attempted:
                continue
            attempted.add(repair)
            runs -= 1
            other = _pack(inputs, chooser, repair.of(Candidate(REPAIRED)))
            if other.rank > packed.rank:
                next_.extendleft(
                    repairs.with_displaced_classes(inputs, repair, packed.outcome, other.outcome)
                )
            elif _is_fair(results[0], other):
                open_.append((other, repair))
                at, chosen = min((at, chosen), (other, repair), key=lambda one: one[0].rank)
    if at is not results[0]:
        results.append(at)
    return chosen


def best(results: list[PackingResult]) -> PackingResult:
    """The best of the results that keep weights and preferences as well as first fit, which is the first of them."""
    return _ranked(results)[0]


def _ranked(results: list[PackingResult]) -> list[PackingResult]:
    """The fair results, best first. If first fit was repaired, they are compared with the repaired plan too: they may place
    more pods than first fit only because they share the repair."""
    bases = [results[0], *(one for one in results[1:] if one.candidate.name == REPAIRED)]
    fair = (one for one in results if all(_is_fair(base, one) for base in bases if base is not one))
    return sorted(fair, key=lambda packed: packed.rank)


def _is_fair(first_fit: PackingResult, other: PackingResult) -> bool:
    """Whether a packing places more pods than first fit, highest priority first, or keeps weights and preferences as well
    as first fit does."""
    if other.unplaced < first_fit.unplaced:
        return True
    plan, beside = other.outcome, first_fit.outcome
    return preferences.keeps_weights(plan.problem, beside, plan) and preferences.keeps_preferences(
        other.variants, (beside, first_fit.nodes), (plan, other.nodes)
    )


def _pack(inputs: RunInputs, chooser: Chooser, candidate: Candidate) -> PackingResult:
    outcome = run.place(inputs, candidate)
    return PackingResult(candidate, inputs.variants, outcome, finalize.choose(chooser, outcome))


def _is_worth_trying(first_fit: PackingResult) -> bool:
    """Whether another packing could be better: not if first fit places every pod on an existing node."""
    return bool(first_fit.nodes.row) or bool(first_fit.outcome.unplaced.any())


def _all(inputs: RunInputs, results: list[PackingResult], most: int) -> Iterator[Candidate]:
    """All packings to try besides first fit, then variations of the best result `results` so far."""
    largest = results[0].nodes.largest_millis(inputs.problem)
    yield from packings.candidates(inputs.problem, inputs.variants, inputs.pool_masks, largest, most)
    if len(results) <= most:
        yield from _derived(inputs, results)


@dataclass(frozen=True)
class _Sample:
    inputs: RunInputs
    share: float  # what the sampled pods are worth, of all pods that need unreserved nodes


def _sample(inputs: RunInputs, first_fit: Outcome) -> _Sample | None:
    """A sample of the pods for which first fit launches unreserved nodes; None if there are few."""
    is_unreserved = np.array([t.kind == UNRESERVED for t in inputs.problem.templates], dtype=bool)
    new = first_fit.log_node >= first_fit.existing
    unreserved = new & is_unreserved[first_fit.n_template[first_fit.log_node]] if len(is_unreserved) else new
    step = int(unreserved.sum()) // SAMPLE_PODS
    if step < SAMPLE_STEP:
        return None
    pods = np.bincount(first_fit.log_class[unreserved], minlength=len(first_fit.unplaced))
    alike = np.argsort(
        inputs.problem.ladder_of, kind="stable"
    )  # every constraint has its share in the sample
    of_sample = np.empty_like(pods)
    of_sample[alike] = np.diff(np.cumsum(pods[alike]) // step, prepend=0)
    worth = packings.pod_worth(inputs.problem, inputs.variants, inputs.pool_masks)
    return _Sample(run.sample(inputs, of_sample, step), float(of_sample @ worth) / float(pods @ worth))


def _by_sample(
    inputs: RunInputs, results: list[PackingResult], sample_results: list[PackingResult], share: float
) -> Iterator[Candidate]:
    """The best packings on a sample; then the others until one is as cheap as the sample predicts; then variations of the
    best result."""
    lowest = best(sample_results).nodes.cost_nano
    ranks = set()
    for packed in sorted(sample_results[1:], key=lambda packed: packed.rank):
        is_near = packed.nodes.cost_nano <= SAMPLE_TOLERANCE * lowest
        if best(results).nodes.cost_nano <= COST_TOLERANCE * lowest / share:
            if not is_near:
                return
            if packed.rank in ranks:  # most likely the same plan
                continue
        ranks.add(packed.rank)
        if is_near or not packed.candidate.is_derived:
            yield packed.candidate
    yield from _derived(inputs, results)


def _derived(inputs: RunInputs, results: list[PackingResult]) -> Iterator[Candidate]:
    """Variations of the best result so far that were not tried yet: oldest node first, and cheapest NodePools first."""
    plain = [packed for packed in results if not packed.candidate.is_derived]
    if _is_new(once := packings.fill_oldest_first(best(plain).candidate), results):
        yield once
    pools = packings.cheapest_pools_first(inputs.problem, inputs.variants, inputs.pool_masks)
    if pools is not None and _is_new(once := packings.with_pools(best(results).candidate, pools), results):
        yield once


def _is_new(candidate: Candidate, results: list[PackingResult]) -> bool:
    return all(packed.candidate.name != candidate.name for packed in results)
