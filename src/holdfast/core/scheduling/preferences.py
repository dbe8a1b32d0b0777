"""Preferences of pods are kept: no packing may give up more of them than first fit does to be cheaper.

Called by `trials` for each packing that was tried.
"""

import numpy as np

from holdfast.core.scheduling.run import Outcome
from holdfast.core.scheduling.variants import Variants
from holdfast.core.scheduling.world import Ints


def respected(variants: Variants, first_fit: Outcome, other: Outcome) -> bool:
    """Whether another packing places at least as many pods of each class as first fit does with each number of
    relaxations or fewer."""
    if not variants.v_level.any():
        return True
    return bool((_relaxed_so_far(variants, other) >= _relaxed_so_far(variants, first_fit)).all())


def _relaxed_so_far(variants: Variants, outcome: Outcome) -> Ints:
    """[class, level] how many pods of a class are placed with so many relaxations or fewer."""
    classes, levels = len(variants.c_first) - 1, int(variants.v_level.max()) + 1
    cells = outcome.log_class * levels + variants.v_level[outcome.log_variant]
    found: Ints = np.bincount(cells, minlength=classes * levels).reshape(classes, levels).cumsum(axis=1)
    return found
