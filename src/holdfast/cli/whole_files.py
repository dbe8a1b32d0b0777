"""Writes a whole file or nothing: a reader never sees a part of it. Called by `snapshot` and `report`."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

_READABLE: Final = 0o666  # less what the umask of the process takes away


def write(target: Path, text: str, *, replace: bool, is_private: bool) -> None:
    """`replace`: a file that exists is replaced; otherwise it is an error. `is_private`: only the owner can read it."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        if not is_private:
            temporary.chmod(_READABLE & ~_umask())
        if replace:
            temporary.replace(target)
        else:
            target.hardlink_to(temporary)  # fails if the file exists by now
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _umask() -> int:
    """It can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
