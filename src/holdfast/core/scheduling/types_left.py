"""Which instance types a node can still become, and whether they are enough for minValues.

Called by `run` while it packs and by `finalize` at the end. minValues counts types before a node is pinned to the one
type of its slot (S-66, S-69): being flexible and being in a slot are two wishes, and the first is judged first.
"""

import numpy as np

from holdfast.core.scheduling.columns import Mask
from holdfast.core.scheduling.offers import Rows
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.shapes import Shapes
from holdfast.core.scheduling.world import BOUGHT, Ints
from holdfast.model.requirements import MinValuesGap, Requirements


def gaps(p: Problem, shapes: Shapes, shape: int, load: Ints) -> tuple[MinValuesGap, ...]:
    """Which minValues a node of this shape and load misses."""
    of_shape = shapes.all[shape]
    wanted = of_shape.requirements
    own = p.templates[of_shape.template]
    found: dict[str, set[str]] = {r.key: set() for r in wanted if r.min_values}
    for template in p.templates:
        if template.pool != own.pool or (own.kind == BOUGHT and template is not own):
            continue
        if template is own and own.kind == BOUGHT and p.pools[own.pool].limits.amounts:
            mask = of_shape.mask  # what its claim will list: other rows might break the limits
        else:
            mask = satisfying(template.rows, wanted)
        assert mask is not None
        for key, values in found.items():
            values.update(_values(template.rows, mask & template.rows.fitting(load), key))
    return wanted.min_values_gaps(found)


def satisfying(rows: Rows, wanted: Requirements) -> Mask:
    """The rows that go together with every requirement."""
    mask = np.ones(len(rows), dtype=bool)
    for requirement in wanted.by_key.values():
        mask &= rows.satisfying(requirement)
    return mask


def _values(rows: Rows, mask: Mask, key: str) -> set[str]:
    found: set[str] = set()
    for row in np.flatnonzero(mask).tolist():
        for holder in (rows.type(row).requirements, rows.offering(row).requirements):
            requirement = holder.by_key.get(key)
            if requirement is not None and not requirement.complement:
                found |= requirement.values
    return found
