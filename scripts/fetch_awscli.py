"""Installs a real AWS CLI for `make e2e` into the user's cache folder, from its own lock file.

Called by tests/peers/e2e_aws_cli.py; `python scripts/fetch_awscli.py` prints its path. Each version of the lock file is
installed once.
"""

import hashlib
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Final

from holdfast.sim import programs

LOCK: Final = Path(__file__).resolve().parents[1] / "requirements/awscli.txt"


def aws() -> Path:
    """The path of the program. Installs it if necessary."""
    folder = programs.cache().parent / f"awscli-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    program = folder / "bin/aws"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "--requirement", str(LOCK)], check=True)  # noqa: S603 - our own pip
        (folder / "complete").touch()
    return program


if __name__ == "__main__":
    print(aws())
