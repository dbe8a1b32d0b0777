"""Installs the image with the chart on two real kubelets: `make e2e-install`.

The control plane is real, and so are the nodes of the controller; AWS and the nodes that Holdfast launches are simulated.

1. Checks the charts with helm lint, kubeconform, helm-unittest and promtool.
2. Builds the images of this version and of a previous commit: by default the last release before HEAD, or HEAD~1 if
   there is none. PREVIOUS=commit selects another one, and PREVIOUS=none leaves it out.
3. Runs the commands of docs/install.md, from the installation to the uninstallation.
4. Installs the previous version with its charts, upgrades to this one, rolls back and uninstalls.

Needs root, Go and the Debian packages that it names. Prints how long each step takes. Exit code 3: something that it
needs is missing.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import build_peers
import check_charts
from install import images, installation, kubelets, upgrade, walkthrough
from install.installation import Version, timed

ROOT: Final = Path(__file__).resolve().parents[1]
THIS: Final = "this"
PREVIOUS: Final = "previous"
NONE: Final = "none"
_MISSING: Final = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--previous", default="", help="the commit to upgrade from, or none")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tags", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        asyncio.run(_inside(options.inside, options.tags, sorted(options.inside.glob("*.tar"))))
        return 0
    if os.geteuid() != 0:
        print("make e2e-install needs root: it starts kubelets in network namespaces", file=sys.stderr)
        return _MISSING
    if missing := kubelets.missing():
        print(f"make e2e-install needs: apt-get install {' '.join(missing)}", file=sys.stderr)
        return _MISSING
    previous = options.previous or _last_release() or _git("rev-parse", "--verify", "--quiet", "HEAD~1")
    if not previous:
        print("there is no commit before HEAD: PREVIOUS=none leaves the upgrade out", file=sys.stderr)
        return _MISSING
    with timed("peers"):
        if code := build_peers.main([*installation.PROGRAMS, "kubeconform", "helm-unittest"]):
            return code
    with timed("checks of the charts"):
        if code := check_charts.main():
            return code
    with tempfile.TemporaryDirectory(prefix="holdfast-install-") as name:
        tags = _build(Path(name), "" if previous == NONE else previous)
        with kubelets.namespaces():
            enter = ["nsenter", f"--net=/run/netns/{kubelets.NAMESPACE}", sys.executable, __file__]
            command = [*enter, "--inside", name, "--tags", *tags]
            return subprocess.run(command, check=False).returncode  # noqa: S603 - a command of our own


def _build(folder: Path, previous: str) -> list[str]:
    """Images and charts of the versions, in the folder."""
    with timed("base images"):
        images.build_bases()
        images.build_pause()
        images.export(images.PAUSE, folder)
    commits = {PREVIOUS: previous, THIS: ""} if previous else {THIS: ""}
    for tag, commit in commits.items():
        with timed(f"image of {_named(commit)}"), _checkout(commit) as root:
            images.export(images.build_holdfast(root, tag), folder)
            shutil.copytree(root / "charts", _version(folder, tag).charts)
    return list(commits)


async def _inside(folder: Path, tags: list[str], archives: list[Path]) -> None:
    """In the network namespace of the first node."""
    versions = [_version(folder, tag) for tag in tags]
    names = {walkthrough.image(): _version(folder, THIS).image}
    async with installation.running(folder, archives, names, walkthrough.NAMESPACE) as it:
        await walkthrough.run(it)
        await upgrade.run(it, versions[0], versions[-1])


def _version(folder: Path, tag: str) -> Version:
    return Version(tag, folder / f"charts-{tag}")


@contextlib.contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """A commit in a folder of its own, or the working tree."""
    if not commit:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-checkout-") as name:
        worktree = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*worktree, "add", "--detach", "--quiet", name, commit], check=True)  # noqa: S603 - as above
        try:
            yield Path(name)
        finally:
            subprocess.run([*worktree, "remove", "--force", name], check=True)  # noqa: S603 - as above


def _last_release() -> str:
    """The last tag of a release before HEAD, or nothing."""
    return _git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD~1")


def _named(commit: str) -> str:
    return f"{commit} ({_git('log', '-1', '--format=%h %s', commit)})" if commit else "the working tree"


def _git(*arguments: str) -> str:
    """The output, or nothing if the command fails."""
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return found.stdout.strip() if found.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
