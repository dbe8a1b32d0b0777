"""Properties of quantities, compared with exact fractions."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import quantity

UNITS = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
UNITS |= {suffix: Fraction(1000 ** (i + 1)) for i, suffix in enumerate("kMGTPE")}
UNITS |= {f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTP")}
UNITS |= {f"{e}{power}": Fraction(10) ** power for power in (-12, -3, 0, 2, 9) for e in "eE"}

digits = st.text("0123456789", min_size=1, max_size=9)
quantity_texts = st.builds(
    lambda sign, whole, fraction, suffix: (
        f"{sign}{whole}{fraction}{suffix}",
        sign,
        whole + fraction,
        suffix,
    ),
    st.sampled_from(["", "+", "-"]),
    digits,
    st.one_of(st.just(""), digits.map(lambda d: f".{d}")),
    st.sampled_from(sorted(UNITS)),
)


def exact_nano(sign: str, number: str, suffix: str) -> Fraction:
    """The amount in nano, rounded away from zero; small enough not to be capped."""
    exact = Fraction(number) * UNITS[suffix] * 10**9
    rounded = -(-exact.numerator // exact.denominator)
    return Fraction(-rounded if sign == "-" else rounded)


@given(quantity_texts)
def test_parsed_quantity_is_exact(example: tuple[str, str, str, str]) -> None:
    text, sign, number, suffix = example
    if exact_nano("", number, suffix) < quantity.MAX:
        assert quantity.parse(text).nano == exact_nano(sign, number, suffix)


@given(quantity_texts)
def test_canonical_form_round_trips(example: tuple[str, str, str, str]) -> None:
    parsed = quantity.parse(example[0])
    assert quantity.parse(str(parsed)) == parsed
    assert str(quantity.parse(str(parsed))) == str(parsed)


@given(quantity_texts, quantity_texts)
def test_quantities_compare_like_their_numbers(
    a: tuple[str, str, str, str], b: tuple[str, str, str, str]
) -> None:
    left, right = quantity.parse(a[0]), quantity.parse(b[0])
    if max(exact_nano("", *a[2:]), exact_nano("", *b[2:])) < quantity.MAX:
        assert (left < right) == (exact_nano(*a[1:]) < exact_nano(*b[1:]))
        assert (left == right) == (exact_nano(*a[1:]) == exact_nano(*b[1:]))
        assert left != right or hash(left) == hash(right)


@given(quantity_texts)
def test_quantities_are_rounded_up(example: tuple[str, str, str, str]) -> None:
    parsed = quantity.parse(example[0])
    if 0 <= parsed.nano < quantity.MAX:
        assert 0 <= parsed.value() * 10**9 - parsed.nano < 10**9
        assert 0 <= parsed.millis() * 10**6 - parsed.nano < 10**6


@given(quantity_texts)
def test_amounts_are_those_of_the_exact_quantity(example: tuple[str, str, str, str]) -> None:
    written = example[0]
    assert quantity.millis(written) == quantity.parse(written).millis()
    assert quantity.units(written) == quantity.parse(written).value()
