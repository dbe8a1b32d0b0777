"""The states of a NodeClaim and the legal transitions, as a table.

`controllers/claim_draft` computes the state before and after each stage and checks the transition. A transition that is
not in the table is a bug: `check` raises before anything is written. The diagram in docs/nodeclaim-lifecycle.md is
printed from the table.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class State(enum.StrEnum):
    PENDING = "Pending"  # created; no launch is known
    LAUNCHED = "Launched"  # the cloud launched an instance
    REGISTERED = "Registered"  # the instance joined the cluster as a node
    INITIALIZED = "Initialized"  # the node is ready for pods
    DRAINING = "Draining"  # being deleted: its pods are evicted, its volumes are detached
    TERMINATING = "Terminating"  # being deleted: the cloud is terminating the instance
    DELETED = "Deleted"  # its finalizer is removed


@dataclass(frozen=True, slots=True)
class ClaimFlags:
    """The conditions and metadata of a NodeClaim that determine its state."""

    launched: bool
    registered: bool
    initialized: bool
    deleting: bool
    terminating: bool  # condition InstanceTerminating
    has_finalizer: bool = True  # Holdfast's termination finalizer


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.PENDING: frozenset({State.LAUNCHED, State.DRAINING, State.DELETED}),
    State.LAUNCHED: frozenset({State.REGISTERED, State.DRAINING}),
    State.REGISTERED: frozenset({State.INITIALIZED, State.DRAINING}),
    # A node that reboots is registered and not ready.
    State.INITIALIZED: frozenset({State.REGISTERED, State.DRAINING}),
    State.DRAINING: frozenset({State.TERMINATING, State.DELETED}),
    State.TERMINATING: frozenset({State.DELETED}),
    State.DELETED: frozenset(),
}


def state(flags: ClaimFlags) -> State:
    if flags.deleting:
        if not flags.has_finalizer:
            return State.DELETED
        return State.TERMINATING if flags.terminating else State.DRAINING
    if not flags.launched:
        return State.PENDING
    if not flags.registered:
        return State.LAUNCHED
    return State.INITIALIZED if flags.initialized else State.REGISTERED


def check(before: State, after: State) -> None:
    """Raises unless the transition is in the table; staying in a state is always legal."""
    assert after is before or after in TRANSITIONS[before], f"a NodeClaim cannot go from {before} to {after}"


def diagram() -> str:
    """The table as a Mermaid diagram."""
    lines = [
        f"    {before} --> {after}" for before in State for after in State if after in TRANSITIONS[before]
    ]
    return "\n".join(
        ["stateDiagram-v2", f"    [*] --> {State.PENDING}", *lines, f"    {State.DELETED} --> [*]"]
    )
