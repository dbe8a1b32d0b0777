"""A NodeClaim during one reconcile: changes are collected here and written as one patch of metadata and one of status.

The state is computed from the changed conditions. A transition that is not in the table of `core/lifecycle` raises
before anything is written.
"""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast import names
from holdfast.api import conditions
from holdfast.api.claim_conditions import INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED
from holdfast.api.nodeclaim import NodeClaim, NodeClaimStatus
from holdfast.core.lifecycle import states
from holdfast.core.lifecycle.states import ClaimFlags, State
from holdfast.ports import Kube
from holdfast.state.conversion import times

DEPENDENTS: Final = (LAUNCHED, REGISTERED, INITIALIZED)
_MESSAGE_MAX: Final = 1024
_ON_ITS_WAY_S: Final = 60.0


class Draft:
    def __init__(self, claim: NodeClaim, now_s: int) -> None:
        self.claim = claim
        self.now = datetime.fromtimestamp(now_s, UTC)
        self.labels = dict(claim.metadata.labels)
        self.annotations = dict(claim.metadata.annotations)
        self.status = claim.status  # its conditions are in `self.conditions`
        self.conditions = conditions.edit(claim, now_s=now_s, message_max=_MESSAGE_MAX)
        if not self.conditions.holds(LAUNCHED):
            self._unset(REGISTERED, INITIALIZED)
        elif not self.conditions.holds(REGISTERED):
            self._unset(INITIALIZED)
        self._state = states.state(self._flags())
        self._checked = self.claim, self.conditions.all  # what `_state` was computed from
        if claim.metadata.deletion_timestamp is None:
            self.conditions.start(DEPENDENTS, claim.metadata.creation_timestamp or self.now)

    @property
    def name(self) -> str:
        return self.claim.metadata.name

    def age_s(self, type_: str) -> int:
        """How long a condition has had its status."""
        found = self.conditions.find(type_)
        return times.epoch_s(self.now) - times.epoch_s(found.last_transition_time) if found is not None else 0

    def refresh(self, claim: NodeClaim) -> None:
        """Replaces the claim by a version that was just written, which includes the draft's metadata."""
        self.claim = claim
        self.labels = dict(claim.metadata.labels)
        self.annotations = dict(claim.metadata.annotations)

    def fill(self, **fields: Any) -> None:
        """Sets fields of the status."""
        self.status = msgspec.structs.replace(self.status, **fields)

    @property
    def starting_s(self) -> float:
        """How long to postpone work that is not urgent: the node may be initialized soon."""
        if conditions.holds(self.claim.status.conditions, INITIALIZED):
            return 0.0
        return max(0.0, _ON_ITS_WAY_S - self.age_s(LAUNCHED))

    def moved(self) -> None:
        """Checks the transition of a sub-reconciler against the table."""
        if self._checked[0] is self.claim and self._checked[1] is self.conditions.all:
            return
        self._checked = self.claim, self.conditions.all
        after = states.state(self._flags())
        states.check(self._state, after)
        self._state = after

    @property
    def state(self) -> State:
        return self._state

    async def write(self, kube: Kube) -> bool:
        """Writes the changes, metadata first: a claim with the condition Launched must have its labels."""
        claim = self.claim
        if claim.metadata.deletion_timestamp is None:
            self.conditions.summarize(DEPENDENTS)
        meta = {
            key: _difference(before, after)
            for key, before, after in (
                ("labels", claim.metadata.labels, self.labels),
                ("annotations", claim.metadata.annotations, self.annotations),
            )
            if before != after
        }
        after = msgspec.structs.replace(self.status, conditions=self.conditions.all)
        status = _status_difference(claim.status, after)
        if meta:
            claim = await kube.patch(claim, {"metadata": meta})
        if status:
            claim = await kube.patch(claim, {"status": status}, status=True, only_if_unchanged=True)
        self.claim = claim
        return bool(meta or status)

    def _unset(self, *types: str) -> None:
        """Drops conditions that cannot be True yet: sub-reconcilers run in order, so no sub-reconciler set them."""
        for type_ in types:
            if self.conditions.holds(type_):
                self.conditions.drop(type_)

    def _flags(self) -> ClaimFlags:
        return ClaimFlags(
            launched=self.conditions.holds(LAUNCHED),
            registered=self.conditions.holds(REGISTERED),
            initialized=self.conditions.holds(INITIALIZED),
            deleting=self.claim.metadata.deletion_timestamp is not None,
            terminating=self.conditions.holds(INSTANCE_TERMINATING),
            has_finalizer=names.TERMINATION_FINALIZER in self.claim.metadata.finalizers,
        )


def _difference(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | {key: None for key in before if key not in after}


def _status_difference(before: NodeClaimStatus, after: NodeClaimStatus) -> dict[str, Any]:
    if before == after:
        return {}
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    return {key: value for key, value in new.items() if old.get(key) != value}
