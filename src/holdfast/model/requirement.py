"""One requirement: the set of values that a label may have.

A requirement is a set, and all operations are set algebra. In is a set of values; NotIn the complement of one; Exists the
complement of the empty set; DoesNotExist the empty set; Gt, Lt, Gte and Lte the integers within inclusive bounds. An
intersection has one canonical form, so that equal sets are equal values.

As in Karpenter, an empty intersection equals DoesNotExist, and Exists (or bounds) with NotIn reports NotIn, which a node
without the label satisfies. Unlike in Karpenter, `any_value` is not random, and `expressions` is lossless.
"""

import enum
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from holdfast import errors, names

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
_SHOWN_VALUES_MAX: Final = 5
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}")
_NO_VALUES: Final[frozenset[str]] = frozenset()

ValueAliases = Mapping[str, Mapping[str, str]]
"""By label key, the other spellings of a value that a provider accepts, and the value."""


class Operator(enum.StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"
    GTE = "Gte"
    LTE = "Lte"


_OPERATORS: Final[Mapping[str, Operator]] = MappingProxyType({one.value: one for one in Operator})
NEGATIVE_OPERATORS: Final = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)


@dataclass(frozen=True, slots=True)
class Expression:
    """A requirement as in a manifest; several with the same key form one requirement."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    min_values: int | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """Build one with `of`; the planner reads the fields."""

    key: str
    complement: bool
    values: frozenset[str]  # the allowed values or, for a complement, the excluded ones
    lower: int | None = None  # inclusive; only a complement has bounds
    upper: int | None = None
    min_values: int | None = None

    @property
    def operator(self) -> Operator:
        """As Karpenter reports it: bounds alone are Exists, bounds with excluded values NotIn (S-37)."""
        if self.complement:
            return Operator.NOT_IN if self.values else Operator.EXISTS
        return Operator.IN if self.values else Operator.DOES_NOT_EXIST

    def has(self, value: str) -> bool:
        """Whether a label with this value satisfies the requirement."""
        if self.complement:
            return value not in self.values and within(value, self.lower, self.upper)
        return value in self.values

    def intersection(self, other: "Requirement") -> "Requirement":
        """The values that both allow; the greater of the two minValues (S-35)."""
        lower, upper = _tighter(self, other)
        min_values = _greater(self.min_values, other.min_values)
        if lower is not None and upper is not None and lower > upper:
            return Requirement(self.key, complement=False, values=_NO_VALUES, min_values=min_values)
        values = _combine(self, other)
        if values and (lower is not None or upper is not None):
            values = frozenset(value for value in values if within(value, lower, upper))
        if self.complement and other.complement:
            return Requirement(self.key, True, values, lower, upper, min_values)
        return Requirement(self.key, False, values, None, None, min_values)

    def intersects(self, other: "Requirement") -> bool:
        """Whether the intersection allows a value. Two complements intersect unless their bounds contradict, even if the
        excluded values are all integers within the bounds (S-36)."""
        lower = upper = None
        if not (self.lower is self.upper is other.lower is other.upper is None):
            lower, upper = _tighter(self, other)
            if lower is not None and upper is not None and lower > upper:
                return False
        if self.complement and other.complement:
            return True
        if lower is None and upper is None:
            if self.complement:
                return not other.values <= self.values
            if other.complement:
                return not self.values <= other.values
            return not self.values.isdisjoint(other.values)
        return any(within(value, lower, upper) for value in _combine(self, other))

    def any_value(self) -> str | None:
        """One allowed value, always the same; None if no value is allowed.

        Karpenter takes any member, or a random integer if the requirement has only exclusions or bounds. Here it is the
        first member in order, or the smallest allowed integer, negative only if there is no other (S-38).
        """
        if not self.complement:
            return min(self.values, default=None)
        free = (str(n) for n in self._integers() if str(n) not in self.values)
        return next(free, None)

    def _integers(self) -> Iterator[int]:
        """Integers within the bounds in order of preference, enough that one of them is not excluded."""
        enough = len(self.values) + 1
        first = 0 if self.lower is None else self.lower
        last = INTEGER_MAX if self.upper is None else self.upper
        yield from range(first, min(last, first + enough) + 1)
        if self.lower is None:  # all from 0 up are excluded: count down
            below = min(-1, last)
            yield from range(below, max(INTEGER_MIN, below - enough) - 1, -1)

    def expressions(self) -> tuple[Expression, ...]:
        """The form for manifests; `of` and `intersection` read it back unchanged (S-34).

        Bounds are written as Gte and Lte. Karpenter drops values that are excluded within the bounds; here they follow as
        NotIn.
        """
        bounds = ((Operator.GTE, self.lower), (Operator.LTE, self.upper))
        parts: list[tuple[Operator, tuple[str, ...]]] = [
            (operator, (str(bound),)) for operator, bound in bounds if bound is not None
        ]
        if self.values or not parts:
            parts.append((self.operator, tuple(sorted(self.values))))
        return tuple(Expression(self.key, op, values, self.min_values) for op, values in parts)

    def __str__(self) -> str:
        text = f"{self.key} {self.operator}"
        if self.values:
            shown = sorted(self.values)
            others = len(shown) - _SHOWN_VALUES_MAX
            more = f" and {others} others" if others > 0 else ""
            text += f" [{' '.join(shown[:_SHOWN_VALUES_MAX])}{more}]"
        text += "" if self.lower is None else f" >={self.lower}"
        text += "" if self.upper is None else f" <={self.upper}"
        return text + ("" if self.min_values is None else f" minValues {self.min_values}")


def operator(word: str) -> Operator:
    """The operator of that name."""
    found = _OPERATORS.get(word)
    if found is None:
        raise errors.InvalidInput(f"operator {word!r} is unknown; known are {', '.join(Operator)}")
    return found


def of(
    key: str,
    operator: Operator,
    values: Iterable[str] = (),
    min_values: int | None = None,
    value_aliases: ValueAliases | None = None,
) -> Requirement:
    """A requirement from its form in a manifest; resolves deprecated keys and the provider's aliases (S-39)."""
    key = names.LABEL_ALIASES.get(key, key)
    meanings = value_aliases.get(key) if value_aliases else None
    meant = frozenset(meanings.get(value, value) for value in values) if meanings else frozenset(values)
    match operator:
        case Operator.IN:
            return Requirement(key, False, meant, min_values=min_values)
        case Operator.NOT_IN:
            return Requirement(key, True, meant, min_values=min_values)
        case Operator.EXISTS:
            return Requirement(key, True, _NO_VALUES, min_values=min_values)
        case Operator.DOES_NOT_EXIST:
            return Requirement(key, False, _NO_VALUES, min_values=min_values)
    lower, upper = _bounds(key, operator, meant)
    if not (lower is None or lower <= INTEGER_MAX) or not (upper is None or upper >= INTEGER_MIN):
        return Requirement(key, False, _NO_VALUES)  # beyond every integer; Karpenter drops minValues too
    return Requirement(key, True, _NO_VALUES, lower, upper, min_values)


