"""Builds the container image from the Dockerfile: `make image`.

It uses buildah, podman or docker, the first that is installed. Version and revision are those of git, and all times are
that of the commit, so that two builds of a commit give the same layers (with docker: where BuildKit supports it).
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import git_version

ROOT: Final = git_version.ROOT
_BUILDERS: Final = ("buildah", "podman", "docker")


class NoBuilderError(Exception):
    """No program that builds images is installed."""


def main() -> int:
    options = parser().parse_args()
    try:
        build(options)
    except NoBuilderError as error:
        print(f"make image: {error}", file=sys.stderr)
        return 3
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", help="image with Python 3.13 and pip (default: see the Dockerfile)")
    parser.add_argument(
        "--run-base", help="image with Python 3.13, such as a distroless one (default: the base)"
    )
    parser.add_argument("--repository", default="holdfast", help="name of the image without its tag")
    parser.add_argument("--tag", help="name of the image (default: REPOSITORY:VERSION)")
    parser.add_argument("--builder", choices=_BUILDERS, help="default: the first that is installed")
    parser.add_argument("--archive", type=Path, help="also write the image into this file, as an OCI archive")
    parser.add_argument("flags", nargs="*", help="more flags of the builder, after --")
    return parser


def build(options: argparse.Namespace) -> str:
    """Returns the name of the image; raises NoBuilderError."""
    builder = options.builder or find_builder()
    version = git_version.version()
    name = options.tag or f"{options.repository}:{git_version.image_tag(version)}"
    arguments = {"VERSION": version, "REVISION": _git("rev-parse", "HEAD"), "SOURCE_DATE_EPOCH": _time()}
    arguments |= {"BASE": options.base} if options.base else {}
    arguments |= {"RUN_BASE": options.run_base} if options.run_base else {}
    command = [*_command(builder), *options.flags]
    for key, value in arguments.items():
        command += ["--build-arg", f"{key}={value}"]
    _run([*command, "--tag", name, "--file", "Dockerfile", "."])
    if options.archive:
        options.archive.unlink(missing_ok=True)
        _run(_archive_command(builder, name, options.archive))
    print(name, flush=True)
    return name


def find_builder() -> str:
    found = next(filter(shutil.which, _BUILDERS), None)
    if found is None:
        raise NoBuilderError(f"an image needs one of {', '.join(_BUILDERS)}, and none is installed")
    return found


def _archive_command(builder: str, name: str, archive: Path) -> Sequence[str]:
    if builder == "buildah":
        return "buildah", "push", "--quiet", name, f"oci-archive:{archive}:{name}"
    if builder == "podman":
        return "podman", "save", "--quiet", "--format", "oci-archive", "--output", str(archive), name
    return "docker", "save", "--output", str(archive), name  # docker 25 and newer write an OCI archive


def _run(command: Sequence[str]) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _time()}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)  # noqa: S603 - a command of our own


def _command(builder: str) -> Sequence[str]:
    if builder == "docker":
        return "docker", "build", "--provenance=false"
    build = ("buildah", "build") if builder == "buildah" else ("podman", "build")
    return *build, "--format", "oci", "--layers=false", "--timestamp", _time()


def _time() -> str:
    return _git("log", "-1", "--format=%ct")


def _git(*arguments: str) -> str:
    return git_version.git(ROOT, *arguments)


if __name__ == "__main__":
    sys.exit(main())
