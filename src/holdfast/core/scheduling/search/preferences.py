"""Checks that a cheaper packing keeps NodePool weights and pod preferences at least as well as first fit does.

Called by `packing_search` for each packing. Preferences are compared twice: by what was given up to place the pods, and
by what their nodes satisfy in the end. A pod that gave up a node preference together with another one may still have a
node that satisfies it.
"""

import numpy as np

from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.kernel.packing_state import UNRESERVED, Ints
from holdfast.core.scheduling.search.finalize import Nodes
from holdfast.core.scheduling.search.run import Outcome
from holdfast.core.scheduling.search.variants import Variants


def keeps_weights(p: Problem, first_fit: Outcome, other: Outcome) -> bool:
    """Whether another packing puts no more pods on NodePools of lower weight than first fit does."""
    if len({pool.weight for pool in p.pools}) <= 1:
        return True
    return bool((_on_lighter_pools(p, other) <= _on_lighter_pools(p, first_fit)).all())


def _on_lighter_pools(p: Problem, outcome: Outcome) -> Ints:
    """[weight] how many pods are on new nodes of NodePools below each weight; without slots if slots come before weight."""
    weights = sorted({pool.weight for pool in p.pools})[1:]
    of_pods = outcome.n_template[outcome.log_node[outcome.log_node >= outcome.existing]]
    pods = np.bincount(of_pods, minlength=len(p.templates))
    slots_first = p.settings.reserved_before_weight
    counted = [(p.pools[t.pool].weight, t.kind == UNRESERVED or not slots_first) for t in p.templates]
    below = [[counts and own < weight for own, counts in counted] for weight in weights]
    return np.array(below, dtype=np.int64).reshape(len(weights), len(p.templates)) @ pods


def keeps_preferences(
    variants: Variants, first_fit: tuple[Outcome, Nodes], other: tuple[Outcome, Nodes]
) -> bool:
    """Whether another packing places at least as many pods of each class as first fit does with each number of
    relaxations or fewer, and on nodes that satisfy as much of what they prefer of a node."""
    if not variants.v_level.any():
        return True
    given_up = [variants.v_level[outcome.log_variant] for outcome, _ in (first_fit, other)]
    if not _at_least_as_good(variants, (first_fit[0], given_up[0]), (other[0], given_up[1])):
        return False
    if not any(levels.any() for levels in given_up):
        return True
    found = [_satisfied_levels(variants, *one) for one in (first_fit, other)]
    return _at_least_as_good(variants, (first_fit[0], found[0]), (other[0], found[1]))


def _at_least_as_good(
    variants: Variants, first_fit: tuple[Outcome, Ints], other: tuple[Outcome, Ints]
) -> bool:
    return bool((_cumulated(variants, *other) >= _cumulated(variants, *first_fit)).all())


def _cumulated(variants: Variants, outcome: Outcome, levels: Ints) -> Ints:
    """[class, level] how many pods of a class are placed at this level of relaxation or a lower one."""
    classes, count = len(variants.c_first) - 1, int(variants.v_level.max()) + 1
    cells = outcome.log_class * count + levels
    found: Ints = np.bincount(cells, minlength=classes * count).reshape(classes, count).cumsum(axis=1)
    return found


def _satisfied_levels(variants: Variants, outcome: Outcome, nodes: Nodes) -> Ints:
    """[placement] the lowest level of relaxation whose node requirements the node of the pod satisfies."""
    levels = variants.v_level[outcome.log_variant]
    known: dict[tuple[int, int, tuple[int, int] | None], int] = {}
    for i in np.flatnonzero(levels).tolist():
        n = int(outcome.log_node[i])
        new = n - outcome.existing
        row = (nodes.template[new], nodes.row[new]) if new >= 0 else None
        key = int(outcome.log_variant[i]), int(outcome.n_shape[n]), row
        if key not in known:
            known[key] = _lowest(variants, outcome, int(outcome.log_class[i]), key)
        levels[i] = known[key]
    return levels


def _lowest(
    variants: Variants, outcome: Outcome, c: int, key: tuple[int, int, tuple[int, int] | None]
) -> int:
    variant, shape, row = key
    lowest = int(variants.v_level[variant])
    for v in range(int(variants.c_first[c]), int(variants.c_first[c + 1])):
        ops = variants.v_ops[variants.v_op_first[v] : variants.v_op_first[v + 1]].tolist()
        if variants.v_level[v] < lowest and any(outcome.shapes.satisfies(shape, op, row) for op in ops):
            lowest = int(variants.v_level[v])
    return lowest
