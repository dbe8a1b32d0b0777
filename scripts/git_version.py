"""The version of Holdfast, from the tags of git. `python scripts/git_version.py` prints it.

hatchling calls it when it builds a package (`tool.hatch.version` in pyproject.toml), and so do build_image,
package_charts and build_release, so that package, image and charts have one version. It imports only the standard
library, because a build environment has nothing else.

A commit with the tag vX.Y.Z has version X.Y.Z. A commit after it has X.Y.(Z+1).devN+gCOMMIT, with N commits since the
tag. HOLDFAST_VERSION replaces this where there is no repository: in the build of the image. `make setup` sets it to
UNKNOWN, because the version of an editable installation would be that of an old commit.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
VARIABLE: Final = "HOLDFAST_VERSION"
UNKNOWN: Final = "0.0.0.dev0"  # of a source tree; the charts in the repository have it too
_FIRST: Final = "0.1.0"  # the version that commits before the first tag lead to
_TAG: Final = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_DESCRIBED: Final = re.compile(r"(?P<tag>.+)-(?P<commits>\d+)-g(?P<commit>[0-9a-f]+)")
_PEP440: Final = re.compile(r"\d+\.\d+\.\d+(\.dev\d+(\+[a-z0-9.]+)?)?")


class VersionError(Exception):
    """git has no version, or one that is not valid."""


def version(root: Path = ROOT) -> str:
    """The version of the files in `root`, in the form of PEP 440."""
    given = os.environ.get(VARIABLE)
    if given:
        if not _PEP440.fullmatch(given):
            raise VersionError(f"{VARIABLE}={given}: not X.Y.Z, X.Y.Z.devN or X.Y.Z.devN+COMMIT")
        return given
    if not (root / ".git").exists():
        return UNKNOWN
    dirty = bool(git(root, "status", "--porcelain"))
    described = git(root, "describe", "--tags", "--long", "--abbrev=9", "--match=v[0-9]*", "--always")
    count = int(git(root, "rev-list", "--count", "HEAD"))
    return from_description(described, commits=count, dirty=dirty)


def from_description(described: str, *, commits: int, dirty: bool) -> str:
    """`described` is the output of `git describe --long --always`, `commits` the number of commits."""
    found = _DESCRIBED.fullmatch(described)
    if found is None:  # no tag yet: the output is only the id of the commit
        return _development(_FIRST, commits, described, dirty=dirty)
    tag = _TAG.fullmatch(found["tag"])
    if tag is None:
        raise VersionError(f"the tag {found['tag']} is not vX.Y.Z")
    major, minor, patch = (int(part) for part in tag.groups())
    since = int(found["commits"])
    if since == 0 and not dirty:
        return f"{major}.{minor}.{patch}"
    return _development(f"{major}.{minor}.{patch + 1}", since, found["commit"], dirty=dirty)


def is_release(version: str) -> bool:
    return re.fullmatch(r"\d+\.\d+\.\d+", version) is not None


def semver(version: str) -> str:
    """The version of the charts: Helm requires SemVer."""
    return re.sub(r"\.dev(\d+)", r"-dev.\1", version)


def image_tag(version: str) -> str:
    """A tag of an image cannot contain `+`."""
    return version.replace("+", "-")


def git(root: Path, *arguments: str) -> str:
    try:
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - git
    except FileNotFoundError:
        raise VersionError(f"git is not installed, and {VARIABLE} is not set") from None
    if done.returncode:
        raise VersionError(f"git {' '.join(arguments)}: {done.stderr.strip()} (or set {VARIABLE})")
    return done.stdout.strip()


def _development(base: str, commits: int, commit: str, *, dirty: bool) -> str:
    return f"{base}.dev{commits}+g{commit}{'.dirty' if dirty else ''}"


if __name__ == "__main__":
    print(version())
