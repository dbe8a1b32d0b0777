"""Packs unconstrained pods by price: finds patterns of pods with the highest worth for the price of a node.

Called by `opening`. For every instance type a node is filled with pods, preferring those that are worth much and need
little of what is scarce on it. The type whose pattern has the highest worth for its price is used as often as the pods
allow; then the search repeats with the pods that are left. Pods of one size are interchangeable. The result is a list of
nodes to open, with the number of pods of each size.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling.kernel.packing_state import Ints
from holdfast.core.scheduling.search import dual_prices

Floats = NDArray[np.float64]

_STEPS = 4000  # bounds the work of one pattern
_PATTERNS = 400


@dataclass(frozen=True)
class Pattern:
    """Equal nodes: their type, how many there are, and how many pods of each size each has."""

    type: int
    nodes: int
    pods: NDArray[np.int64]  # [size]


def patterns(sizes: Ints, counts: Ints, allocatable: Ints, prices: Ints) -> list[Pattern]:
    """Patterns that hold every pod. `allocatable` and `prices` are by type, `sizes` and `counts` by size of pod."""
    pods_left = counts.copy()
    needed = sizes.astype(float)
    capacity = allocatable.astype(float)
    resource_prices = dual_prices.resource_prices(capacity, prices.astype(float), needed.T @ counts)
    value = needed @ resource_prices
    found: list[Pattern] = []
    while pods_left.any() and len(found) < _PATTERNS:
        filled = _fill(needed, pods_left, capacity, value)
        gains = filled @ value
        best = int(np.argmax(gains / prices))
        pods = filled[best]
        if not pods.any():
            break
        used = pods > 0
        nodes = int((pods_left[used] // pods[used]).min())
        pods_left -= nodes * pods
        found.append(Pattern(best, nodes, pods))
    return found


def _fill(needed: Floats, pods_left: Ints, capacity: Floats, value: Floats) -> Ints:
    """[type, size] how many pods of each size fill a node of each type; adds one size at a time, for all types at once."""
    remaining = capacity.copy()
    taken = np.zeros((len(capacity), len(needed)), dtype=np.int64)
    open_types = np.arange(len(capacity))
    for _ in range(_STEPS):
        rest = remaining[open_types]
        more = pods_left[None, :] - taken[open_types]
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = np.floor(rest[:, None, :] / needed[None, :, :]).min(axis=2)
            scarce = (needed[None, :, :] / np.maximum(rest, 1.0)[:, None, :]).max(axis=2)
        possible = np.minimum(np.nan_to_num(fits, posinf=2**31), more)
        score = np.where(possible >= 1, value[None, :] / np.maximum(scarce, 1e-12), -1.0)
        choice = score.argmax(axis=1)
        chosen = possible[np.arange(len(open_types)), choice]
        growing = chosen >= 1
        if not growing.any():
            break
        open_types, choice = open_types[growing], choice[growing]
        # Half of what fits: the remaining capacity changes, and another size may then fit better.
        amount = np.maximum(1, chosen[growing].astype(np.int64) // 2)
        taken[open_types, choice] += amount
        remaining[open_types] -= amount[:, None] * needed[choice]
    return taken
