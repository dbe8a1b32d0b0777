"""Which labels requirements may use, and which labels a new NodeClaim gets.

`well_known` is always an argument: `names.WELL_KNOWN_LABELS` and the labels of the cloud, which this module must not
import.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from holdfast import names
from holdfast.model.requirement import Expression, Operator
from holdfast.model.requirements import Requirements

# The planner adds these labels to every template, so that DaemonSets that select on them are counted.
SIMULATION_ONLY: Final = frozenset({names.REGISTERED, names.INITIALIZED})


def why_restricted(key: str, well_known: AbstractSet[str]) -> str | None:
    """Why a requirement must not use this label, or None if it may (S-45)."""
    domain = key.partition("/")[0] if "/" in key else ""
    group = names.KARPENTER_GROUP
    if key in well_known:
        return None
    if domain == group or domain.endswith(f".{group}"):
        return (
            f"label {key} is in the restricted domain {group}; use a well-known label or a domain of your own"
        )
    if key == names.HOSTNAME:
        return f"label {key} is restricted: the node does not exist yet, so its name is not known"
    return None


def unknown_capacity_types(expression: Expression) -> tuple[str, ...]:
    """Values that are no capacity type. Next to known values they only cause a log line (S-46)."""
    if expression.key != names.CAPACITY_TYPE or expression.operator is not Operator.IN:
        return ()
    return tuple(value for value in expression.values if value not in names.CAPACITY_TYPES)


def why_no_capacity_type(expression: Expression) -> str | None:
    """Why an In requirement on the capacity type cannot be met, or None (S-46)."""
    unknown = unknown_capacity_types(expression)
    known = len(expression.values) - len(unknown)
    if not unknown or known >= (expression.min_values or 1):
        return None
    return (
        f"{names.CAPACITY_TYPE} has {known} known values and needs {expression.min_values or 1}: "
        f"{', '.join(unknown)} is unknown; known are {', '.join(names.CAPACITY_TYPES)}"
    )


def custom_labels(requirements: Requirements, well_known: AbstractSet[str]) -> dict[str, str]:
    """The labels that a new NodeClaim gets for requirements on custom labels (S-49).

    Each gets its smallest allowed value; Karpenter takes an arbitrary one. The cloud sets well-known labels once the
    instance is launched.
    """
    skipped = well_known | SIMULATION_ONLY | {names.HOSTNAME}
    chosen = {r.key: r.any_value() for r in requirements if r.key not in skipped}
    return {key: value for key, value in chosen.items() if value}
