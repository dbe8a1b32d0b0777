"""The fidelity pages name existing tests, and every row states how its behaviour is known.

`make check` runs this file too.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"docs/fidelity-ec2.md": 50, "docs/fidelity-aws.md": 15}  # page: it names more tests than this


INDEX = "docs/fidelity.md"


def defined(*globs: str) -> set[str]:
    """The names of all tests in these files."""
    return {
        name
        for glob in globs
        for path in (ROOT / "tests").glob(glob)
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }


def rows(page: str) -> list[list[str]]:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    table = lines[lines.index("| behaviour | source | test | known |") :]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("| ")]
    return [row for row in cells if row[0] not in {"behaviour", "---"}]


@pytest.mark.parametrize("page", PAGES)
def test_every_test_named_on_the_page_exists(page: str) -> None:
    named = {name for row in rows(page) for name in re.findall(r"`(test_\w+)`", row[2])}
    assert len(named) > PAGES[page]
    assert named - defined("*/test_sim_*.py") == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_row_is_sure_or_guessed_and_a_sure_row_has_a_source_and_a_test(page: str) -> None:
    for behaviour, source, test, known in rows(page):
        assert known in {"sure", "guessed"}, behaviour
        if known == "sure":
            assert source != "-", behaviour
            assert test != "-", behaviour


def test_the_index_names_existing_tests_and_one_in_each_row_of_its_tables() -> None:
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 12
    assert named - defined("*/test_*.py", "*/e2e_*.py") == set()
    found = text[text.index("## Embedded and real server") :]
    table = [line for line in found.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    without = [line for line in table if not re.search(r"`test_\w+`", line)]
    assert len(without) == 2, without  # the header rows of the two tables


def test_the_index_names_existing_files_and_links_every_fidelity_page() -> None:
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    for pattern in re.findall(r"`(tests/[^`]+)`", text):
        assert list(ROOT.glob(pattern)), pattern
    linked = set(re.findall(r"\]\(([\w.-]+\.md)\)", text))
    assert {path.name for path in (ROOT / "docs").glob("fidelity-*.md")} <= linked
    assert all((ROOT / "docs" / name).is_file() for name in linked)
