"""axe-core, the accessibility checker of the page's tests: taken out of a pinned wheel, stored in the user's cache folder.

`python scripts/fetch_axe.py` prints where it is. Nothing is installed; a browser runs the file in the page.
"""

import os
import sys
import zipfile
from pathlib import Path
from typing import Final

import wheels
from wheels import Pin

PIN: Final = Pin(  # axe-core 4.12.1
    "axe-playwright-python",
    "0.1.8",
    "fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8",
)
_MEMBER: Final = "axe_playwright_python/axe.min.js"


def wheel() -> Path:
    """The path of the wheel. Fetches it if it is not in the cache; raises wheels.WheelError."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return wheels.fetch(Path(base) / "holdfast" / f"axe-{PIN.version}", PIN)


def source() -> str:
    """The JavaScript of axe-core."""
    with zipfile.ZipFile(wheel()) as archive:
        return archive.read(_MEMBER).decode()


if __name__ == "__main__":
    try:
        print(wheel())
    except wheels.WheelError as problem:
        sys.exit(str(problem))
