"""The packings to try besides first fit.

Called by `packing_search` with `packing: cost`. First fit fills a node while any type still fits, so nodes grow until only
the largest and most expensive types are left. The packings here use spare capacity before a node gets more expensive, so
that no resource is paid for only to get another, and a cap on the size of instance types keeps nodes small. Afterwards
every node is right-sized against all types. The cap does not apply to slots, which are paid for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from holdfast.core.scheduling.input.columns import UNKNOWN_COST, Mask
from holdfast.core.scheduling.input.offers import Rows
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.kernel.packing_state import UNRESERVED, Ints
from holdfast.core.scheduling.search import dual_prices
from holdfast.core.scheduling.search.dual_prices import Floats
from holdfast.core.scheduling.search.variants import Variants
from holdfast.model import resources

MILLIS = 1000
_TINY = 1e-12


@dataclass(frozen=True)
class Candidate:
    """A packing to try. The default is first fit: biggest pods first, all rows."""

    name: str
    masks: list[Mask] | None = None  # by template, the rows that may be used; None: all
    by_price: bool = False  # unconstrained pods are packed by the price of nodes
    order: Ints | None = None  # of classes; None: biggest first
    fill: bool = False  # spare capacity is used before a node gets more expensive
    oldest_first: bool = (
        False  # nodes are tried in the order they were opened, else those with the fewest pods first
    )
    pools: Ints | None = None  # templates in the order they are tried; None: the order of the problem
    first: tuple[int, ...] = ()  # classes that are placed before all others
    pins: tuple[tuple[int, int], ...] = ()  # affinity groups, each with the only domain that it may begin in

    @property
    def is_derived(self) -> bool:
        """Whether it is a variation of another candidate."""
        return self.oldest_first or self.pools is not None


def fill_oldest_first(candidate: Candidate) -> Candidate:
    """The same packing, but the oldest node is filled first: cheaper in about half of all cases."""
    return replace(candidate, name=f"{candidate.name}, oldest first", oldest_first=True)


def with_pools(candidate: Candidate, pools: Ints) -> Candidate:
    """The same packing, with NodePools in another order."""
    return replace(candidate, name=f"{candidate.name}, cheapest pools first", pools=pools)


def cheapest_pools_first(p: Problem, variants: Variants, pool_masks: list[Mask]) -> Ints | None:
    """Templates in an order in which NodePools of equal weight are sorted by their lowest price for what pods request, not
    by name. None if that is the order of the problem."""
    alike = [
        [t for t in range(len(p.templates)) if _weight_if_unreserved(p, t) == weight]
        for weight in sorted({pool.weight for pool in p.pools})
    ]
    if all(len(some) <= 1 for some in alike):
        return None
    found = np.arange(len(p.templates))
    resource_prices = _worth_of_resources(p, variants, pool_masks)
    for some in alike:
        found[some] = sorted(
            some, key=lambda t: _lowest_price(p.templates[t].rows, pool_masks[t], resource_prices)
        )
    return None if (found[1:] > found[:-1]).all() else found


def _weight_if_unreserved(p: Problem, t: int) -> int | None:
    return p.pools[p.templates[t].pool].weight if p.templates[t].kind == UNRESERVED else None


def _lowest_price(rows: Rows, mask: Mask, resource_prices: Floats) -> float:
    """The lowest price for resources with a worth of 1."""
    cheapest = _cheapest(rows, mask)
    worths = rows.allocatable[rows.allocatable_index[cheapest]] @ resource_prices
    return float(np.min(rows.cost[cheapest] / np.maximum(worths, _TINY), initial=np.inf))


def candidates(
    p: Problem, variants: Variants, pool_masks: list[Mask], largest_millis: int, most: int
) -> Iterator[Candidate]:
    """Up to `most` packings besides first fit. `largest_millis` is the cpu of first fit's largest node: larger caps would
    change nothing."""
    if most <= 0:
        return
    order = _by_worth(p, variants, pool_masks)
    # Without unconstrained pods, existing nodes and slots, by-price would give the same plan as fill.
    by_price = bool(variants.unconstrained.any() or p.nodes or p.full_nodes or p.reservation_ids)
    if by_price:
        yield Candidate("by-price", by_price=True, order=order, fill=True)
    if most > by_price:
        yield Candidate("fill", order=order, fill=True)
    sizes = [_sizes(p, t) for t in range(len(p.templates))]
    for cap in _caps(p, sizes, _average_millis(p, variants), largest_millis, most - by_price - 1):
        masks = [
            mask & (of_rows <= cap) if template.kind == UNRESERVED else mask
            for template, mask, of_rows in zip(p.templates, pool_masks, sizes, strict=True)
        ]
        yield Candidate(f"fill-{cap // MILLIS}", masks, order=_by_worth(p, variants, masks), fill=True)


def _by_worth(p: Problem, variants: Variants, masks: list[Mask]) -> Ints:
    """Classes in the order of what one pod is worth, the highest first."""
    return np.argsort(-pod_worth(p, variants, masks), kind="stable")


def pod_worth(p: Problem, variants: Variants, masks: list[Mask]) -> Floats:
    """[class] what one pod is worth at the prices of unreserved offerings; 1 for all if no price is known."""
    found: Floats = variants.v_load[variants.c_first[:-1]] @ _worth_of_resources(p, variants, masks)
    return found


def _worth_of_resources(p: Problem, variants: Variants, masks: list[Mask]) -> Floats:
    unreserved = [
        (template.rows, _cheapest(template.rows, mask))
        for template, mask in zip(p.templates, masks, strict=True)
        if template.kind == UNRESERVED
    ]
    if not any(len(cheapest) for _, cheapest in unreserved):
        return np.array(
            [float(name == resources.PODS) for name in p.resources.names] + [0.0] * len(p.resources.drivers)
        )
    allocatable = np.vstack(
        [rows.allocatable[rows.allocatable_index[cheapest]] for rows, cheapest in unreserved]
    ).astype(float)
    prices = np.concatenate([rows.cost[cheapest] for rows, cheapest in unreserved]).astype(float)
    return dual_prices.resource_prices(allocatable, prices, variants.demand)


def _cheapest(rows: Rows, mask: Mask) -> Ints:
    """The cheapest row with a known price for each entry of `allocatable`."""
    known = np.flatnonzero(mask & (rows.cost > UNKNOWN_COST))
    dearest_first = known[np.argsort(rows.cost[known], kind="stable")][::-1]
    cheapest = np.full(len(rows.allocatable), -1, dtype=np.int64)
    cheapest[rows.allocatable_index[dearest_first]] = dearest_first  # the last one stays
    return np.sort(cheapest[cheapest >= 0])


def _sizes(p: Problem, t: int) -> Ints:
    """[row] cpu of the instance type, in thousandths."""
    rows = p.templates[t].rows
    return rows.columns.capacity(resources.CPU)[rows.row_type]


def _average_millis(p: Problem, variants: Variants) -> float:
    """The average cpu request of a pod, in thousandths."""
    demand: dict[str, float] = dict(zip(p.resources.names, variants.demand.tolist(), strict=False))
    return demand.get(resources.CPU, 0) / demand[resources.PODS]


def _caps(p: Problem, sizes: list[Ints], average_millis: float, largest_millis: int, most: int) -> list[int]:
    """Sizes of unreserved types that hold an average pod, each at least 1.5 times the one before."""
    unreserved = [s for s, t in zip(sizes, p.templates, strict=True) if t.kind == UNRESERVED]
    if not unreserved or most <= 0:
        return []
    caps: list[int] = []
    for size in sorted(set(np.concatenate(unreserved).tolist())):
        if average_millis <= size < largest_millis and (not caps or 2 * size >= 3 * caps[-1]):
            caps.append(size)
    return caps[:most]
