"""Label selectors of spread constraints, affinity terms and PodDisruptionBudgets, with the semantics of Kubernetes.

An empty selector matches everything; None matches nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.requirement import Expression, Operator


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All expressions must hold. `state` converts matchLabels to In expressions with one value."""

    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(_holds(expression, labels.get(expression.key)) for expression in self.expressions)


def _holds(expression: Expression, value: str | None) -> bool:
    """Whether an expression holds for a label value. NotIn holds for an object without the label."""
    match expression.operator:
        case Operator.IN:
            return value is not None and value in expression.values
        case Operator.NOT_IN:
            return value is None or value not in expression.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
    raise AssertionError(f"a label selector has no operator {expression.operator}")
