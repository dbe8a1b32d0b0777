"""The weight of a NodePool is a wish of its owner: no packing may go round it to be cheaper.

Asked by `solve` of each packing that it tried.
"""

import numpy as np

from holdfast.core.scheduling.packing_state import UNRESERVED, Ints
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.run import Outcome


def respected(p: Problem, first_fit: Outcome, other: Outcome) -> bool:
    """Whether another packing puts no more pods on lighter NodePools than first fit does."""
    if len({pool.weight for pool in p.pools}) <= 1:  # none is lighter than another
        return True
    return bool((_on_lighter_pools(p, other) <= _on_lighter_pools(p, first_fit)).all())


def _on_lighter_pools(p: Problem, outcome: Outcome) -> Ints:
    """[weight] how many pods are on new nodes of pools below each weight; slots, where they come first, apart."""
    weights = sorted({pool.weight for pool in p.pools})[1:]
    of_pods = outcome.n_template[outcome.log_node[outcome.log_node >= outcome.existing]]
    pods = np.bincount(of_pods, minlength=len(p.templates))
    slots_first = p.settings.reserved_before_weight
    counted = [(p.pools[t.pool].weight, t.kind == UNRESERVED or not slots_first) for t in p.templates]
    below = [[counts and own < weight for own, counts in counted] for weight in weights]
    return np.array(below, dtype=np.int64).reshape(len(weights), len(p.templates)) @ pods
