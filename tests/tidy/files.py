"""Rules for files that are not code: no paths of one computer, and complete lock files.

Called by `test_tidy`. A clone must build in any folder and from any package index.
"""

import re
import tomllib
from typing import Final

# Home and work folders; paths below /tmp or /usr exist on every computer. Built from parts, so that this file does not
# match itself.
_LOCAL_PATH: Final = re.compile(r"(?<![\w.~*}])/(?:(?:work|root)/|(?:home|Users)/\w)")
_NAME: Final = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)", re.MULTILINE)


def machine_paths(source: str, path: str) -> list[str]:
    return [
        f"{path}:{number}: a path of one machine ({match[0]}…); make it relative"
        for number, line in enumerate(source.splitlines(), start=1)
        if (match := _LOCAL_PATH.search(line))
    ]


def addresses(lock: str, path: str) -> list[str]:
    """A lock file with an address can only be installed from there."""
    return [
        f"{path}:{number}: a download address in a lock; hashes are enough"
        for number, line in enumerate(lock.splitlines(), start=1)
        if "://" in line
    ]


def unlocked(wanted: list[str], lock: str, path: str) -> list[str]:
    """Requirements that have no pin in the lock file."""
    pinned = {_normal(line.partition("==")[0]) for line in lock.splitlines() if "==" in line}
    return [
        f"{path}: no pin for {name}; run: make lock" for name in map(_normal, wanted) if name not in pinned
    ]


def dependencies(pyproject: str) -> list[str]:
    return _names("\n".join(tomllib.loads(pyproject)["project"]["dependencies"]))


def entries(requirements_in: str) -> list[str]:
    return _names(requirements_in)


def _names(requirements: str) -> list[str]:
    return [match["name"] for match in _NAME.finditer(requirements)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
