"""`generate_parity.py` joins facts, tests and reasons, and its check fails if they disagree."""

from pathlib import Path

import pytest

import generate_parity
from parity_tool import project

SHOWS_C1 = '@pytest.mark.fact("C-1")\ndef test_one(): ...\n'


def generated(root: Path) -> str:
    assert generate_parity.main([], root) == 0
    return (root / "docs/parity.md").read_text(encoding="utf-8")


def complaints(root: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that the check prints after the page is generated, if it can be generated."""
    generate_parity.main([], root)
    capsys.readouterr()
    code = generate_parity.main(["--check"], root)
    lines = capsys.readouterr().err.splitlines()
    assert code == (1 if lines else 0)
    return lines


def test_page_lists_the_test_of_a_fact(tmp_path: Path) -> None:
    page = generated(project.write(tmp_path, tests=SHOWS_C1))
    assert "| C-1 | The first sentence. | `tests/unit/test_it.py::test_one` |" in page
    assert "| Karpenter's core: 7. CRDs | 1 | 1 | 0 | 0 |" in page
    assert "| **all** | 4 | 1 | 0 | 3 |" in page


def test_page_lists_reason_and_test_of_a_different_fact(tmp_path: Path) -> None:
    page = generated(project.write(tmp_path, toml=project.toml(different="we do *more*"), tests=SHOWS_C1))
    assert r"*different: we do \*more\**<br>`tests/unit/test_it.py::test_one`" in page
    assert "| Karpenter's core: 7. CRDs | 1 | 0 | 1 | 0 |" in page


def test_page_lists_reason_and_test_of_a_missing_fact(tmp_path: Path) -> None:
    page = generated(project.write(tmp_path, toml=project.toml(missing="no NodeOverlay"), tests=SHOWS_C1))
    assert "*missing: no NodeOverlay*<br>`tests/unit/test_it.py::test_one`" in page
    assert "| Karpenter's core: 7. CRDs | 1 | 0 | 0 | 1 |" in page


def test_generated_page_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert complaints(project.write(tmp_path, tests=SHOWS_C1), capsys) == []


@pytest.mark.parametrize("damage", ["missing", "stale"])
def test_missing_or_stale_page_fails_the_check_with_the_command_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    root = project.write(tmp_path, tests=SHOWS_C1)
    if damage == "stale":
        generated(root)
        project.write(tmp_path, toml=project.toml(different="we do more"), tests=SHOWS_C1)
    assert generate_parity.main(["--check"], root) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("run: make generate")


def test_an_unknown_id_fails_the_check_and_the_generation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project.write(tmp_path, tests='@pytest.mark.fact("C-99")\ndef test_one(): ...\n')
    assert complaints(root, capsys) == ["tests/unit/test_it.py:1: no fact of docs/spec has the id C-99"]
    assert generate_parity.main([], root) == 1


def test_a_fact_needs_a_test_or_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [line] = complaints(project.write(tmp_path), capsys)
    assert line.startswith("docs/spec/karpenter-core.md:3: C-1 has no test")
    assert complaints(project.write(tmp_path, tests=SHOWS_C1), capsys) == []
    assert complaints(project.write(tmp_path, toml=project.toml(missing="it is not there")), capsys) == []


def test_a_different_fact_needs_a_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml = project.toml(different="we do more")
    [line] = complaints(project.write(tmp_path, toml=toml), capsys)
    assert line.startswith("docs/spec/karpenter-core.md:3: C-1 is different, and no test shows what")
    assert complaints(project.write(tmp_path, toml=toml, tests=SHOWS_C1), capsys) == []


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("finished = []", "unknown key finished; it has [different] and [missing]"),
        ('[different]\n"C-99" = "no"', "no fact of docs/spec has the id C-99"),
        ('[different]\n"C-1" = " "', "C-1 is different without a reason; say why in one sentence"),
        ('[missing]\n"C-1" = ""', "C-1 is missing without a reason; say why in one sentence"),
        (
            '[different]\n"C-1" = "a"\n[missing]\n"C-1" = "b"',
            "C-1 is both different and missing; choose one",
        ),
    ],
)
def test_a_wrong_parity_toml_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], toml: str, complaint: str
) -> None:
    assert complaints(project.write(tmp_path, toml=toml), capsys) == [f"docs/parity.toml: {complaint}"]
