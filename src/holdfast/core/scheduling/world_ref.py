"""The world as the compiler sees it: one reference, with an array behind each name.

Imported by `compiled` alone, and only when a plan is large: it brings in the compiler.
"""

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.experimental import structref

from holdfast.core.scheduling import kernel
from holdfast.core.scheduling.world import World


@structref.register
class WorldType(types.StructRef):
    """The type of the reference."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(type_)) for name, type_ in fields)


class WorldRef(structref.StructRefProxy):
    """The reference as Python holds it."""

    def __new__(cls, *arrays: Any) -> Any:
        return structref.StructRefProxy.__new__(cls, *arrays)


structref.define_proxy(WorldRef, WorldType, list(World._fields))


def of(world: World) -> WorldRef:
    """A reference to the same arrays; what the kernel writes is seen by both."""
    reference: WorldRef = WorldRef(*world)
    return reference


def compile_and_cache(function: Callable[..., Any], version: str) -> Any:
    """Compiled, and kept on disk in a folder of this version; RuntimeError where nothing can be kept."""
    settings: Any = numba.config
    given = settings.CACHE_DIR
    settings.CACHE_DIR = f"{given or kernel.__path__[0]}/__pycache__/{version}"
    try:
        return numba.njit(function, cache=True, nogil=True)
    finally:
        settings.CACHE_DIR = given


def compile_only(function: Callable[..., Any]) -> Any:
    return numba.njit(function, nogil=True)
