"""Which packings are tried, and which one is kept.

Called by `solve`. First fit always comes first. With `packing: cost` others follow, a count of them and never a time:
all of them on a small plan. On a large one they are compared on a sample of what first fit has to buy, and then tried in
full in that order until one of them costs what the sample promised: most often the first. What must hold: the plan that
is kept is never worse than first fit.
"""

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from holdfast.core.scheduling import finalize, packings, preferences, repairs, run
from holdfast.core.scheduling.finalize import Chooser, Nodes
from holdfast.core.scheduling.packing_state import UNRESERVED
from holdfast.core.scheduling.packings import Candidate
from holdfast.core.scheduling.repairs import Repair
from holdfast.core.scheduling.request import Packing
from holdfast.core.scheduling.run import Outcome, RunInputs
from holdfast.core.scheduling.variants import Variants

FIRST_FIT: Final = "first-fit"
REPAIRED: Final = "first-fit, scarce capacity first"

SAMPLE_PODS: Final = 1000
SAMPLE_STEP: Final = 4  # where a sample would be more than one pod in so many, all are tried in full
SAMPLE_TOLERANCE: Final = (
    1.02  # who is no more than this above the best on the sample may be the better one in full
)
COST_TOLERANCE: Final = (
    1.02  # what costs no more than this times what the sample promised is as good as promised
)


@dataclass
class PackingResult:
    """A packing that was tried, with what it costs."""

    candidate: Candidate
    variants: Variants
    outcome: Outcome
    nodes: Nodes

    @functools.cached_property
    def rank(self) -> tuple[tuple[int, ...], int, int, int]:
        """Most pods placed, those of the highest priority first, then cheapest, then fewest nodes."""
        return self.unplaced, self.nodes.unpriced, self.nodes.cost_nano, len(self.nodes.row)

    @functools.cached_property
    def unplaced(self) -> tuple[int, ...]:
        """How many pods are left out, from the highest priority to the lowest."""
        classes = self.outcome.problem.classes
        by_priority = dict.fromkeys(sorted({one.priority for one in classes}, reverse=True), 0)
        for c in np.flatnonzero(self.outcome.unplaced).tolist():
            by_priority[classes[c].priority] += int(self.outcome.unplaced[c])
        return tuple(by_priority.values())


def try_packings(inputs: RunInputs, chooser: Chooser, stop_early: Callable[[], bool]) -> list[PackingResult]:
    """First fit, and whatever else was tried before somebody was hurried."""
    found = [_pack(inputs, chooser, Candidate(FIRST_FIT))]
    repair = _repair(inputs, chooser, found)
    settings = inputs.problem.settings
    if settings.packing is Packing.COST and _is_worth_trying(found[0]):
        sample = _sample(inputs, found[0].outcome)
        others = (
            _all(inputs, found, settings.packing_candidates)
            if sample is None
            else _by_sample(inputs, found, try_packings(sample.inputs, chooser, stop_early), sample.share)
        )
        for candidate in itertools.takewhile(lambda _: not stop_early(), others):
            found.append(_pack(inputs, chooser, repair.of(candidate)))  # noqa: PERF401 - who comes next asks what was found
    return found


def _repair(inputs: RunInputs, chooser: Chooser, found: list[PackingResult]) -> Repair:
    """The best repair of first fit. Plans that are better than those before are added to what was found. A plan that is
    as good as the one before is repaired as well: two groups may have to change before one pod gains."""
    at, chosen = found[0], Repair()
    open_, seen = [(at, chosen)], {chosen}
    runs = repairs.runs(inputs)
    while open_ and runs > 0:
        packed, before = open_.pop(min(range(len(open_)), key=lambda i: open_[i][0].rank))
        next_ = deque(repairs.repairs(inputs, before, packed.outcome, packed.nodes))
        while next_ and runs > 0:
            repair = next_.popleft()
            if repair in seen:
                continue
            seen.add(repair)
            runs -= 1
            other = _pack(inputs, chooser, repair.of(Candidate(REPAIRED)))
            if other.rank > packed.rank:
                next_.extendleft(
                    repairs.with_displaced_classes(inputs, repair, packed.outcome, other.outcome)
                )
            elif _is_fair(found[0], other):
                open_.append((other, repair))
                at, chosen = min((at, chosen), (other, repair), key=lambda one: one[0].rank)
    if at is not found[0]:
        found.append(at)
    return chosen


def best(found: list[PackingResult]) -> PackingResult:
    """The best of those that keep to weights and preferences as first fit does, which was tried first."""
    return _ranked(found)[0]


def _ranked(found: list[PackingResult]) -> list[PackingResult]:
    """Where first fit was repaired, others are compared with the repaired plan too: they may place more pods than first fit
    only because they share the repair."""
    bases = [found[0], *(one for one in found[1:] if one.candidate.name == REPAIRED)]
    fair = (one for one in found if all(_is_fair(base, one) for base in bases if base is not one))
    return sorted(fair, key=lambda packed: packed.rank)


def _is_fair(first_fit: PackingResult, other: PackingResult) -> bool:
    """Whether a packing places more pods than first fit, those of the highest priority first, or keeps to weights and to
    preferences as first fit does."""
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
    """Whether another packing could be better: not where every pod has a place and no node is new."""
    return bool(first_fit.nodes.row) or bool(first_fit.outcome.unplaced.any())


def _all(inputs: RunInputs, found: list[PackingResult], most: int) -> Iterator[Candidate]:
    """Packings to try beside first fit, then the best of all that were `found` by then in one more way."""
    largest = found[0].nodes.largest_millis(inputs.problem)
    yield from packings.candidates(inputs.problem, inputs.variants, inputs.pool_masks, largest, most)
    if len(found) <= most:
        yield from _derived(inputs, found)


@dataclass(frozen=True)
class _Sample:
    inputs: RunInputs
    share: float  # of what all pods are worth that have to be bought for


def _sample(inputs: RunInputs, first_fit: Outcome) -> _Sample | None:
    """Every so-manieth pod of those that first fit buys nodes for; None where they are few."""
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
    inputs: RunInputs, found: list[PackingResult], sample_results: list[PackingResult], share: float
) -> Iterator[Candidate]:
    """The best on a sample and who is near; then, until one is as good as promised there, the others, and the best of
    all in one more way."""
    lowest = best(sample_results).nodes.cost_nano
    ranks = set()
    for packed in sorted(sample_results[1:], key=lambda packed: packed.rank):
        is_near = packed.nodes.cost_nano <= SAMPLE_TOLERANCE * lowest
        if best(found).nodes.cost_nano <= COST_TOLERANCE * lowest / share:
            if not is_near:
                return
            if packed.rank in ranks:  # the same plan, most likely
                continue
        ranks.add(packed.rank)
        if is_near or not packed.candidate.is_derived:
            yield packed.candidate
    yield from _derived(inputs, found)


def _derived(inputs: RunInputs, found: list[PackingResult]) -> Iterator[Candidate]:
    """The best of all that were found by then in one more way, and then in another, unless those were tried."""
    plain = [packed for packed in found if not packed.candidate.is_derived]
    if _is_new(once := packings.fill_oldest_first(best(plain).candidate), found):
        yield once
    pools = packings.cheapest_pools_first(inputs.problem, inputs.variants, inputs.pool_masks)
    if pools is not None and _is_new(once := packings.with_pools(best(found).candidate, pools), found):
        yield once


def _is_new(candidate: Candidate, found: list[PackingResult]) -> bool:
    return all(packed.candidate.name != candidate.name for packed in found)
