"""SHA256SUMS: the checksums of all files of a release, in the format of `sha256sum`."""

import hashlib
from pathlib import Path
from typing import Final

FILE: Final = "SHA256SUMS"


def write(folder: Path) -> Path:
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if path.is_file()]
    target = folder / FILE
    target.write_text("".join(lines), encoding="ascii")
    return target


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
