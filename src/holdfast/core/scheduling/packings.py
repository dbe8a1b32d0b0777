"""Other ways to pack than first fit, as rows that each template may use.

Called by `solve` with `packing: cost`. First fit fills a node while any type still fits, so nodes grow until only the
largest and dearest types are left. Here what is paid for is filled before a node becomes a dearer one, so that no
resource is bought for the sake of another, and with a cap on the size of what is bought nodes stay small. Afterwards
every node is right-sized against all types. Slots are never capped: they are paid for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling import duals, problem
from holdfast.core.scheduling.columns import UNKNOWN_PRICE, Mask
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.world import BOUGHT, Ints
from holdfast.model import resources

MILLIS = 1000


@dataclass(frozen=True)
class Candidate:
    """A way to pack. The default is first fit: biggest pods first, every row."""

    name: str
    masks: list[Mask] | None = None  # by template, the rows that may be used; None: all
    by_price: bool = False  # free pods are packed by what nodes cost
    order: Ints | None = None  # of classes; None: biggest first
    fill: bool = False  # what is paid for is filled before a node gets dearer
    oldest_first: bool = (
        False  # a node is filled before the next one; else the one with the fewest pods comes first
    )


def again(candidate: Candidate) -> Candidate:
    """The same way to pack, but a node is filled before the next one gets anything: often cheaper, as often not."""
    return replace(candidate, name=f"{candidate.name}, oldest first", oldest_first=True)


def candidates(p: Problem, whole: list[Mask], largest_millis: int, most: int) -> Iterator[Candidate]:
    """Up to `most` packings beside first fit, whose largest node is so large: larger caps would change nothing."""
    if most > 0:
        yield Candidate("by-price", by_price=True, order=_by_worth(p, whole), fill=True)
    if most > 1:
        yield Candidate("fill", order=_by_worth(p, whole), fill=True)
    sizes = [_sizes(p, t) for t in range(len(p.templates))]
    for cap in _caps(p, sizes, largest_millis, most - 2):
        masks = [
            mask & (of_rows <= cap) if template.kind == BOUGHT else mask
            for template, mask, of_rows in zip(p.templates, whole, sizes, strict=True)
        ]
        yield Candidate(f"fill-{cap // MILLIS}", masks, order=_by_worth(p, masks), fill=True)


def _by_worth(p: Problem, masks: list[Mask]) -> Ints:
    """Classes in the order of what one pod is worth at the prices of what may be bought, the dearest first."""
    requests = problem.requests([c.shape for c in p.classes], p.resources)
    demand = np.array([len(c.pods) for c in p.classes]) @ requests
    bought = [
        (template.rows, mask & (template.rows.price > UNKNOWN_PRICE))
        for template, mask in zip(p.templates, masks, strict=True)
        if template.kind == BOUGHT
    ]
    if not any(known.any() for _, known in bought):
        return np.arange(len(p.classes))
    rooms = np.vstack([rows.room[known] for rows, known in bought]).astype(float)
    prices = np.concatenate([rows.price[known] for rows, known in bought]).astype(float)
    worth = duals.worth(rooms, prices, demand.astype(float))
    return np.argsort(-(requests @ worth), kind="stable")


def _sizes(p: Problem, t: int) -> NDArray[np.int64]:
    """[row] cpu of the instance type, in thousandths."""
    rows = p.templates[t].rows
    return rows.columns.capacity(resources.CPU)[rows.row_type]


def _caps(p: Problem, sizes: list[NDArray[np.int64]], largest_millis: int, most: int) -> list[int]:
    """Sizes of what can be bought that hold an average pod, each at least half as large again as the one before."""
    bought = [s for s, t in zip(sizes, p.templates, strict=True) if t.kind == BOUGHT]
    if not bought or not p.classes or most <= 0:
        return []
    asked = sum(c.shape.requests[resources.CPU] * len(c.pods) for c in p.classes)
    average = asked / sum(len(c.pods) for c in p.classes)
    caps: list[int] = []
    for size in np.unique(np.concatenate(bought)).tolist():
        if average <= size < largest_millis and (not caps or 2 * size >= 3 * caps[-1]):
            caps.append(size)
    return caps[:most]
