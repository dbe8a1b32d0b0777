"""Requirements in short: `In a,b ^2` is the operator, its values and minValues. The tables of the tests use this notation."""

from holdfast.model import requirement
from holdfast.model.requirement import Operator, Requirement


def read(text: str, key: str = "k") -> Requirement:
    """One requirement; several joined by "; " are intersected."""
    first, *others = [_read_one(part, key) for part in text.split("; ")]
    for other in others:
        first = first.intersection(other)
    return first


def _read_one(text: str, key: str) -> Requirement:
    body, _, min_values = text.partition(" ^")
    operator, space, values = body.partition(" ")
    split = values.split(",") if space else []
    return requirement.of(key, Operator(operator), split, int(min_values) if min_values else None)
