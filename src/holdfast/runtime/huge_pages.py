"""Asks Linux to keep the memory of this process in huge pages.

Simulations have millions of small objects. With pages of 4 kB nearly every access to an object
that was not used for a while misses the cache of addresses (TLB), which is a tenth of the CPU time. Where the kernel
cannot do it (before Linux 6.1, other systems, or switched off), nothing happens.
"""

import ctypes
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = 2 * 2**20
_GROWTH_MIN_BYTES: Final = 32 * 2**20  # each call copies the new memory, which takes 2 ms a MiB
_HUGEPAGE: Final = 14  # MADV_HUGEPAGE
_COLLAPSE: Final = 25  # MADV_COLLAPSE: now, not when the kernel finds time
_SELF: Final = Path("/proc/self")


class HugePages:
    """The memory of this process that was asked for already."""

    def __init__(self, process: Path = _SELF) -> None:
        self._process = process
        self._resident_bytes = 0  # at the last call

    def extend(self) -> int:
        """Includes memory that is new since the last call, if there is enough of it. Returns how many bytes were asked
        for."""
        try:
            pages = int((self._process / "statm").read_text().split()[1])
            resident_bytes = pages * os.sysconf("SC_PAGE_SIZE")
            if resident_bytes < self._resident_bytes + _GROWTH_MIN_BYTES:
                return 0
            self._resident_bytes = resident_bytes
            with (self._process / "maps").open() as lines:
                found = list(private(lines))
            return _ask(found)
        except (OSError, ValueError, LookupError, AttributeError):  # not Linux, or no /proc
            return 0


def private(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """From the lines of /proc/self/maps, where whole huge pages of private memory without a file begin, and their
    length."""
    for line in lines:
        parts = line.split()
        if parts[1] != "rw-p" or parts[4] != "0" or parts[5:] not in ([], ["[heap]"]):
            continue
        first, _, last = parts[0].partition("-")
        begin = -(-int(first, 16) // _PAGE_BYTES) * _PAGE_BYTES
        length = int(last, 16) // _PAGE_BYTES * _PAGE_BYTES - begin
        if length > 0:
            yield begin, length


def _ask(ranges: Iterable[tuple[int, int]]) -> int:
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    asked = 0
    for begin, length in ranges:
        # A range that the kernel refuses stays as it is.
        if advise(begin, length, _HUGEPAGE) == 0:
            advise(begin, length, _COLLAPSE)
            asked += length
    return asked
