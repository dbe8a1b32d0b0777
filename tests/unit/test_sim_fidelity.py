"""The pages that say how true the simulated AWS is name tests that are there, and say of every row how it is known."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"docs/fidelity-ec2.md": 50, "docs/fidelity-aws.md": 15}  # and how many tests each names at least


def rows(page: str) -> list[list[str]]:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    table = lines[lines.index("| behaviour | source | test | known |") :]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("| ")]
    return [row for row in cells if row[0] not in {"behaviour", "---"}]


@pytest.mark.parametrize("page", PAGES)
def test_every_test_the_page_names_is_there(page: str) -> None:
    defined = {
        name
        for path in (ROOT / "tests").glob("*/test_sim_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }
    named = {name for row in rows(page) for name in re.findall(r"`(test_\w+)`", row[2])}
    assert len(named) > PAGES[page]
    assert named - defined == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_row_is_sure_or_guessed_and_what_is_sure_has_a_source_and_a_test(page: str) -> None:
    for behaviour, source, test, known in rows(page):
        assert known in {"sure", "guessed"}, behaviour
        if known == "sure":
            assert source != "-", behaviour
            assert test != "-", behaviour
