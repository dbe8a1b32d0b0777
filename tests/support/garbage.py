"""Counts what only the garbage collector frees. A simulation collects rarely, so a call must not leave it much."""

import gc
from collections.abc import Callable

_CALLS = 20


def left_by(call: Callable[[], object]) -> int:
    """How many unreachable objects each of some calls leaves, on average. The first call may fill caches."""
    call()
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(_CALLS):
            call()
        return gc.collect() // _CALLS
    finally:
        if was_enabled:
            gc.enable()
