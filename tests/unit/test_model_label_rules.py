"""Which labels users may set, and which are restricted."""

import pytest

from holdfast import names
from holdfast.model import label_rules, requirement, requirements
from holdfast.model.requirement import Expression, Operator

WELL_KNOWN = names.WELL_KNOWN_LABELS | {"example.com/family"}


@pytest.mark.fact("S-45")
@pytest.mark.parametrize("key", ["karpenter.sh/registered", "sub.karpenter.sh/x", "kubernetes.io/hostname"])
def test_labels_of_karpenter_and_the_hostname_are_restricted(key: str) -> None:
    assert key in str(label_rules.why_restricted(key, WELL_KNOWN))


@pytest.mark.fact("S-45")
@pytest.mark.parametrize(
    "key", [names.CAPACITY_TYPE, names.NODEPOOL, names.ZONE, "team", "notkarpenter.sh/x", "example.com/team"]
)
def test_well_known_and_custom_labels_are_not_restricted(key: str) -> None:
    assert label_rules.why_restricted(key, WELL_KNOWN) is None


def capacity_types(*values: str, min_values: int | None = None) -> Expression:
    return Expression(names.CAPACITY_TYPE, Operator.IN, values, min_values)


@pytest.mark.fact("S-46")
def test_capacity_types_that_are_all_unknown_are_an_error() -> None:
    reason = label_rules.why_no_capacity_type(capacity_types("free", "gratis"))
    assert reason is not None
    assert "free, gratis is unknown; known are reserved, spot, on-demand" in reason


@pytest.mark.fact("S-46")
def test_unknown_capacity_types_beside_known_ones_are_no_error() -> None:
    mixed = capacity_types("spot", "free")
    assert label_rules.why_no_capacity_type(mixed) is None
    assert label_rules.unknown_capacity_types(mixed) == ("free",)
    assert label_rules.why_no_capacity_type(capacity_types(*names.CAPACITY_TYPES)) is None


@pytest.mark.fact("S-46")
def test_min_values_counts_only_known_capacity_types() -> None:
    assert label_rules.why_no_capacity_type(capacity_types("spot", "free", min_values=2)) is not None
    assert label_rules.why_no_capacity_type(capacity_types("spot", "reserved", min_values=2)) is None


def test_other_labels_and_operators_are_not_checked() -> None:
    assert label_rules.unknown_capacity_types(Expression("team", Operator.IN, ("free",))) == ()
    excluded = Expression(names.CAPACITY_TYPE, Operator.NOT_IN, ("free",))
    assert label_rules.why_no_capacity_type(excluded) is None


@pytest.mark.fact("S-49")
def test_only_custom_labels_get_a_value() -> None:
    wanted = requirements.of(
        requirement.of("team", Operator.IN, ["b", "a"]),
        requirement.of("rack", Operator.EXISTS),
        requirement.of("gone", Operator.DOES_NOT_EXIST),
        requirement.of(names.ZONE, Operator.IN, ["z"]),
        requirement.of(names.HOSTNAME, Operator.IN, ["h"]),
        requirement.of(names.REGISTERED, Operator.IN, ["true"]),
    )
    assert label_rules.custom_labels(wanted, WELL_KNOWN) == {"rack": "0", "team": "a"}
