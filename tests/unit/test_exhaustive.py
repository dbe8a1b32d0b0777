"""What `make test` leaves to `make test-all`."""

import ast
from pathlib import Path

import pytest

from exhaustive import KEPT, left_to_test_all

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", KEPT)
def test_every_test_of_the_table_exists(name: str) -> None:
    path, _, function = name.partition("::")
    if not function:
        assert (ROOT / path).is_file()
        return
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_sampled_cases_are_spread_evenly_and_include_the_first() -> None:
    assert [case for case in range(10) if case not in set(left_to_test_all(range(10), 2))] == [0, 5]
    assert list(left_to_test_all(range(3), 0)) == [0, 1, 2]
    assert list(left_to_test_all(range(2), 5)) == []
