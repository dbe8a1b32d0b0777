"""The packing state as a numba struct: one reference, with an array for each field.

Only `compiled` imports this module, and only for a large plan: it imports the compiler, which needs 120 MiB.
"""

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.experimental import structref

from holdfast.core.scheduling import kernel
from holdfast.core.scheduling.kernel.packing_state import PackingState


@structref.register
class PackingStateType(types.StructRef):
    """The type of the reference."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(type_)) for name, type_ in fields)


class PackingStateRef(structref.StructRefProxy):
    """The reference as Python holds it."""

    def __new__(cls, *arrays: Any) -> Any:
        return structref.StructRefProxy.__new__(cls, *arrays)


structref.define_proxy(PackingStateRef, PackingStateType, list(PackingState._fields))


def reference_to(ps: PackingState) -> PackingStateRef:
    """A reference to the same arrays, not a copy."""
    reference: PackingStateRef = PackingStateRef(*ps)
    return reference


def compile_and_cache(function: Callable[..., Any], version: str) -> Any:
    """Compiles a function and caches it on disk, in a folder of this version. Raises RuntimeError if it cannot write."""
    settings: Any = numba.config
    given = settings.CACHE_DIR
    settings.CACHE_DIR = f"{given or kernel.__path__[0]}/__pycache__/{version}"
    try:
        return numba.njit(function, cache=True, nogil=True)
    finally:
        settings.CACHE_DIR = given


def compile_only(function: Callable[..., Any]) -> Any:
    return numba.njit(function, nogil=True)
