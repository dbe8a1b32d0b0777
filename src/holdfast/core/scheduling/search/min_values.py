"""Checks minValues: whether enough instance types, or other values, are left for a node.

Called by `run` and `settling` while they pack, and by `reasons`. minValues are checked before a node is pinned to the one
instance type of its slot (S-66, S-69).
"""

import numpy as np

from holdfast.core.scheduling.input import axes, offers
from holdfast.core.scheduling.input.columns import Mask
from holdfast.core.scheduling.input.offers import Rows
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.shapes import Shapes, Template
from holdfast.core.scheduling.kernel.packing_state import UNRESERVED, Ints
from holdfast.model.requirements import MinValuesGap, Requirements


def gaps(p: Problem, shapes: Shapes, shape: int, load: Ints) -> tuple[MinValuesGap, ...]:
    """Which minValues a node of this shape and load misses."""
    of_shape = shapes.all[shape]
    own = p.templates[of_shape.template]
    # With limits, only the rows that its claim will list: other rows might exceed the limits.
    limited = own.kind == UNRESERVED and p.pools[own.pool].limits.amounts
    # Without limits, the zones that the packing counted on, which its claim will require: a cap on sizes may exclude a zone.
    wanted = of_shape.requirements if limited else shapes.pinned_requirements(shape)
    return missing(p, own, wanted, load, of_shape.mask if limited else None)


def missing(
    p: Problem, own: Template, wanted: Requirements, load: Ints, usable: Mask | None = None
) -> tuple[MinValuesGap, ...]:
    """Which minValues of these requirements a node of a template misses; `usable` holds the rows it may use, None: all."""
    found: dict[str, set[str]] = {r.key: set() for r in wanted if r.min_values}
    if not found:
        return ()
    for template in p.templates:
        if template.pool != own.pool or (own.kind == UNRESERVED and template is not own):
            continue
        mask = offers.satisfying(template.rows, wanted) if usable is None else usable
        mask = mask & template.rows.fitting(load)
        if own.kind == UNRESERVED:
            mask = _listed(template.rows, mask, p.settings.max_instance_types)
        for key, values in found.items():
            values.update(_values(template.rows, mask, key))
    return wanted.min_values_gaps(found)


def _listed(rows: Rows, mask: Mask, most: int) -> Mask:
    """The rows of the cheapest types, as many as a claim lists: only these count (S-69, S-101)."""
    found = np.flatnonzero(mask)
    if len(axes.distinct(rows.row_type[found])) <= most:
        return mask
    cheapest = rows.row_type[rows.ordered(found)]
    types = list(dict.fromkeys(cheapest.tolist()))[:most]
    return mask & np.isin(rows.row_type, types)


def _values(rows: Rows, mask: Mask, key: str) -> set[str]:
    found: set[str] = set()
    for row in np.flatnonzero(mask).tolist():
        for holder in (rows.type(row).requirements, rows.offering(row).requirements):
            requirement = holder.by_key.get(key)
            if requirement is not None and not requirement.complement:
                found |= requirement.values
    return found
