"""Expressions, selectors and tolerations, each evaluated for one label value at a time.

There is no set algebra: a label has a value or none (None), and an expression holds for it or does not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from holdfast import names
from holdfast.api import aws

Value: TypeAlias = str | None
Taint: TypeAlias = Mapping[str, Any]

NODE_NAME: Final = "field metadata.name"  # the key of matchFields; no label has such a key
ABSENT: Final = frozenset[Value]({None})
# Keys that only the instance type, the offering or the NodePool sets on a node.
WELL_KNOWN: Final = names.WELL_KNOWN_LABELS | {aws.ZONE_ID, *aws.SELECTABLE_LABELS}


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement or match expression; `values` of Gt and Lt have one member."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


# A conjunction of expressions.
Term: TypeAlias = tuple[Expression, ...]
# A label selector, read: None selects nothing, no expressions select everything.
Selector: TypeAlias = Term | None


def expression(wire: Mapping[str, Any]) -> Expression:
    values = tuple(str(value) for value in wire.get("values") or ())
    return Expression(name(wire["key"]), wire["operator"], values, wire.get("minValues"))


def name(key: str) -> str:
    """The current spelling of the key."""
    return names.LABEL_ALIASES.get(key, key)


def expressions(wire: Iterable[Mapping[str, Any]] | None) -> Term:
    return tuple(expression(one) for one in wire or ())


def equals(labels: Mapping[str, Any] | None) -> Term:
    """A nodeSelector or matchLabels: each label must have just this value."""
    return tuple(Expression(name(key), "In", (str(value),)) for key, value in sorted((labels or {}).items()))


def holds(wanted: Expression, value: Value) -> bool:
    """Whether a label with this value (None: without the label) satisfies the expression."""
    match wanted.operator:
        case "In":
            return value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return _compares(wanted, value)


def _compares(wanted: Expression, value: Value) -> bool:
    if value is None or not value.lstrip("-").isdigit():
        return False
    number, bound = int(value), int(wanted.values[0])
    comparisons = {"Gt": number > bound, "Lt": number < bound, "Gte": number >= bound, "Lte": number <= bound}
    return comparisons[wanted.operator]


def selector(wire: Mapping[str, Any] | None) -> Selector:
    if wire is None:
        return None
    return equals(wire.get("matchLabels")) + expressions(wire.get("matchExpressions"))


def selects(wanted: Selector, labels: Mapping[str, str]) -> bool:
    return wanted is not None and all(holds(one, labels.get(one.key)) for one in wanted)


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    key, anything = toleration.get("key"), toleration.get("operator", "Equal") == "Exists"
    if not key:
        return bool(anything)
    same_value = (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(key == taint["key"] and (anything or same_value))


def untolerated(
    tolerations: Iterable[Mapping[str, Any]], taints: Iterable[Taint], *, preferences: bool = False
) -> list[str]:
    """The taints that the pod does not tolerate; PreferNoSchedule only counts with `preferences`."""
    listed = list(tolerations)
    return [
        f"{taint['key']}:{taint['effect']}"
        for taint in taints
        if (preferences or taint["effect"] != "PreferNoSchedule") and not tolerates(listed, taint)
    ]
