"""Builds the container image from the Dockerfile: `make image`.

It uses buildah, podman or docker, the first that is installed. Version and revision are those of git, and all times are
that of the commit, so that two builds of a commit give the same layers (with docker: where BuildKit supports it).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_BUILDERS: Final = ("buildah", "podman", "docker")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", help="image with Python 3.13 and pip (default: see the Dockerfile)")
    parser.add_argument(
        "--run-base", help="image with Python 3.13, such as a distroless one (default: the base)"
    )
    parser.add_argument("--tag", help="name of the image (default: holdfast:VERSION)")
    parser.add_argument("--builder", choices=_BUILDERS, help="default: the first that is installed")
    parser.add_argument("flags", nargs="*", help="more flags of the builder, after --")
    options = parser.parse_args()
    builder = options.builder or next(filter(shutil.which, _BUILDERS), None)
    if builder is None:
        print(f"make image needs one of {', '.join(_BUILDERS)}, and none is installed", file=sys.stderr)
        return 3
    name = options.tag or f"holdfast:{version().replace('+', '-')}"
    arguments = {"VERSION": version(), "REVISION": _git("rev-parse", "HEAD"), "SOURCE_DATE_EPOCH": _time()}
    arguments |= {"BASE": options.base} if options.base else {}
    arguments |= {"RUN_BASE": options.run_base} if options.run_base else {}
    command = [*_command(builder), *options.flags]
    for key, value in arguments.items():
        command += ["--build-arg", f"{key}={value}"]
    subprocess.run(  # noqa: S603 - a command of our own
        [*command, "--tag", name, "--file", "Dockerfile", "."],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": _time()},
        check=True,
    )
    print(name)
    return 0


def version() -> str:
    """The version of the project. A commit without the tag of that version has its id appended."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    number = str(project["version"])
    dirty = ".dirty" if _git("status", "--porcelain") else ""
    if f"v{number}" in _git("tag", "--points-at", "HEAD").split() and not dirty:
        return number
    return f"{number}+{_git('rev-parse', '--short=9', 'HEAD')}{dirty}"


def _command(builder: str) -> Sequence[str]:
    if builder == "docker":
        return "docker", "build", "--provenance=false"
    build = ("buildah", "build") if builder == "buildah" else ("podman", "build")
    return *build, "--format", "oci", "--layers=false", "--timestamp", _time()


def _time() -> str:
    return _git("log", "-1", "--format=%ct")


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603, S607
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
