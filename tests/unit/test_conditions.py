"""How conditions start and change, and how Ready summarizes them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.api import conditions
from holdfast.api.conditions import FALSE, READY, TRUE, UNKNOWN, Condition, ConditionSet

CREATED = datetime(2026, 3, 1, 8, tzinfo=UTC)
LATER = CREATED + timedelta(minutes=5)
DEPENDENTS = ("Launched", "Registered", "Initialized")


def condition_set(
    existing: tuple[Condition, ...], now: datetime = LATER, generation: int = 1
) -> ConditionSet:
    return ConditionSet(existing, now=now, generation=generation)


def started(generation: int = 1) -> tuple[Condition, ...]:
    found = condition_set((), generation=generation)
    found.start(DEPENDENTS, CREATED)
    return found.all


def put(
    existing: tuple[Condition, ...], type_: str, status: str = TRUE, *, generation: int = 1, **more: str
) -> tuple[Condition, ...]:
    found = condition_set(existing, generation=generation)
    found.put(type_, status, **more)
    return found.all


def summarized(existing: tuple[Condition, ...], generation: int = 1) -> tuple[Condition, ...]:
    found = condition_set(existing, generation=generation)
    found.summarize(DEPENDENTS)
    return found.all


def ready(existing: tuple[Condition, ...], generation: int = 1) -> Condition:
    found = conditions.find(summarized(existing, generation), READY)
    assert found is not None
    return found


def all_true() -> tuple[Condition, ...]:
    existing = started()
    for type_ in DEPENDENTS:
        existing = put(existing, type_)
    return existing


@pytest.mark.fact("NC-4")
def test_dependents_start_unknown_with_the_creation_time() -> None:
    assert [c.type for c in started()] == list(DEPENDENTS)
    for condition in started():
        assert (condition.status, condition.reason) == (UNKNOWN, "AwaitingReconciliation")
        assert condition.last_transition_time == CREATED


def test_starting_again_changes_nothing() -> None:
    existing = put(started(), "Launched")
    again = condition_set(existing, generation=2)
    again.start(DEPENDENTS, LATER)
    assert again.all == existing
    assert again.changes == {}


@pytest.mark.fact("NC-4")
def test_condition_without_a_reason_uses_its_type_as_reason() -> None:
    launched = conditions.find(put((), "Launched"), "Launched")
    assert launched is not None
    assert launched.reason == "Launched"


@pytest.mark.fact("NC-4")
def test_transition_time_changes_only_with_the_status() -> None:
    before = condition_set((), now=CREATED)
    before.put("Launched", UNKNOWN, "Waiting")
    first = before.all
    reworded = put(first, "Launched", UNKNOWN, reason="StillWaiting", message="it takes long")
    changed = put(first, "Launched")
    assert [c.last_transition_time for c in reworded] == [CREATED]
    assert [c.reason for c in reworded] == ["StillWaiting"]
    assert [c.last_transition_time for c in changed] == [LATER]


def test_unchanged_condition_gives_an_equal_tuple() -> None:
    existing = all_true()
    assert put(existing, "Launched") == existing


def test_condition_has_the_observed_generation() -> None:
    again = put(put((), "Launched"), "Launched", generation=2)
    assert [c.observed_generation for c in again] == [2]


@pytest.mark.fact("NC-4")
def test_ready_is_true_if_every_dependent_is_true() -> None:
    assert (ready(all_true()).status, ready(all_true()).reason) == (TRUE, READY)
    assert ready(all_true()).message == ""


@pytest.mark.fact("NC-4")
def test_ready_is_false_if_a_dependent_is_false() -> None:
    condition = ready(put(all_true(), "Registered", FALSE, reason="Lost"))
    assert (condition.status, condition.reason) == (FALSE, "UnhealthyDependents")
    assert condition.message == "Registered=False"


@pytest.mark.fact("NC-4")
def test_ready_is_unknown_while_a_dependent_is_unknown() -> None:
    condition = ready(put(started(), "Launched"))
    assert (condition.status, condition.reason) == (UNKNOWN, "ReconcilingDependents")
    assert condition.message == "Initialized=Unknown, Registered=Unknown"


@pytest.mark.fact("NC-4")
def test_ready_is_unknown_if_dependents_are_of_an_older_generation() -> None:
    assert ready(all_true(), generation=2).status == UNKNOWN
    assert ready(put(all_true(), "Registered", FALSE), generation=2).status == UNKNOWN


def test_missing_dependent_is_unknown() -> None:
    assert ready(()).message == "Initialized=Unknown, Launched=Unknown, Registered=Unknown"


@pytest.mark.fact("NC-4")
def test_ready_is_the_last_condition() -> None:
    existing = summarized(started())
    existing = put(existing, "Drifted")
    existing = put(existing, "Launched")
    assert [c.type for c in existing][-1] == READY


def test_a_condition_can_be_dropped() -> None:
    found = condition_set(all_true())
    found.drop("Launched")
    assert found.find("Launched") is None
    found.drop("Launched")
    assert [one.type for one in found.all] == ["Registered", "Initialized"]


STEPS = st.lists(
    st.tuples(st.sampled_from([*DEPENDENTS, "Drifted", READY]), st.sampled_from([TRUE, FALSE, UNKNOWN])),
    max_size=12,
)


@settings(max_examples=100, derandomize=True, database=None)
@given(steps=STEPS)
def test_any_sequence_keeps_one_condition_a_type_and_ready_last(steps: list[tuple[str, str]]) -> None:
    existing = started()
    for type_, status in steps:
        existing = put(existing, type_, status)
        existing = summarized(existing)
        types = [c.type for c in existing]
        assert len(types) == len(set(types))
        assert types[-1] == READY
        assert summarized(existing) == existing
