"""The wheel contains the compiled kernel; without a C compiler it is a wheel for every platform, with the plain one."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from kernels import needs_compiler

LIBRARY = "holdfast/core/scheduling/kernel/kernel.so"
LOADED = """
import holdfast
from holdfast.core.scheduling.kernel import compiled
print(holdfast.__file__)
print(compiled.why_plain())
"""


def build(folder: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run(  # noqa: S603 - ourselves
        [*command, "--wheel-dir", str(folder), "."], env={**os.environ, **environment}, check=True
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def loaded(wheel: Path, folder: Path) -> list[str]:
    """Where the package of the wheel is, and why its kernel is plain."""
    zipfile.ZipFile(wheel).extractall(folder)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-c", LOADED],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@needs_compiler
def test_a_wheel_contains_the_compiled_kernel(tmp_path: Path) -> None:
    wheel = build(tmp_path / "wheels")
    assert "py3-none-manylinux_2_17_" in wheel.name
    assert ".musllinux_1_1_" in wheel.name
    assert loaded(wheel, tmp_path / "there") == [str(tmp_path / "there/holdfast/__init__.py"), ""]


def test_without_a_compiler_a_wheel_is_for_every_platform(tmp_path: Path) -> None:
    wheel = build(tmp_path / "wheels", PATH=str(tmp_path), CC="", HOLDFAST_VERSION="1.2.3")
    assert wheel.name.startswith("holdfast-1.2.3-")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert LIBRARY not in zipfile.ZipFile(wheel).namelist()
    path, reason = loaded(wheel, tmp_path / "there")
    assert path == str(tmp_path / "there/holdfast/__init__.py")
    assert reason.startswith("the compiled kernel cannot be loaded: ")
