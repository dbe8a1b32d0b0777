"""Installs the image with the chart on two real kubelets: `make e2e-install`.

The control plane is real, and so are the nodes of the controller; AWS and the nodes that Holdfast launches are simulated.
Builds the image, installs with Helm, provisions pods, kills the leader, upgrades, rolls back and uninstalls, and checks
after each step that no instance has changed. Needs root and the Debian packages that it names. Prints how long each step
takes. Exit code 3: something that it needs is missing.
"""

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import build_peers
from install import images, installation, kubelets

ROOT: Final = Path(__file__).resolve().parents[1]
_MISSING: Final = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--previous", default="", help="a commit: its image is installed first, then upgraded"
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tags", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return asyncio.run(installation.run(options.inside, options.tags))
    if os.geteuid() != 0:
        print("make e2e-install needs root: it starts kubelets in network namespaces", file=sys.stderr)
        return _MISSING
    if missing := kubelets.missing():
        print(f"make e2e-install needs: apt-get install {' '.join(missing)}", file=sys.stderr)
        return _MISSING
    with tempfile.TemporaryDirectory(prefix="holdfast-install-") as name:
        folder = Path(name)
        with installation.timed("peers"):
            if code := build_peers.main(list(installation.PROGRAMS)):
                return code
        with installation.timed("base images"):
            images.build_bases()
            images.build_pause()
        tags = ["previous", "this"] if options.previous else ["this"]
        for tag in tags:
            with (
                installation.timed(f"image of {'HEAD' if tag == 'this' else options.previous}"),
                _checkout(tag, options.previous) as root,
            ):
                images.export(images.build_holdfast(root, tag), folder)
        images.export(images.PAUSE, folder)
        with kubelets.namespaces():
            enter = ["nsenter", f"--net=/run/netns/{kubelets.NAMESPACE}", sys.executable, __file__]
            command = [*enter, "--inside", str(folder), "--tags", *tags]
            return subprocess.run(command, check=False).returncode  # noqa: S603 - a command of our own


@contextlib.contextmanager
def _checkout(tag: str, commit: str) -> Iterator[Path]:
    """The working tree, or another commit in a folder of its own."""
    if tag == "this":
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-checkout-") as name:
        worktree = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*worktree, "add", "--detach", "--quiet", name, commit], check=True)  # noqa: S603 - as above
        try:
            yield Path(name)
        finally:
            subprocess.run([*worktree, "remove", "--force", name], check=True)  # noqa: S603 - as above


if __name__ == "__main__":
    sys.exit(main())
