"""Compiles the placement kernel when a wheel is built or Holdfast is installed for development.

Without a C compiler the wheel is a pure Python one, and plans are made by the plain kernel. `make wheel` sets
HOLDFAST_MACHINE, such as aarch64, where $CC compiles for another processor.
"""

import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

import build_kernel

_PACKAGE: Final = "holdfast/core/scheduling/kernel"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        command = build_kernel.compiler()
        if command is None:
            self.app.display_warning(build_kernel.NO_COMPILER)
            return
        folder = Path(self.root, "src", _PACKAGE)
        if version == "editable":
            build_kernel.build(folder / build_kernel.LIBRARY, command, folder=folder)
            return
        library = Path(self.directory, build_kernel.LIBRARY)
        library.parent.mkdir(parents=True, exist_ok=True)
        build_kernel.build(library, command, folder=folder)
        build_data["force_include"][str(library)] = f"{_PACKAGE}/{build_kernel.LIBRARY}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        Path(self.directory, build_kernel.LIBRARY).unlink(missing_ok=True)


def _platform() -> str:
    """The library needs neither Python nor a C library, so one wheel serves every Linux on a processor."""
    if sys.platform != "linux":
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    machine = os.environ.get("HOLDFAST_MACHINE") or platform.machine()
    return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
