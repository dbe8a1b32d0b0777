"""Runs `holdfast` in a process for which every file system is read-only, even for root.

    python read_only.py run --cluster-name blue

Every attempt to write, create, move or remove a file fails as on a read-only mount.
"""

import errno
import os
import sys
from typing import Any

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.symlink", "os.link")


def refuse(event: str, args: tuple[Any, ...]) -> None:
    if event in CHANGES or (event == "open" and _writes(args[0], args[2])):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(args[0]))


def _writes(path: object, flags: object) -> bool:
    if isinstance(path, int) or path == os.devnull:
        return False  # not a file on a file system
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


if __name__ == "__main__":
    sys.addaudithook(refuse)
    from holdfast.cli import main

    main(prog_name="holdfast")
