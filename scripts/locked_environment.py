"""An environment in the user's cache folder that has what a lock file lists. It is made once for each lock.

Used by fetch_awscli and check_aws, for programs whose pins are in the way of the project's own environment.
"""

import hashlib
import shutil
import subprocess
import venv
from pathlib import Path

from holdfast.sim import programs


def folder(lock: Path) -> Path:
    """The folder with the programs, installed if they are not there."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    made = programs.cache().parent / f"{lock.stem}-{digest}"
    if not (made / "complete").exists():
        shutil.rmtree(made, ignore_errors=True)
        venv.create(made, with_pip=True)
        pip = [str(made / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "--requirement", str(lock)], check=True)  # noqa: S603 - our own pip
        (made / "complete").touch()
    return made / "bin"
