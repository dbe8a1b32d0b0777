"""The placement kernel, as Python or compiled: one source, the same answers.

Called by `run`. Compiling takes half a minute and 550 MiB where no cache is warm, and 2 s and 170 MiB where one is; a
plan of 10,000 pods takes 3 s without. So most plans do without. The compiler sees the world as one reference to its
arrays: passing them one by one would make each function slow to compile.
"""

import functools
import hashlib
import inspect
import types
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from holdfast.core.scheduling import world
from holdfast.core.scheduling.kernel import fitting, lists, paid, placing, room, slots, topology
from holdfast.core.scheduling.world import World

# Below this many pods the uncompiled kernel is quick enough.
COMPILE_FROM_PODS: Final = 10_000

_MODULES: Final = (room, paid, fitting, lists, slots, topology, placing)


def placement(pods: int) -> Callable[[World], int]:
    """The kernel that suits a plan of this size; once it is compiled, it suits all."""
    ready = _compiled.cache_info().currsize > 0
    return _compiled() if ready or pods >= COMPILE_FROM_PODS else plain


def plain(w: World) -> int:
    """Through views of the arrays' memory, which Python reads and writes in half the time that arrays take."""
    arrays: Iterable[Any] = w
    views: list[Any] = [memoryview(array) for array in arrays]
    return placing.run(World(*views))


@cache
def _compiled() -> Callable[[World], int]:
    from holdfast.core.scheduling import world_ref  # noqa: PLC0415 - 120 MiB that only large plans need

    cached = functools.partial(world_ref.compile_and_cache, version=_version())
    run = _decorated(cached) or _decorated(world_ref.compile_only)
    assert run is not None
    return lambda w: int(run(world_ref.of(w)))


def _version() -> str:
    """Of all sources together: the compiler looks at one file at a time, and would keep what another one has changed."""
    sources = "".join(inspect.getsource(module) for module in (*_MODULES, world))
    return hashlib.sha256(sources.encode()).hexdigest()[:16]


def _decorated(decorate: Callable[[Any], Any]) -> Callable[[Any], int] | None:
    """Copies of the kernel's functions that see each other, decorated; None where they cannot be cached.

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
            except RuntimeError:  # no folder to cache in: a read-only container
                return None
    run: Callable[[Any], int] = scope["run"]
    return run
