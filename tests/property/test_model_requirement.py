"""Properties of requirements and their intersections, for any requirements and any label values."""

from functools import reduce

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model import requirement, requirements
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import Requirements

values = st.one_of(
    st.sampled_from(["a", "b", "m5", "", "05", "+1", "-2"]),
    st.integers(-3, 9).map(str),
)
min_values = st.none() | st.integers(1, 5)
ZONE, TEAM = "zone", "team"


def manifest_requirement(key: str) -> st.SearchStrategy[Requirement]:
    return st.one_of(
        st.builds(
            requirement.of,
            st.just(key),
            st.sampled_from([Operator.IN, Operator.NOT_IN]),
            st.frozensets(values, max_size=5),
            min_values,
        ),
        st.builds(
            requirement.of,
            st.just(key),
            st.sampled_from([Operator.GT, Operator.LT, Operator.GTE, Operator.LTE]),
            st.integers(-3, 9).map(lambda n: [str(n)]),
            min_values,
        ),
        st.builds(
            requirement.of,
            st.just(key),
            st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]),
            st.just(()),
            min_values,
        ),
    )


def any_requirement(key: str = "k") -> st.SearchStrategy[Requirement]:
    """A requirement as a manifest writes it, or an intersection of several."""
    return st.lists(manifest_requirement(key), min_size=1, max_size=3).map(
        lambda rs: reduce(Requirement.intersection, rs)
    )


any_set = st.lists(any_requirement(ZONE) | any_requirement(TEAM), max_size=3).map(
    lambda rs: requirements.of(*rs)
)


@given(any_requirement(), any_requirement())
def test_intersection_is_commutative(a: Requirement, b: Requirement) -> None:
    assert a.intersection(b) == b.intersection(a)
    assert a.intersects(b) == b.intersects(a)


@given(any_requirement(), any_requirement(), any_requirement())
def test_intersection_is_associative(a: Requirement, b: Requirement, c: Requirement) -> None:
    assert a.intersection(b).intersection(c) == a.intersection(b.intersection(c))


@given(any_requirement())
def test_intersection_is_idempotent(a: Requirement) -> None:
    assert a.intersection(a) == a
    assert hash(a.intersection(a)) == hash(a)


@given(any_requirement(), any_requirement(), values)
@settings(max_examples=300)
def test_intersection_has_a_value_if_both_requirements_have_it(
    a: Requirement, b: Requirement, value: str
) -> None:
    assert a.intersection(b).has(value) == (a.has(value) and b.has(value))
    if a.has(value) and b.has(value):
        assert a.intersects(b)


@given(manifest_requirement("k"), manifest_requirement("k"))
def test_intersection_of_negative_operators_has_a_negative_operator(a: Requirement, b: Requirement) -> None:
    """Karpenter derives from the operator whether the label may be absent: NotIn and DoesNotExist allow it."""
    if {a.operator, b.operator} <= set(requirement.NEGATIVE_OPERATORS) and a.values and b.values:
        assert a.intersection(b).operator in requirement.NEGATIVE_OPERATORS


@given(any_requirement(), any_requirement())
def test_intersects_agrees_with_intersection(a: Requirement, b: Requirement) -> None:
    assert a.intersects(b) == (a.intersection(b).operator is not Operator.DOES_NOT_EXIST)


@given(any_requirement())
def test_requirement_round_trips_through_expressions(a: Requirement) -> None:
    assert requirements.from_expressions(a.expressions()) == requirements.of(a)


@given(any_requirement())
@settings(max_examples=500)
def test_any_value_returns_an_allowed_value_if_there_is_one(a: Requirement) -> None:
    value = a.any_value()
    if value is not None:
        assert a.has(value)
    else:
        assert not any(a.has(str(n)) for n in range(-10, 20))


@given(any_set, any_set)
def test_conflicts_agree_with_intersects_and_incompatibilities_with_compatible(
    a: Requirements, b: Requirements
) -> None:
    assert a.intersects(b) == (not a.conflicts(b))
    for allowed in (frozenset[str](), frozenset({ZONE})):
        assert a.compatible(b, allowed) == (not a.incompatibilities(b, allowed))


@given(any_set, any_set, any_set)
def test_union_does_not_depend_on_the_order(a: Requirements, b: Requirements, c: Requirements) -> None:
    one, other = a.union(b).union(c), c.union(a).union(b)
    assert one == other
    assert hash(one) == hash(other)
    assert one.expressions() == other.expressions()


@given(any_set)
def test_requirements_round_trip_through_expressions(a: Requirements) -> None:
    assert requirements.from_expressions(a.expressions()) == a
