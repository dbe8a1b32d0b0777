"""holdfast.runtime.huge_pages."""

from pathlib import Path

from holdfast.runtime.huge_pages import HugePages, private

MIB = 2**20
MAPS = """\
00400000-00e00000 r-xp 00000000 fe:01 1234 /usr/bin/python3
00e00000-01200000 rw-p 00a00000 fe:01 1234 /usr/bin/python3
02000000-02700000 rw-p 00000000 00:00 0 [heap]
10100000-10200000 rw-p 00000000 00:00 0
10300000-10a00000 rw-p 00000000 00:00 0
20000000-30000000 rw-s 00000000 00:01 77 /dev/shm/shared
30000000-40000000 rw-p 00000000 00:00 0 [stack]
40000000-50000000 r--p 00000000 00:00 0
"""


def test_only_whole_huge_pages_of_private_memory_without_a_file_are_asked_for() -> None:
    assert list(private(MAPS.splitlines())) == [(0x02000000, 6 * MIB), (0x10400000, 6 * MIB)]


def test_memory_that_did_not_grow_is_not_asked_for_again() -> None:
    pages = HugePages()
    pages.extend()
    assert pages.extend() == 0


def test_a_system_without_proc_is_left_as_it_is(tmp_path: Path) -> None:
    assert HugePages(tmp_path).extend() == 0
