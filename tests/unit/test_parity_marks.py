"""Markers are found wherever pytest finds them, without importing a test; a marker that would be lost is an error."""

from pathlib import Path

import pytest

import paritylib
from parity_tool import project
from paritylib import marks

FILE = "tests/unit/test_it.py"


def scan(root: Path, tests: str) -> list[tuple[str, str]]:
    found = marks.scan(project.write(root, tests=tests))
    return [(mark.fact_id, mark.test) for mark in found]


def test_a_marker_on_a_test_gives_all_its_ids(tmp_path: Path) -> None:
    tests = """\
        @pytest.mark.fact("Q-1", "C-1")
        async def test_one(): ...
        """
    assert scan(tmp_path, tests) == [("Q-1", f"{FILE}::test_one"), ("C-1", f"{FILE}::test_one")]


def test_markers_on_classes_and_on_their_tests_are_found(tmp_path: Path) -> None:
    tests = """\
        @pytest.mark.fact("Q-1")
        class TestIt:
            pytestmark = pytest.mark.fact("aws-1.1.1")

            @pytest.mark.fact("C-1")
            def test_one(self): ...
        """
    assert set(scan(tmp_path, tests)) == {
        ("Q-1", f"{FILE}::TestIt"),
        ("aws-1.1.1", f"{FILE}::TestIt"),
        ("C-1", f"{FILE}::TestIt::test_one"),
    }


def test_a_module_s_pytestmark_is_found(tmp_path: Path) -> None:
    tests = 'pytestmark: Any = [pytest.mark.slow, pytest.mark.fact("Q-1")]\n'
    assert scan(tmp_path, tests) == [("Q-1", FILE)]


def test_markers_of_parameters_belong_to_the_test_that_uses_them(tmp_path: Path) -> None:
    tests = """\
        CASES = [pytest.param(1, marks=pytest.mark.fact("Q-1"))]

        @pytest.mark.parametrize("x", CASES)
        @pytest.mark.parametrize("y", [pytest.param(2, marks=[pytest.mark.fact("C-1")])])
        def test_one(x, y): ...
        """
    assert scan(tmp_path, tests) == [("Q-1", f"{FILE}::test_one"), ("C-1", f"{FILE}::test_one")]


@pytest.mark.parametrize(
    ("tests", "complaint"),
    [
        ("@pytest.mark.fact(ID)\ndef test_one(): ...\n", "literal"),
        ('@pytest.mark.fact(f"Q-{n}")\ndef test_one(): ...\n', "literal"),
        ("@pytest.mark.fact()\ndef test_one(): ...\n", "one or more"),
        ('@pytest.mark.fact("Q-1", why="x")\ndef test_one(): ...\n', "nothing else"),
        ('@pytest.mark.fact("Q-1")\ndef helper(): ...\n', "on no test"),
        ("fact = pytest.mark.fact\n", "on no test"),
        ('UNUSED = [pytest.param(1, marks=pytest.mark.fact("Q-1"))]\n', "on no test"),
    ],
)
def test_a_marker_that_would_be_lost_is_an_error_that_names_its_line(
    tmp_path: Path, tests: str, complaint: str
) -> None:
    with pytest.raises(paritylib.ParityError, match=f"^{FILE}:1: .*{complaint}"):
        scan(tmp_path, tests)


def test_a_test_module_is_not_imported(tmp_path: Path) -> None:
    assert scan(tmp_path, "raise RuntimeError\n") == []
