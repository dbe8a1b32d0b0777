"""The price of one unit of each resource: the dual prices of covering a demand with instance types.

Called by `greedy` and `packings`. The linear program: take fractions of instance types at the lowest total price so that
their allocatable covers the demand. Its dual gives each resource a price such that no type is worth more than it costs;
a type that is worth exactly its price is a good choice. There are few resources and many types, so a simplex over the
resources is enough.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEPS = 500
_TINY = 1e-9


def resource_prices(allocatable: Floats, prices: Floats, demand: Floats) -> Floats:
    """[resource] the dual prices; `allocatable` is [type, resource]. Zero for a resource that is not scarce."""
    # One artificial column for each resource, at a prohibitive price, is the first basis.
    scale = np.maximum(allocatable.max(axis=0), 1.0)
    columns = np.vstack([allocatable / scale, np.eye(len(demand)), -np.eye(len(demand))])
    dear = 1e3 * prices.max()
    costs = np.concatenate([prices, np.full(len(demand), dear), np.zeros(len(demand))])
    wanted = demand / scale
    basis = np.arange(len(prices), len(prices) + len(demand))
    duals: Floats = np.zeros(len(demand))
    for _ in range(_STEPS):
        matrix = columns[basis].T
        duals = np.linalg.solve(matrix.T, costs[basis])
        reduced = costs - columns @ duals
        entering = int(np.argmin(reduced))
        if reduced[entering] >= -_TINY * dear:
            break
        amounts = np.linalg.solve(matrix, wanted)
        direction = np.linalg.solve(matrix, columns[entering])
        falling = direction > _TINY
        if not falling.any():
            break
        ratios = np.where(falling, amounts / np.where(falling, direction, 1.0), np.inf)
        basis[int(np.argmin(ratios))] = entering
    found: Floats = np.maximum(duals, 0.0) / scale
    return found
