"""Other ways to pack than first fit, as rows that each template may use.

Called by `solve` with `packing: cost`. First fit fills a node while any type still fits, so nodes grow until only the
largest and dearest types are left. A cap on the size of what is bought keeps them smaller; afterwards every node is
right-sized against all types. Slots are never capped: they are paid for. No packing may go round the weight of a
NodePool to be cheaper.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling.offers import Mask
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.run import Outcome
from holdfast.core.scheduling.world import BOUGHT, Ints
from holdfast.model import resources

MILLIS = 1000


def candidates(p: Problem, whole: list[Mask], most: int) -> Iterator[tuple[str, list[Mask], bool]]:
    """Up to `most` packings: name, rows that may be used, and whether free pods are packed by price."""
    if most > 0:
        yield "by-price", whole, True
    sizes = [_sizes(p, t) for t in range(len(p.templates))]
    for cap in _caps(p, sizes, most - 1):
        masks = [
            mask & (of_rows <= cap) if template.kind == BOUGHT else mask
            for template, mask, of_rows in zip(p.templates, whole, sizes, strict=True)
        ]
        yield f"cap-{cap // MILLIS}", masks, False


def on_lighter_pools(p: Problem, outcome: Outcome) -> Ints:
    """How many pods are on new nodes of pools below each weight there is; slots, where they come first, apart."""
    weights = sorted({pool.weight for pool in p.pools})[1:]
    of_pods = outcome.n_template[outcome.log_node[outcome.log_node >= outcome.existing]]
    counts = np.bincount(of_pods, minlength=len(p.templates))
    return np.array(
        [
            sum(
                int(count)
                for count, t in zip(counts, p.templates, strict=True)
                if p.pools[t.pool].weight < weight
                and (t.kind == BOUGHT or not p.settings.reserved_before_weight)
            )
            for weight in weights
        ],
        dtype=np.int64,
    )


def _sizes(p: Problem, t: int) -> NDArray[np.int64]:
    """[row] cpu of the instance type, in thousandths."""
    rows = p.templates[t].rows
    of_types = np.array([type_.capacity[resources.CPU] for type_ in rows.types], dtype=np.int64)
    return of_types[rows.row_type]


def _caps(p: Problem, sizes: list[NDArray[np.int64]], most: int) -> list[int]:
    """Different sizes of what can be bought, spread evenly, the largest left out: that is first fit."""
    bought = [s for s, t in zip(sizes, p.templates, strict=True) if t.kind == BOUGHT]
    if not bought or most <= 0:
        return []
    found = np.unique(np.concatenate(bought))[:-1]
    if len(found) > most:
        found = found[np.linspace(0, len(found) - 1, most).round().astype(int)]
    return [int(cap) for cap in found]
