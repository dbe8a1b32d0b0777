"""The page that says how true the simulated EC2 is names tests that are there, and says of every row how it is known."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def rows() -> list[list[str]]:
    lines = (ROOT / "docs/fidelity-ec2.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in cells if row[0] not in {"behaviour", "---"}]


def test_every_test_the_page_names_is_there() -> None:
    files = (ROOT / "tests/unit").glob("test_sim_ec2_*.py")
    defined = {
        name for path in files for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }
    named = {name for row in rows() for name in re.findall(r"`(test_\w+)`", row[2])}
    assert len(named) > 50
    assert named - defined == set()


def test_every_row_is_sure_or_guessed_and_what_is_sure_has_a_source_and_a_test() -> None:
    for behaviour, source, test, known in rows():
        assert known in {"sure", "guessed"}, behaviour
        if known == "sure":
            assert source != "-", behaviour
            assert test != "-", behaviour
