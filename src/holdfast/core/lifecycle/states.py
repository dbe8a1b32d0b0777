"""The life of a NodeClaim as a table: which state it is in, and which may come next.

Called by whoever moves a claim on: the controllers ask `state` before and after each of their stages and `check` the
move. The rule: a move that is not in the table is a bug of ours, so it raises, and nothing of it is written. The
diagram in docs/nodeclaim-lifecycle.md is printed from the table.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class State(enum.StrEnum):
    PENDING = "Pending"  # written; nothing was launched for it that we know of
    LAUNCHED = "Launched"  # the cloud has a machine for it
    REGISTERED = "Registered"  # the machine has joined the cluster as a node
    INITIALIZED = "Initialized"  # the node is ready for pods
    DRAINING = "Draining"  # being deleted: its pods leave, its volumes are detached
    ENDING = "Ending"  # being deleted: the cloud was told to end its machine
    GONE = "Gone"  # nothing holds it any more


@dataclass(frozen=True, slots=True)
class Marks:
    """What is written on a claim, as far as its state follows from it."""

    launched: bool
    registered: bool
    initialized: bool
    deleting: bool
    ending: bool  # the cloud accepted to end its machine
    held: bool = True  # our finalizer is on it


MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.PENDING: frozenset({State.LAUNCHED, State.DRAINING, State.GONE}),
    State.LAUNCHED: frozenset({State.REGISTERED, State.DRAINING}),
    State.REGISTERED: frozenset({State.INITIALIZED, State.DRAINING}),
    # A reboot takes a node back to where it has registered and is not ready.
    State.INITIALIZED: frozenset({State.REGISTERED, State.DRAINING}),
    State.DRAINING: frozenset({State.ENDING, State.GONE}),
    State.ENDING: frozenset({State.GONE}),
    State.GONE: frozenset(),
}


def state(marks: Marks) -> State:
    if marks.deleting:
        if not marks.held:
            return State.GONE
        return State.ENDING if marks.ending else State.DRAINING
    if not marks.launched:
        return State.PENDING
    if not marks.registered:
        return State.LAUNCHED
    return State.INITIALIZED if marks.initialized else State.REGISTERED


def check(before: State, after: State) -> None:
    """Raises unless the move is in the table; to stay is always legal."""
    assert after is before or after in MOVES[before], f"a NodeClaim cannot go from {before} to {after}"


def diagram() -> str:
    """The table as a Mermaid diagram."""
    lines = [f"    {before} --> {after}" for before in State for after in State if after in MOVES[before]]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {State.PENDING}", *lines, f"    {State.GONE} --> [*]"])
