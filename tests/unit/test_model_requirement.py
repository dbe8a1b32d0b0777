"""The algebra of one requirement, checked against a table that Karpenter's code generated."""

import json
import pathlib

import pytest

from holdfast import errors, names
from holdfast.model import requirement
from holdfast.model.requirement import Expression, Operator, Requirement
from requirement_text import read

TABLE = json.loads((pathlib.Path(__file__).parent / "data" / "requirements.json").read_text())


def show(r: Requirement) -> str:
    bounds = ("" if r.lower is None else f">={r.lower}") + ("" if r.upper is None else f"<={r.upper}")
    least = "" if r.min_values is None else f"^{r.min_values}"
    return f"{r.operator}|{','.join(sorted(r.values))}|{bounds}{least}"


@pytest.mark.fact("S-32", "S-33", "S-35", "S-36", "S-37")
def test_every_intersection_matches_karpenters_table() -> None:
    assert len(TABLE["pairs"]) == 2200
    for left, right, want, bits, intersects in TABLE["pairs"]:
        a, b = read(left), read(right)
        both = a.intersection(b)
        has = sum(both.has(value) << i for i, value in enumerate(TABLE["probes"]))
        assert (show(both), has, a.intersects(b)) == (want, bits, intersects), (left, right)


@pytest.mark.fact("S-33")
def test_greater_and_less_become_inclusive_bounds() -> None:
    assert (read("Gt 2").lower, read("Lt 2").upper) == (3, 1)
    assert (read("Gte 2").lower, read("Lte 2").upper) == (2, 2)
    assert read(f"Gt {requirement.INTEGER_MAX}").operator is Operator.DOES_NOT_EXIST
    assert read(f"Lt {requirement.INTEGER_MIN}").operator is Operator.DOES_NOT_EXIST


@pytest.mark.parametrize("values", [[], ["1", "2"], ["two"], ["1.5"], ["9" * 25], ["\u0663"]])
def test_a_bound_that_is_not_one_integer_is_refused(values: list[str]) -> None:
    with pytest.raises(errors.InvalidInput, match="needs exactly one integer"):
        requirement.of("k", Operator.GT, values)


@pytest.mark.fact("S-34", "X-7")
@pytest.mark.parametrize(
    ("written", "output"),
    [
        ("In b,a", [("In", ["a", "b"])]),
        ("NotIn b,a", [("NotIn", ["a", "b"])]),
        ("Exists", [("Exists", [])]),
        ("DoesNotExist", [("DoesNotExist", [])]),
        ("Gt 2", [("Gte", ["3"])]),
        ("Gt 2; Lt 9", [("Gte", ["3"]), ("Lte", ["8"])]),
    ],
)
def test_expressions_have_karpenters_output_form(written: str, output: list[tuple[str, list[str]]]) -> None:
    got = [(e.operator.value, list(e.values)) for e in read(written).expressions()]
    assert got == output


def test_expressions_include_values_excluded_within_bounds() -> None:
    got = read("Gt 2; NotIn 5,x ^2").expressions()
    assert got == (
        Expression("k", Operator.GTE, ("3",), 2),
        Expression("k", Operator.NOT_IN, ("5",), 2),
    )


@pytest.mark.fact("S-38")
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("In b,a", "a"),
        ("Exists", "0"),
        ("NotIn 0,1,3", "2"),
        ("Gt 6", "7"),
        ("Lt 9", "0"),
        ("Lt -3", "-4"),
        ("Lte 0; NotIn 0", "-1"),
        ("Lte 1; NotIn 0,1,-1", "-2"),
        ("Gte 3; Lte 4; NotIn 3", "4"),
        ("Gte 3; Lte 4; NotIn 3,4", None),
        ("DoesNotExist", None),
    ],
)
def test_any_value_is_always_the_smallest(written: str, value: str | None) -> None:
    """Karpenter chooses a random value here; Holdfast differs on purpose (S-38)."""
    assert read(written).any_value() == value


@pytest.mark.fact("S-39")
@pytest.mark.parametrize(("alias", "key"), sorted(names.LABEL_ALIASES.items()))
def test_deprecated_labels_mean_the_stable_ones(alias: str, key: str) -> None:
    assert read("In a", alias) == read("In a", key)


@pytest.mark.fact("S-39")
def test_label_values_can_have_aliases() -> None:
    aliases = {names.ZONE: {"": "0"}}
    beta_zone = "failure-domain.beta.kubernetes.io/zone"
    assert requirement.of(beta_zone, Operator.IN, ["", "1"], None, aliases).values == {"0", "1"}
    assert requirement.of("k", Operator.IN, [""], None, aliases).values == {""}


def test_a_requirement_has_a_readable_text() -> None:
    assert str(read("In f,e,d,c,b,a ^2")) == "k In [a b c d e and 1 others] minValues 2"
    assert str(read("Gt 2; Lt 9; NotIn 5")) == "k NotIn [5] >=3 <=8"
    assert str(read("Exists")) == "k Exists"
