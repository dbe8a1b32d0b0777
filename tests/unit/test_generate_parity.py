"""`generate_parity.py` joins facts, tests and reasons, and its check fails on each way they can disagree."""

from pathlib import Path

import pytest

import generate_parity
from parity_tool import project

SHOWS_C1 = '@pytest.mark.fact("C-1")\ndef test_one(): ...\n'
MISSES_C1 = 'finished = ["core 7"]\n[missing]\n"C-1" = "there is no NodeOverlay"\n'
SHOWS_Q1 = '@pytest.mark.fact("Q-1")\ndef test_one(): ...\n'


def generated(root: Path) -> str:
    assert generate_parity.main([], root) == 0
    return (root / "docs/parity.md").read_text(encoding="utf-8")


def complaints(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the check says of a page that was generated just now, if it could be."""
    generate_parity.main([], root)
    capsys.readouterr()
    code = generate_parity.main(["--check"], root)
    lines = capsys.readouterr().err.splitlines()
    assert code == (1 if lines else 0)
    return lines


def test_a_fact_is_shown_or_unchecked(tmp_path: Path) -> None:
    page = generated(project.write(tmp_path, tests=SHOWS_C1))
    assert "| C-1 | The first sentence. | `tests/unit/test_it.py::test_one` |" in page
    assert "| aws-1.1.1 | Exactly one of `role` and `instanceProfile`. | *unchecked* |" in page
    assert "| Karpenter's core: 7. CRDs | 1 | 1 | 0 | 0 | 0 |" in page
    assert "| **all** | 3 | 1 | 0 | 0 | 2 |" in page


def test_a_fact_that_differs_shows_why_and_its_tests_too(tmp_path: Path) -> None:
    toml = 'finished = []\n[different]\n"C-1" = "we do *more*"\n'
    page = generated(project.write(tmp_path, toml=toml, tests=SHOWS_C1))
    assert r"*different: we do \*more\**<br>`tests/unit/test_it.py::test_one`" in page
    assert "| Karpenter's core: 7. CRDs | 1 | 0 | 1 | 0 | 0 |" in page


def test_a_missing_behaviour_shows_what_is_missing(tmp_path: Path) -> None:
    page = generated(project.write(tmp_path, toml=MISSES_C1, tests=SHOWS_C1))
    assert "*missing: there is no NodeOverlay*<br>`tests/unit/test_it.py::test_one`" in page
    assert "| Karpenter's core: 7. CRDs | 1 | 0 | 0 | 1 | 0 |" in page


def test_a_different_fact_needs_a_test_even_in_an_unfinished_area(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = 'finished = []\n[different]\n"C-1" = "we do more"\n'
    [line] = complaints(project.write(tmp_path, toml=toml), capsys)
    assert line.startswith("docs/spec/karpenter-core.md:3: C-1 is different, and no test shows what")
    assert complaints(project.write(tmp_path, toml=toml, tests=SHOWS_C1), capsys) == []


def test_a_missing_fact_needs_no_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert complaints(project.write(tmp_path, toml=MISSES_C1), capsys) == []


def test_a_requirement_is_partly_shown_until_all_its_areas_are_finished(tmp_path: Path) -> None:
    page = generated(project.write(tmp_path, toml='finished = ["seeds H"]\n', tests=SHOWS_Q1))
    assert "`tests/unit/test_it.py::test_one`<br>*partly; to come: EC2 door*" in page
    page = generated(project.write(tmp_path, toml='finished = ["seeds H", "seeds E"]\n', tests=SHOWS_Q1))
    assert "partly" not in page


def test_a_requirement_of_a_finished_area_without_a_test_is_unchecked(tmp_path: Path) -> None:
    page = generated(project.write(tmp_path, toml='finished = ["seeds H"]\n'))
    assert "| Q-1 | terms are ORed | *unchecked* |" in page


def test_a_page_that_is_as_generated_passes_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaints(project.write(tmp_path, tests=SHOWS_C1), capsys) == []


@pytest.mark.parametrize("damage", ["missing", "stale"])
def test_a_stale_page_fails_the_check_and_names_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    root = project.write(tmp_path)
    if damage == "stale":
        generated(root)
        project.write(tmp_path, tests=SHOWS_C1)
    assert generate_parity.main(["--check"], root) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("run: make generate")


def test_an_unknown_id_fails_the_check_and_the_generation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project.write(tmp_path, tests='@pytest.mark.fact("C-99")\ndef test_one(): ...\n')
    assert complaints(root, capsys) == ["tests/unit/test_it.py:1: no fact of docs/spec has the id C-99"]
    assert generate_parity.main([], root) == 1


@pytest.mark.parametrize("area", ["core 7", "core 7.1", "C-1", "C-1..C-9"])
def test_a_finished_fact_needs_a_test_or_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], area: str
) -> None:
    toml = f'finished = ["{area}"]\n'
    [line] = complaints(project.write(tmp_path, toml=toml), capsys)
    assert line.startswith("docs/spec/karpenter-core.md:3: C-1 is of a finished area")
    assert complaints(project.write(tmp_path, toml=toml, tests=SHOWS_C1), capsys) == []
    reason = f'{toml}[missing]\n"C-1" = "there is no NodeOverlay"\n'
    assert complaints(project.write(tmp_path, toml=reason), capsys) == []


def test_a_partly_finished_requirement_needs_a_test_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [line] = complaints(project.write(tmp_path, toml='finished = ["seeds E"]\n'), capsys)
    assert "Q-1 is of a finished area" in line


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ('finished = ["core 70"]', "the finished area 'core 70' holds no fact"),
        ('finished = ["aws 1.10"]', "the finished area 'aws 1.10' holds no fact"),
        ('finished = ["everything"]', "the finished area 'everything' holds no fact"),
        ("finished = []\nother = 1", "unknown key other; it has finished, [different] and [missing]"),
        ("", "finished must be a list of areas"),
        ("finished = [7]", "finished must be a list of areas"),
        ('finished = []\n[different]\n"C-99" = "no"', "no fact of docs/spec has the id C-99"),
        (
            'finished = []\n[different]\n"C-1" = " "',
            "C-1 is different without a reason; say why in one sentence",
        ),
        ('finished = []\n[missing]\n"C-1" = ""', "C-1 is missing without a reason; say why in one sentence"),
        (
            'finished = []\n[different]\n"C-1" = "a"\n[missing]\n"C-1" = "b"',
            "C-1 is both different and missing; choose one",
        ),
    ],
)
def test_a_wrong_parity_toml_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], toml: str, complaint: str
) -> None:
    assert complaints(project.write(tmp_path, toml=toml), capsys) == [f"docs/parity.toml: {complaint}"]
