"""Quantities are parsed as Kubernetes parses them; Kubernetes' own code made the table of expected values."""

import json
import pathlib

import pytest

from holdfast import errors
from holdfast.model import quantity

TABLE = json.loads((pathlib.Path(__file__).parent / "data" / "quantities.json").read_text())["rows"]
# Go reads these as 0 although its own grammar requires a digit; Holdfast refuses them.
DIGITLESS = {"+", "-", ".", "-.", "m", "Ki", "e3"}


def test_quantities_that_kubernetes_accepts_have_the_same_value() -> None:
    rows = [row for row in TABLE if row[1] is not None and row[0] not in DIGITLESS]
    assert len(rows) > 400
    for written, canonical, value, millis, form in rows:
        read = quantity.parse(written)
        assert (str(read), read.format.value) == (canonical, form), written
        assert value is None or read.value() == value, written
        assert millis is None or read.millis() == millis, written


def test_quantities_that_kubernetes_refuses_are_refused() -> None:
    rows = [row[0] for row in TABLE if row[1] is None]
    assert len(rows) > 40
    for written in [*rows, *sorted(DIGITLESS)]:
        with pytest.raises(errors.InvalidInput):
            quantity.parse(written)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "does not start with a number"),
        ("1KB", "unknown suffix 'KB'"),
        ("1K", "unknown suffix 'K'"),
        ("NaN", "does not start with a number"),
        ("\u0663", "does not start with a number"),
        ("1e100", "unknown suffix 'e100'"),
        ("9" * 101, "longer than 100 characters"),
        (True, "is a boolean"),
        (float("inf"), "does not start with a number"),
    ],
)
def test_error_for_an_invalid_quantity_names_the_cause(written: str | float, complaint: str) -> None:
    with pytest.raises(errors.InvalidInput, match=complaint):
        quantity.parse(written)


def test_error_for_an_invalid_quantity_lists_the_accepted_suffixes() -> None:
    with pytest.raises(
        errors.InvalidInput, match=r"n u m k M G T P E Ki Mi Gi Ti Pi Ei, or with an exponent"
    ):
        quantity.parse("1KB")


def test_integers_and_floats_are_accepted() -> None:
    assert quantity.parse(2) == quantity.parse("2")
    assert quantity.parse(1.1) == quantity.parse("1100m")
    assert quantity.parse(1e-7) == quantity.parse("100n")
    assert quantity.parse(1e22) == quantity.parse("10e21")


def test_fractions_of_a_nano_are_rounded_away_from_zero() -> None:
    assert quantity.parse("0.1n").nano == 1
    assert quantity.parse("-0.1n").nano == -1
    assert quantity.parse("1e-99").nano == 1


def test_binary_quantities_are_capped_and_decimal_ones_are_not() -> None:
    assert quantity.parse("9Ei") == quantity.parse(str(quantity.MAX))
    assert str(quantity.parse("1000E")) == "1000E"
    assert quantity.parse("1000E").value() == quantity.parse("1000E").millis() == quantity.MAX
    assert quantity.parse("-1000E").value() == -quantity.MAX


def test_equal_amounts_in_different_notations_are_equal() -> None:
    same = {quantity.parse(text) for text in ("1Gi", "1024Mi", "1073741824", "1073741824e0")}
    assert len(same) == 1


def test_cpu_and_memory_are_converted_to_integers() -> None:
    assert quantity.millis("1.5") == 1500
    assert quantity.millis("100u") == 1
    assert quantity.units("1.5Gi") == 3 * 2**29
    assert quantity.units("100m") == 1
