"""Every path in the documentation of the code exists, so a file that was moved is found here."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "architecture.md",
    "karpenter-code.md",
    "nodeclaim-lifecycle.md",
    "disruption.md",
    "planner.md",
    "install.md",
)
# `a/b.py`, `a/b` or `a/`; packages of Karpenter begin with pkg/ or dots.
PATH = re.compile(r"`((?!pkg/|\.)[a-z_0-9-]+(?:/[a-z_0-9.-]+)+/?)`")
NOT_OURS = {"state/informer", "nodeclaim/hydration"}


def known_paths() -> list[str]:
    folders = [
        path
        for folder in ("src", "tests", "scripts", "docs", "deploy", "charts")
        for path in (ROOT / folder).rglob("*")
    ]
    return [f"/{path.relative_to(ROOT)}" for path in folders]


@pytest.mark.parametrize("page", PAGES)
def test_every_path_of_a_page_exists(page: str) -> None:
    named = set(PATH.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))) - NOT_OURS
    known = known_paths()
    missing = [
        path for path in sorted(named) if not any(one.endswith(f"/{path.rstrip('/')}") for one in known)
    ]
    assert not missing
    assert page not in PAGES[:2] or len(named) > 20
