"""Other ways to pack than first fit, as rows that each template may use.

Called by `solve` with `packing: cost`. First fit fills a node while any type still fits, so nodes grow until only the
largest and dearest types are left. A cap on the size of what is bought keeps them smaller; afterwards every node is
right-sized against all types. Slots are never capped: they are paid for.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling.columns import Mask
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.world import BOUGHT
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


def _sizes(p: Problem, t: int) -> NDArray[np.int64]:
    """[row] cpu of the instance type, in thousandths."""
    rows = p.templates[t].rows
    return rows.columns.capacity(resources.CPU)[rows.row_type]


def _caps(p: Problem, sizes: list[NDArray[np.int64]], most: int) -> list[int]:
    """Different sizes of what can be bought, spread evenly, the largest left out: that is first fit."""
    bought = [s for s, t in zip(sizes, p.templates, strict=True) if t.kind == BOUGHT]
    if not bought or most <= 0:
        return []
    found = np.unique(np.concatenate(bought))[:-1]
    if len(found) > most:
        found = found[np.linspace(0, len(found) - 1, most).round().astype(int)]
    return [int(cap) for cap in found]
