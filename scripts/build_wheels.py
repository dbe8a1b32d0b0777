"""Builds the wheels for Linux into `dist/`: `make wheel`.

One compiler, zig, compiles the kernel for every processor, so the wheels do not depend on the computer that builds
them. It is installed into a separate folder, because it takes 400 MiB.
"""

import os
import subprocess
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_TOOLS: Final = ROOT / ".cache/wheel-tools"
_MACHINES: Final = ("x86_64", "aarch64")


def main() -> None:
    tools = _TOOLS / "bin/python"
    if not tools.exists():
        venv.create(_TOOLS, with_pip=True)
    pip = [str(tools), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "install", "--require-hashes", "-r", str(ROOT / "requirements/wheel.txt")])
    for machine in _MACHINES:
        compiler = f"{tools} -m ziglang cc -target {machine}-linux-gnu"
        environment = {**os.environ, "CC": compiler, "HOLDFAST_MACHINE": machine}
        target = ["--wheel-dir", str(ROOT / "dist"), str(ROOT)]
        _run([*pip, "wheel", "--no-deps", "--no-build-isolation", *target], environment)
    for wheel in sorted((ROOT / "dist").glob("*.whl")):
        print(f"{wheel.relative_to(ROOT)}  {wheel.stat().st_size / 1024:,.0f} KiB")


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, env=environment, check=True)  # noqa: S603 - a command of our own


if __name__ == "__main__":
    main()
