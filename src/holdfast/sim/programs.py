"""Finds the real programs that a sandbox can run: etcd, kube-apiserver and others.

The order is KUBEBUILDER_ASSETS, PATH, then the last build of `make peers`.
"""

import os
import shutil
from pathlib import Path

from holdfast import errors


def find(name: str) -> Path:
    """The path of the program; raises InvalidInput if it is missing."""
    found = given(name) or _in(cache() / "current", name)
    if found is None:
        raise errors.InvalidInput(
            f"{name} is neither in KUBEBUILDER_ASSETS nor on PATH, and `make peers` has not built it"
        )
    return found


def given(name: str) -> Path | None:
    """The program in KUBEBUILDER_ASSETS or PATH, which need not be built."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    found = shutil.which(name, path=assets) if assets else None
    found = found or shutil.which(name)
    return Path(found) if found else None


def cache() -> Path:
    """The folder of built programs; its `current` has links to the last used ones."""
    written = os.environ.get("HOLDFAST_PEERS")
    return Path(written) if written else Path.home() / ".cache/holdfast/peers"


def _in(folder: Path, name: str) -> Path | None:
    found = shutil.which(name, path=str(folder))
    return Path(found) if found else None
