"""Builds the wheels for Linux into `dist/`: `make wheel`. `build_release` builds the wheels and the sdist with it.

One compiler, zig, compiles the kernel for every processor, so the wheels do not depend on the computer that builds
them. It is installed into a separate folder, because it takes 400 MiB.
"""

import os
import subprocess
import venv
from pathlib import Path
from typing import Final

import git_version

ROOT: Final = git_version.ROOT
MACHINES: Final = ("x86_64", "aarch64")
_TOOLS: Final = ROOT / ".cache/wheel-tools"


def main() -> None:
    build(ROOT / "dist")
    for wheel in sorted((ROOT / "dist").glob("*.whl")):
        print(f"{wheel.relative_to(ROOT)}  {wheel.stat().st_size / 1024:,.0f} KiB")


def build(folder: Path) -> None:
    """One wheel for each processor. Its times are that of the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    python = tools()
    for machine in MACHINES:
        compiler = f"{python} -m ziglang cc -target {machine}-linux-gnu"
        environment = {**_environment(), "CC": compiler, "HOLDFAST_MACHINE": machine}
        target = ["--wheel-dir", str(folder), str(ROOT)]
        _run([*_pip(python), "wheel", "--no-deps", "--no-build-isolation", *target], environment)


def build_sdist(folder: Path) -> None:
    """The source of the package, without tests and documentation."""
    _run([str(tools()), "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], _environment())


def tools() -> Path:
    """A Python with the locked zig and hatchling."""
    python = _TOOLS / "bin/python"
    if not python.exists():
        venv.create(_TOOLS, with_pip=True)
    _run([*_pip(python), "install", "--require-hashes", "-r", str(ROOT / "requirements/wheel.txt")])
    return python


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]


def _environment() -> dict[str, str]:
    if not (ROOT / ".git").exists():
        return dict(os.environ)
    return {**os.environ, "SOURCE_DATE_EPOCH": git_version.git(ROOT, "log", "-1", "--format=%ct")}


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=ROOT, env=environment, check=True)  # noqa: S603 - a command of our own


if __name__ == "__main__":
    main()
