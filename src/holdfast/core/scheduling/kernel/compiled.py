"""Runs the placement kernel as plain Python or compiled by numba: one source, the same plans.

Called by `run`. Compiling takes half a minute and 550 MiB with an empty cache, and 2 s and 170 MiB with a warm one; a
plan of 10,000 pods takes 3 s without compiling. So only large plans compile. The compiler gets the packing state as one
reference to its arrays: each function would take long to compile with the arrays as separate arguments.
"""

import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from holdfast.core.scheduling.kernel import (
    capacity,
    fitting,
    lists,
    packing_state,
    placing,
    slots,
    spare_capacity,
    topology,
)
from holdfast.core.scheduling.kernel.packing_state import PackingState

# Below this many pods the plain kernel is fast enough.
COMPILE_FROM_PODS: Final = 10_000

_MODULES: Final = (capacity, spare_capacity, fitting, lists, slots, topology, placing)


def placement(pods: int) -> Callable[[PackingState], int]:
    """The kernel for a plan of this size. Once the compiled one exists, every plan uses it."""
    ready = _compiled.cache_info().currsize > 0
    return _compiled() if ready or pods >= COMPILE_FROM_PODS else plain


def plain(ps: PackingState) -> int:
    """Runs the kernel as plain Python, on memoryviews: Python reads and writes them twice as fast as arrays."""
    arrays: Iterable[Any] = ps
    views: list[Any] = [memoryview(array) for array in arrays]
    return placing.run(PackingState(*views))


@cache
def _compiled() -> Callable[[PackingState], int]:
    from holdfast.core.scheduling.kernel import compiled_state  # noqa: PLC0415 - 120 MiB that only large plans need

    cached = functools.partial(compiled_state.compile_and_cache, version=_version())
    run = _decorated(cached) or _decorated(compiled_state.compile_only)
    assert run is not None
    return lambda ps: int(run(compiled_state.reference_to(ps)))


def _version() -> str:
    """A hash of all sources. numba's cache checks one file at a time, and would run stale code after a change in another."""
    sources = "".join(inspect.getsource(module) for module in (*_MODULES, packing_state))
    return hashlib.sha256(sources.encode()).hexdigest()[:16]


def _decorated(decorate: Callable[[Any], Any]) -> Callable[[Any], int] | None:
    """Decorated copies of the kernel's functions, which call each other; None if they cannot be cached.

    They are copies so that the functions themselves stay plain Python.
    """
    scope = {name: value for module in _MODULES for name, value in vars(module).items()}
    for name, function in list(scope.items()):
        if isinstance(function, types.FunctionType):
            copy = types.FunctionType(function.__code__, scope, name, function.__defaults__)
            copy.__module__ = function.__module__
            copy.__qualname__ = name
            try:
                scope[name] = decorate(copy)
            except RuntimeError:  # no writable folder for the cache, as in a read-only container
                return None
    run: Callable[[Any], int] = scope["run"]
    return run
