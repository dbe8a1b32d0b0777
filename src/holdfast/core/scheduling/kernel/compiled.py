"""Runs the placement kernel, compiled from C or as plain Python: one source, the same plans.

Called by `run`. `scripts/build_kernel.py` translates the kernel to C and compiles it when Holdfast is built or installed
(docs/adr/0051). Without such a library, or if it was built from other sources, the kernel runs as plain Python: the same
plans, but slower. The compiled kernel releases the interpreter lock while it runs.
"""

import ctypes
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from holdfast.core.scheduling.kernel import placing
from holdfast.core.scheduling.kernel.packing_state import Bytes, Counts, Ints, PackingState, Words

_FOLDER: Final = Path(__file__).parent
_LIBRARY: Final = _FOLDER / "kernel.so"
_ROW: Final = 4  # an array in C: its address and a shape of up to three dimensions
_TYPES: Final = {Ints: np.int64, Words: np.uint64, Bytes: np.uint8, Counts: np.int32}
_FIELDS: Final = [(name, np.dtype(_TYPES[type_])) for name, type_ in PackingState.__annotations__.items()]

Run = Callable[[PackingState], int]


def placement() -> Run:
    """The kernel for one run: its arrays are not shared with other threads."""
    found = _library()
    return plain if isinstance(found, str) else _Compiled(found)


def why_plain() -> str:
    """Why plans are made by the plain kernel; empty: the compiled one makes them."""
    found = _library()
    return found if isinstance(found, str) else ""


def plain(ps: PackingState) -> int:
    """Runs the kernel as plain Python, on memoryviews: Python reads and writes them twice as fast as arrays."""
    arrays: Iterable[Any] = ps
    views: list[Any] = [memoryview(array) for array in arrays]
    return placing.run(PackingState(*views))


class _Compiled:
    """Tells the library where the arrays are. A run calls it many times with nearly the same arrays, so only those that
    were replaced are described again."""

    def __init__(self, library: Callable[[int], int]) -> None:
        self._run = library
        self._described = np.zeros((len(_FIELDS), _ROW), dtype=np.int64)
        self._address = self._described.ctypes.data
        self._arrays: list[Any] = [None] * len(_FIELDS)

    def __call__(self, ps: PackingState) -> int:
        arrays: Iterable[Any] = ps
        for index, array in enumerate(arrays):
            if array is not self._arrays[index]:
                self._describe(index, array)
        return self._run(self._address)

    def _describe(self, index: int, array: Any) -> None:
        name, dtype = _FIELDS[index]
        if array.dtype != dtype or not array.flags.c_contiguous:  # the library would read other memory
            raise TypeError(f"{name} is not a contiguous array of {dtype}")
        address = array.__array_interface__["data"][0]
        self._described[index, : array.ndim + 1] = (address, *array.shape)
        self._arrays[index] = array


@cache
def _library() -> Callable[[int], int] | str:
    """The kernel's function in the library, or why it cannot be used."""
    try:
        library = ctypes.CDLL(str(_LIBRARY))
        version = ctypes.c_char.in_dll(library, "holdfast_kernel_version")
    except (OSError, ValueError) as error:
        return f"the compiled kernel cannot be loaded: {error}"
    if ctypes.string_at(ctypes.addressof(version)).decode() != _version():
        return f"{_LIBRARY.name} was compiled from other sources; `make setup` compiles it again"
    run = library.holdfast_run
    run.argtypes, run.restype = [ctypes.c_void_p], ctypes.c_int64
    return run


def _version() -> str:
    """A hash of the sources, as `scripts/build_kernel.py` computes it."""
    content = b"".join(path.read_bytes() for path in sorted(_FOLDER.glob("*.py")))
    return hashlib.sha256(content).hexdigest()
