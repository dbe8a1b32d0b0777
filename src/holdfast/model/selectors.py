"""Label selectors: which pods a spread constraint, an affinity term or a disruption budget is about.

Called by the planner and by disruption. The rule: Kubernetes' own semantics. A selector without conditions
matches everything; no selector at all (None where one is expected) matches nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.requirement import Expression, Operator


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All conditions must hold. `state` turns matchLabels into In expressions of one value."""

    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(_holds(expression, labels.get(expression.key)) for expression in self.expressions)


def _holds(expression: Expression, value: str | None) -> bool:
    """NotIn holds for an object without the label, unlike what a requirement on a node's value says."""
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