def within(value: str, lower: int | None, upper: int | None) -> bool:
    """Whether a label value is within the bounds; a value that is no integer is not (S-35)."""
    if lower is None and upper is None:
        return True
    number = integer(value)
    if number is None:
        return False
    return (lower is None or number >= lower) and (upper is None or number <= upper)


@functools.lru_cache(maxsize=8192)
def integer(value: str) -> int | None:
    """A label value as an integer, parsed as Go's Atoi does, or None."""
    if not _INTEGER.fullmatch(value):
        return None
    number = int(value)
    return number if INTEGER_MIN <= number <= INTEGER_MAX else None


def _bounds(key: str, operator: Operator, values: Collection[str]) -> tuple[int | None, int | None]:
    numbers = [integer(value) for value in values]
    if len(numbers) != 1 or numbers[0] is None:
        raise errors.InvalidInput(
            f"requirement on {key!r}: {operator} needs exactly one integer, not {sorted(values)}"
        )
    match operator:
        case Operator.GT:
            return numbers[0] + 1, None
        case Operator.LT:
            return None, numbers[0] - 1
        case Operator.GTE:
            return numbers[0], None
        case _:
            return None, numbers[0]


def _combine(a: Requirement, b: Requirement) -> frozenset[str]:
    """The value set of the intersection, before bounds."""
    if a.complement:
        return a.values | b.values if b.complement else b.values - a.values
    return a.values - b.values if b.complement else a.values & b.values


def _tighter(a: Requirement, b: Requirement) -> tuple[int | None, int | None]:
    upper = a.upper if b.upper is None else b.upper if a.upper is None else min(a.upper, b.upper)
    return _greater(a.lower, b.lower), upper


def _greater(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else max(a, b)
