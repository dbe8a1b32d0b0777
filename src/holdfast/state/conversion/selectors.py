"""Converts label selectors to values.

Selectors with the same conditions are equal, in whatever order the conditions are written.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast import errors
from holdfast.api import meta
from holdfast.model.requirement import Expression, Operator
from holdfast.model.selectors import LabelSelector

_OPERATORS: Final = {
    operator.value: operator
    for operator in (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
}


def selector(
    wire: meta.LabelSelector | None,
    labels: Mapping[str, str] | None = None,
    same: Iterable[str] = (),
    different: Iterable[str] = (),
) -> LabelSelector | None:
    """The selector, with conditions for matchLabelKeys (`same`) and mismatchLabelKeys (`different`) of a pod with these
    labels (S-80). A key without a label on the pod is ignored. None stays None."""
    if wire is None:
        return None
    labels = labels or {}
    conditions = {Expression(key, Operator.IN, (value,)) for key, value in wire.match_labels.items()}
    conditions |= {_expression(condition) for condition in wire.match_expressions}
    conditions |= {Expression(key, Operator.IN, (labels[key],)) for key in same if key in labels}
    conditions |= {Expression(key, Operator.NOT_IN, (labels[key],)) for key in different if key in labels}
    return LabelSelector(tuple(sorted(conditions, key=lambda e: (e.key, e.operator, e.values))))


def _expression(wire: meta.LabelSelectorRequirement) -> Expression:
    operator = _OPERATORS.get(wire.operator)
    if operator is None:
        raise errors.InvalidInput(
            f"a label selector has the operator {wire.operator!r} on {wire.key}; known are {', '.join(_OPERATORS)}"
        )
    return Expression(wire.key, operator, tuple(sorted(set(wire.values))))
