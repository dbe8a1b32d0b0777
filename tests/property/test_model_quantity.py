"""Laws of quantities, against an oracle that knows only fractions."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model import quantity

UNITS = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
UNITS |= {suffix: Fraction(1000 ** (i + 1)) for i, suffix in enumerate("kMGTPE")}
UNITS |= {f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTP")}
UNITS |= {f"{e}{power}": Fraction(10) ** power for power in (-12, -3, 0, 2, 9) for e in "eE"}

digits = st.text("0123456789", min_size=1, max_size=9)
written = st.builds(
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


def oracle(sign: str, number: str, suffix: str) -> Fraction:
    """The amount in nano, rounded away from zero; small enough not to be capped."""
    exact = Fraction(number) * UNITS[suffix] * 10**9
    rounded = -(-exact.numerator // exact.denominator)
    return Fraction(-rounded if sign == "-" else rounded)


@given(written)
@settings(deadline=None)
def test_a_quantity_is_the_exact_number_that_was_written(example: tuple[str, str, str, str]) -> None:
    text, sign, number, suffix = example
    if oracle("", number, suffix) < quantity.MAX:
        assert quantity.parse(text).nano == oracle(sign, number, suffix)


@given(written)
@settings(deadline=None)
def test_the_canonical_form_reads_back_and_is_a_fixpoint(example: tuple[str, str, str, str]) -> None:
    read = quantity.parse(example[0])
    assert quantity.parse(str(read)) == read
    assert str(quantity.parse(str(read))) == str(read)


@given(written, written)
@settings(deadline=None)
def test_quantities_compare_as_their_numbers_do(
    a: tuple[str, str, str, str], b: tuple[str, str, str, str]
) -> None:
    left, right = quantity.parse(a[0]), quantity.parse(b[0])
    if max(oracle("", *a[2:]), oracle("", *b[2:])) < quantity.MAX:
        assert (left < right) == (oracle(*a[1:]) < oracle(*b[1:]))
        assert (left == right) == (oracle(*a[1:]) == oracle(*b[1:]))
        assert left != right or hash(left) == hash(right)


@given(written)
@settings(deadline=None)
def test_rounding_never_gives_less_than_was_asked_for(example: tuple[str, str, str, str]) -> None:
    read = quantity.parse(example[0])
    if 0 <= read.nano < quantity.MAX:
        assert 0 <= read.value() * 10**9 - read.nano < 10**9
        assert 0 <= read.millis() * 10**6 - read.nano < 10**6
