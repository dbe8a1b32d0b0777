"""How conditions begin, change and add up to Ready."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.api import conditions
from holdfast.api.conditions import FALSE, READY, TRUE, UNKNOWN, Condition, ConditionSet

CREATED = datetime(2026, 3, 1, 8, tzinfo=UTC)
LATER = CREATED + timedelta(minutes=5)
DEPENDENTS = ("Launched", "Registered", "Initialized")


def edited(have: tuple[Condition, ...], now: datetime = LATER, generation: int = 1) -> ConditionSet:
    return ConditionSet(have, now=now, generation=generation)


def started(generation: int = 1) -> tuple[Condition, ...]:
    found = edited((), generation=generation)
    found.start(DEPENDENTS, CREATED)
    return found.all


def put(
    have: tuple[Condition, ...], type_: str, status: str = TRUE, *, generation: int = 1, **more: str
) -> tuple[Condition, ...]:
    found = edited(have, generation=generation)
    found.put(type_, status, **more)
    return found.all


def summarized(have: tuple[Condition, ...], generation: int = 1) -> tuple[Condition, ...]:
    found = edited(have, generation=generation)
    found.summarize(DEPENDENTS)
    return found.all


def ready(have: tuple[Condition, ...], generation: int = 1) -> Condition:
    found = conditions.find(summarized(have, generation), READY)
    assert found is not None
    return found


def all_true() -> tuple[Condition, ...]:
    have = started()
    for type_ in DEPENDENTS:
        have = put(have, type_)
    return have


@pytest.mark.fact("NC-4")
def test_dependents_begin_unknown_at_the_creation_of_the_object() -> None:
    assert [c.type for c in started()] == list(DEPENDENTS)
    for condition in started():
        assert (condition.status, condition.reason) == (UNKNOWN, "AwaitingReconciliation")
        assert condition.last_transition_time == CREATED


def test_beginning_again_changes_nothing() -> None:
    have = put(started(), "Launched")
    again = edited(have, generation=2)
    again.start(DEPENDENTS, LATER)
    assert again.all == have
    assert again.changes == {}


@pytest.mark.fact("NC-4")
def test_a_verdict_without_a_reason_has_its_type_as_one() -> None:
    launched = conditions.find(put((), "Launched"), "Launched")
    assert launched is not None
    assert launched.reason == "Launched"


@pytest.mark.fact("NC-4")
def test_the_transition_time_moves_with_the_status_alone() -> None:
    before = edited((), now=CREATED)
    before.put("Launched", UNKNOWN, "Waiting")
    first = before.all
    reworded = put(first, "Launched", UNKNOWN, reason="StillWaiting", message="it takes long")
    turned = put(first, "Launched")
    assert [c.last_transition_time for c in reworded] == [CREATED]
    assert [c.reason for c in reworded] == ["StillWaiting"]
    assert [c.last_transition_time for c in turned] == [LATER]


def test_the_same_verdict_gives_the_same_tuple() -> None:
    have = all_true()
    assert put(have, "Launched") == have


def test_a_verdict_says_which_generation_it_is_about() -> None:
    again = put(put((), "Launched"), "Launched", generation=2)
    assert [c.observed_generation for c in again] == [2]


@pytest.mark.fact("NC-4")
def test_ready_when_every_dependent_is_true_now() -> None:
    assert (ready(all_true()).status, ready(all_true()).reason) == (TRUE, READY)
    assert ready(all_true()).message == ""


@pytest.mark.fact("NC-4")
def test_not_ready_when_one_dependent_is_false_now() -> None:
    verdict = ready(put(all_true(), "Registered", FALSE, reason="Lost"))
    assert (verdict.status, verdict.reason) == (FALSE, "UnhealthyDependents")
    assert verdict.message == "Registered=False"


@pytest.mark.fact("NC-4")
def test_unknown_while_a_dependent_is_awaited() -> None:
    verdict = ready(put(started(), "Launched"))
    assert (verdict.status, verdict.reason) == (UNKNOWN, "ReconcilingDependents")
    assert verdict.message == "Registered=Unknown, Initialized=Unknown"


@pytest.mark.fact("NC-4")
def test_verdicts_on_an_older_generation_decide_nothing() -> None:
    assert ready(all_true(), generation=2).status == UNKNOWN
    assert ready(put(all_true(), "Registered", FALSE), generation=2).status == UNKNOWN


def test_a_dependent_that_is_not_there_is_unknown() -> None:
    assert ready(()).message == "Launched=Unknown, Registered=Unknown, Initialized=Unknown"


@pytest.mark.fact("NC-4")
def test_ready_is_kept_last() -> None:
    have = summarized(started())
    have = put(have, "Drifted")
    have = put(have, "Launched")
    assert [c.type for c in have][-1] == READY


def test_a_condition_can_be_dropped() -> None:
    found = edited(all_true())
    found.drop("Launched")
    assert found.find("Launched") is None
    found.drop("Launched")
    assert [one.type for one in found.all] == ["Registered", "Initialized"]


STEPS = st.lists(
    st.tuples(st.sampled_from([*DEPENDENTS, "Drifted", READY]), st.sampled_from([TRUE, FALSE, UNKNOWN])),
    max_size=12,
)


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(steps=STEPS)
def test_any_sequence_keeps_one_condition_a_type_and_ready_last(steps: list[tuple[str, str]]) -> None:
    have = started()
    for type_, status in steps:
        have = put(have, type_, status)
        have = summarized(have)
        types = [c.type for c in have]
        assert len(types) == len(set(types))
        assert types[-1] == READY
        assert summarized(have) == have
