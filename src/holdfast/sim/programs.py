"""Where the real programs are that a sandbox can run: etcd, kube-apiserver and the like.

What KUBEBUILDER_ASSETS has goes first, then PATH, then what `make peers` built last.
"""

import os
import shutil
from pathlib import Path

from holdfast import errors


def find(name: str) -> Path:
    """The program; InvalidInput says what to do when it is not there."""
    found = given(name) or _in(cache() / "current", name)
    if found is None:
        raise errors.InvalidInput(
            f"{name} is neither in KUBEBUILDER_ASSETS nor on PATH, and `make peers` has not built it"
        )
    return found


def given(name: str) -> Path | None:
    """What the environment brings, so that nothing has to be built."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    found = shutil.which(name, path=assets) if assets else None
    found = found or shutil.which(name)
    return Path(found) if found else None


def cache() -> Path:
    """Where built programs are kept; `current` in it has those that were built or looked for last."""
    written = os.environ.get("HOLDFAST_PEERS")
    return Path(written) if written else Path.home() / ".cache/holdfast/peers"


def _in(folder: Path, name: str) -> Path | None:
    found = shutil.which(name, path=str(folder))
    return Path(found) if found else None
