"""Laws of the requirement algebra, for any requirements and any label values."""

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


def written(key: str) -> st.SearchStrategy[Requirement]:
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
    """As written, or as it comes out of intersections."""
    return st.lists(written(key), min_size=1, max_size=3).map(lambda rs: reduce(Requirement.intersection, rs))


any_set = st.lists(any_requirement(ZONE) | any_requirement(TEAM), max_size=3).map(
    lambda rs: requirements.of(*rs)
)


@given(any_requirement(), any_requirement())
@settings(deadline=None)
def test_intersection_is_commutative(a: Requirement, b: Requirement) -> None:
    assert a.intersection(b) == b.intersection(a)
    assert a.intersects(b) == b.intersects(a)


@given(any_requirement(), any_requirement(), any_requirement())
@settings(deadline=None)
def test_intersection_is_associative(a: Requirement, b: Requirement, c: Requirement) -> None:
    assert a.intersection(b).intersection(c) == a.intersection(b.intersection(c))


@given(any_requirement())
@settings(deadline=None)
def test_intersection_is_idempotent(a: Requirement) -> None:
    assert a.intersection(a) == a
    assert hash(a.intersection(a)) == hash(a)


@given(any_requirement(), any_requirement(), values)
@settings(deadline=None, max_examples=300)
def test_a_value_is_in_an_intersection_when_it_is_in_both(a: Requirement, b: Requirement, value: str) -> None:
    assert a.intersection(b).has(value) == (a.has(value) and b.has(value))
    if a.has(value) and b.has(value):
        assert a.intersects(b)


@given(written("k"), written("k"))
@settings(deadline=None)
def test_where_two_may_be_absent_so_may_their_intersection(a: Requirement, b: Requirement) -> None:
    """Karpenter's operator tells whether a label may be missing: of NotIn and DoesNotExist."""
    if {a.operator, b.operator} <= set(requirement.NEGATIVE_OPERATORS) and a.values and b.values:
        assert a.intersection(b).operator in requirement.NEGATIVE_OPERATORS


@given(any_requirement(), any_requirement())
@settings(deadline=None)
def test_whether_two_intersect_agrees_with_their_intersection(a: Requirement, b: Requirement) -> None:
    assert a.intersects(b) == (a.intersection(b).operator is not Operator.DOES_NOT_EXIST)


@given(any_requirement())
@settings(deadline=None)
def test_a_requirement_survives_the_trip_through_its_written_form(a: Requirement) -> None:
    assert requirements.from_expressions(a.expressions()) == requirements.of(a)


@given(any_requirement())
@settings(deadline=None, max_examples=500)
def test_any_value_is_allowed_or_nothing_is(a: Requirement) -> None:
    value = a.any_value()
    if value is not None:
        assert a.has(value)
    else:
        assert not any(a.has(str(n)) for n in range(-10, 20))


@given(any_set, any_set)
@settings(deadline=None)
def test_the_reasons_of_two_sets_agree_with_the_answer(a: Requirements, b: Requirements) -> None:
    assert a.intersects(b) == (not a.conflicts(b))
    for allowed in (frozenset[str](), frozenset({ZONE})):
        assert a.compatible(b, allowed) == (not a.incompatibilities(b, allowed))


@given(any_set, any_set, any_set)
@settings(deadline=None)
def test_sets_do_not_depend_on_the_order_of_adding(a: Requirements, b: Requirements, c: Requirements) -> None:
    one, other = a.union(b).union(c), c.union(a).union(b)
    assert one == other
    assert hash(one) == hash(other)
    assert one.expressions() == other.expressions()


@given(any_set)
@settings(deadline=None)
def test_a_set_survives_the_trip_through_its_written_form(a: Requirements) -> None:
    assert requirements.from_expressions(a.expressions()) == a
