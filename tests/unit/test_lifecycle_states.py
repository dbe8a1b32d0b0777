"""The states of a NodeClaim: how they are derived, which transitions are legal, and the diagram in the docs."""

import itertools
from pathlib import Path

import pytest

from holdfast.core.lifecycle import states
from holdfast.core.lifecycle.states import TRANSITIONS, ClaimFlags, State

PAGE = Path(__file__).parents[2] / "docs" / "nodeclaim-lifecycle.md"


def flags(**changes: bool) -> ClaimFlags:
    defaults = {
        "launched": False,
        "registered": False,
        "initialized": False,
        "deleting": False,
        "terminating": False,
    }
    return ClaimFlags(**defaults | changes)


def test_state_is_derived_from_the_flags_of_the_nodeclaim() -> None:
    up = {"launched": True, "registered": True, "initialized": True}
    found = [
        states.state(flags()),
        states.state(flags(launched=True)),
        states.state(flags(launched=True, registered=True)),
        states.state(flags(**up)),
        states.state(flags(**up, deleting=True)),
        states.state(flags(**up, deleting=True, terminating=True)),
        states.state(flags(**up, deleting=True, terminating=True, has_finalizer=False)),
    ]
    assert found == list(State)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_transition_that_is_not_in_the_table_raises(before: State, after: State) -> None:
    if after is before or after in TRANSITIONS[before]:
        states.check(before, after)
    else:
        with pytest.raises(AssertionError, match=f"from {before} to {after}"):
            states.check(before, after)


def test_deleting_nodeclaim_has_no_transition_back() -> None:
    before_deletion = {State.PENDING, State.LAUNCHED, State.REGISTERED, State.INITIALIZED}
    for state in (State.DRAINING, State.TERMINATING, State.DELETED):
        assert not TRANSITIONS[state] & before_deletion


def test_diagram_in_the_docs_matches_the_table() -> None:
    assert states.diagram() in PAGE.read_text(encoding="utf-8")
