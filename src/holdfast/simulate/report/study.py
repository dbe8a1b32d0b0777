"""Results sorted into variants, with the base first, and which results are missing.

Called by `document`, `tables` and `page`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.simulation_reports import MissingResult
from holdfast.api.simulation_results import SimulationResult

BASE: Final = "base"
_DIGEST_SHOWN: Final = 8  # characters


@dataclass(frozen=True, slots=True)
class Variant:
    name: str  # with the input, if results of several inputs are in one report
    results: tuple[SimulationResult, ...]  # by seed, at least one

    @property
    def first(self) -> SimulationResult:
        return self.results[0]

    @property
    def partial(self) -> tuple[SimulationResult, ...]:
        return tuple(one for one in self.results if one.until < one.ends)

    @property
    def charted(self) -> SimulationResult:
        """The result with the median of the total dollars; of an even number, the lower of the two in the middle."""
        whole = [one for one in self.results if one.until == one.ends] or self.results
        by_total = sorted(whole, key=lambda one: (one.dollars.total, one.seed))
        return by_total[(len(by_total) - 1) // 2]

    def is_comparable(self, base: "Variant") -> bool:
        """Whether all results of both have the same simulated time."""
        return len({one.until - one.begins for one in (*self.results, *base.results)}) == 1


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    variants: tuple[Variant, ...]  # the base first, at least one
    missing: tuple[MissingResult, ...]
    inputs: tuple[str, ...]

    @property
    def base(self) -> Variant:
        return self.variants[0]

    @property
    def results(self) -> Iterable[SimulationResult]:
        return (result for variant in self.variants for result in variant.results)


def build(results: Iterable[SimulationResult]) -> Study:
    """The study of at least one result. No two results have the same input, variant and seed."""
    groups: dict[tuple[str, str, str], list[SimulationResult]] = defaultdict(list)
    for one in results:
        groups[one.study, one.input, one.variant].append(one)
    planned = _planned_order(one for group in groups.values() for one in group)
    keys = sorted(groups, key=lambda key: (key[0], key[1], *_rank(key[2], planned), key[2]))
    inputs = tuple(dict.fromkeys(key[1] for key in keys))
    variants = tuple(
        Variant(
            key[2] if len(inputs) == 1 else f"{key[2]} of {key[0]}, input {key[1][:_DIGEST_SHOWN]}",
            tuple(sorted(groups[key], key=lambda one: one.seed)),
        )
        for key in keys
    )
    names = dict.fromkeys(key[0] for key in keys)
    return Study(", ".join(names), variants, tuple(_missing(variants)), inputs)


def _planned_order(results: Iterable[SimulationResult]) -> Sequence[str]:
    return tuple(dict.fromkeys(name for one in results for name in one.study_variants))


def _rank(variant: str, planned: Sequence[str]) -> tuple[bool, int]:
    return variant != BASE, planned.index(variant) if variant in planned else len(planned)


def _missing(variants: Sequence[Variant]) -> Iterable[MissingResult]:
    """Of each input, all variants with all seeds that the study plans, or that any variant has."""
    for digest in dict.fromkeys(variant.first.input for variant in variants):
        found = [one for variant in variants for one in variant.results if one.input == digest]
        names = dict.fromkeys((*_planned_order(found), *(one.variant for one in found)))
        seeds = sorted({*(one.seed for one in found), *(seed for one in found for seed in one.study_seeds)})
        known = {(one.variant, one.seed) for one in found}
        yield from (
            MissingResult(variant=name, seed=seed)
            for name in names
            for seed in seeds
            if (name, seed) not in known
        )
