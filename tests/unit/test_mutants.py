"""`make mutants`: the mutations that it makes, and the file of known survivors."""

from pathlib import Path

import pytest

import mutants
from mutantlib import survivors
from mutantlib.mutations import mutations

HEAD = "def f(a, b, c):\n    "


def mutated_bodies(body: str) -> list[str]:
    """The body of a function after each mutation."""
    source = f"{HEAD}{body}\n"
    return [one.apply(source).removeprefix(HEAD).rstrip("\n") for one in mutations(source)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < b", ["return None", "return a <= b", "return a >= b"]),
        ("return a is not None", ["return None", "return a is None"]),
        ("return a not in b", ["return None", "return a in b"]),
        ("return not a", ["return None", "return a"]),
        ("return a - 1", ["return None", "return a", "return a + 1", "return a - 2"]),
        ("return min(a, b)", ["return None", "return max(a, b)"]),
        ("return a and b", ["return True and b", "return None", "return a or b", "return a and True"]),
        ("return (a) == (b)", ["return None", "return (a) != (b)"]),
        ("a += 2", ["pass", "a += 3"]),
        ("a.append(b)", ["pass"]),
        ("x = b if a else c", ["x = b if True else c", "x = b if False else c"]),
        ("x = [y for y in b if y]", ["x = [y for y in b if True]", "x = [y for y in b if False]"]),
        (
            "return 'é' if a else b",
            ["return None", "return 'é' if True else b", "return 'é' if False else b"],
        ),
    ],
)
def test_a_function_body_has_the_expected_mutations(body: str, expected: list[str]) -> None:
    assert sorted(mutated_bodies(body)) == sorted(expected)


@pytest.mark.parametrize(
    "body",
    [
        "assert a == 1",
        "raise ValueError(1)",
        "self._log.info(a)",
        "x = f'{a + 1}'",
        '"""1 < 2"""',
        "assert_never(a)",
    ],
)
def test_texts_assertions_and_log_lines_are_not_mutated(body: str) -> None:
    assert mutated_bodies(body) == []


def test_returning_false_is_mutated_once() -> None:
    assert mutated_bodies("return False") == ["return True"]


def test_module_constants_annotations_and_enums_are_not_mutated() -> None:
    source = "LIMIT: Final = 5\n@dataclass(frozen=True)\nclass A(enum.Enum):\n    X = 1\nclass B:\n    y: Literal[1]\n"
    assert mutations(source) == []


def test_every_known_survivor_is_a_mutation_of_the_current_code() -> None:
    listed = survivors.read(mutants.ROOT)
    everything = mutants.all_mutants(mutants.ROOT, sorted({known.module for known in listed}))
    for known in listed:
        assert any(known.is_about(one.module, one.mutation) for one in everything), known


def test_a_survivor_without_a_reason_is_refused(tmp_path: Path) -> None:
    file = tmp_path / survivors.FILE
    file.parent.mkdir(parents=True)
    file.write_text(
        '[[survivor]]\nmodule = "m.py"\nline = "x"\nchange = "y"\nreason = " "\n', encoding="utf-8"
    )
    with pytest.raises(ValueError, match="has no reason"):
        survivors.read(tmp_path)
