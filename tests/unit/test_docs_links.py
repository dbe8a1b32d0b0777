"""Links between the pages lead to files and headings that exist, and docs/README.md lists every page once."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/adr/*.md", "examples/*.md", "charts/*/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "parity.md"  # its links are generated
)
CODE = re.compile(r"```.*?```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    return [link for link in LINK.findall(text) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert broken_links(page) == []


def test_link_to_a_missing_file_or_heading_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# What it may do\n", encoding="utf-8")
    page = tmp_path / "page.md"
    good, bad = "[a](other.md#what-it-may-do) [b](#top)", "[c](gone.md) [d](other.md#gone)"
    page.write_text(f"# Top\n{good} {bad}\n```\n[e](in-code.md)\n```\n", encoding="utf-8")
    assert broken_links(page) == ["gone.md", "other.md#gone"]


def test_index_lists_every_page_once() -> None:
    index = ROOT / "docs/README.md"
    listed = Counter((index.parent / link).resolve() for link in links(index))
    assert [path for path, times in listed.items() if times > 1] == []
    assert {path for path in (ROOT / "docs").glob("*.md") if path != index} - listed.keys() == set()
