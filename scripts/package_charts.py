"""Packages both charts with the version of git into `dist/`: `make charts`.

The image of a packaged chart has the tag that `make image` gives it. helm comes from a pinned wheel. Two runs of one
commit write equal bytes.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import fetch_kubectl
import git_version
import wheels
from releaselib import archives

ROOT: Final = git_version.ROOT
CHARTS: Final = (ROOT / "charts/holdfast-crd", ROOT / "charts/holdfast")


def main() -> int:
    try:
        package(ROOT / "dist", git_version.version())
    except (git_version.VersionError, wheels.WheelError) as error:
        print(f"make charts: {error}", file=sys.stderr)
        return 1
    return 0


def package(folder: Path, version: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    number, tag = git_version.semver(version), git_version.image_tag(version)
    time_s = int(git_version.git(ROOT, "log", "-1", "--format=%ct"))
    packages = []
    for chart in CHARTS:
        words = ["package", str(chart), "--version", number, "--app-version", tag, "--destination"]
        command = [str(fetch_kubectl.helm()), *words, str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own helm
        packages.append(folder / f"{chart.name}-{number}.tgz")
        archives.normalize(packages[-1], time_s)
        print(packages[-1], flush=True)
    return packages


if __name__ == "__main__":
    sys.exit(main())
