"""The table of a NodeClaim's states: what is legal, what is not, and the page that shows it."""

import itertools
from pathlib import Path

import pytest

from holdfast.core.lifecycle import states
from holdfast.core.lifecycle.states import TRANSITIONS, ClaimFlags, State

PAGE = Path(__file__).parents[2] / "docs" / "nodeclaim-lifecycle.md"


def flags(**changes: bool) -> ClaimFlags:
    plain = {
        "launched": False,
        "registered": False,
        "initialized": False,
        "deleting": False,
        "terminating": False,
    }
    return ClaimFlags(**plain | changes)


def test_every_state_follows_from_what_is_written() -> None:
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
def test_a_move_that_is_not_in_the_table_raises(before: State, after: State) -> None:
    if after is before or after in TRANSITIONS[before]:
        states.check(before, after)
    else:
        with pytest.raises(AssertionError, match=f"from {before} to {after}"):
            states.check(before, after)


def test_nothing_comes_back_once_it_is_on_its_way_out() -> None:
    living = {State.PENDING, State.LAUNCHED, State.REGISTERED, State.INITIALIZED}
    for state in (State.DRAINING, State.TERMINATING, State.DELETED):
        assert not TRANSITIONS[state] & living


def test_the_diagram_on_the_page_is_the_table() -> None:
    assert states.diagram() in PAGE.read_text(encoding="utf-8")
