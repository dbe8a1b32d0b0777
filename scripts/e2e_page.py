"""Tests the page in a real browser: `make e2e-page`. It installs nothing.

Needs Chromium on PATH (the packages `chromium` and `fonts-liberation` of Debian), and the package index for axe-core the
first time. What is missing is reported by name and makes the command fail with exit code 3, so that tests that did not
run are not mistaken for tests that passed. HOLDFAST_PAGE=http://127.0.0.1:8080/ also runs the tests that hold for every
cluster against a running Holdfast. Screenshots are written to .cache/page.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fetch_axe
import wheels

ROOT = Path(__file__).resolve().parents[1]
NOT_RUN = 3


def main() -> int:
    missing = []
    if shutil.which("chromium") is None:
        missing.append("chromium is not on PATH; on Debian: apt-get install chromium fonts-liberation")
    try:
        fetch_axe.wheel()
    except wheels.WheelError as error:
        missing.append(f"axe-core: {error}")
    for one in missing:
        print(f"page: NOT RUN: {one}", flush=True)
    if missing:
        return NOT_RUN
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "python_files=e2e_*.py"]
    done = subprocess.run(  # noqa: S603 - our own tests
        [*command, *(sys.argv[1:] or ["tests/page"])], cwd=ROOT, env=os.environ, check=False
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
