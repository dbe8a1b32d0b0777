"""A NodeClaim while its stages run: what each adds is kept, and written as one patch at the end.

Called by the controllers that move a claim on: its own stages, and the drain of its node. The rule: the state follows from what would be written, and a stage that makes
a move the table does not know raises before anything is (core/lifecycle).
"""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast import names
from holdfast.api import conditions
from holdfast.api.claim_conditions import INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED
from holdfast.api.conditions import Condition
from holdfast.api.nodeclaim import NodeClaim, NodeClaimStatus
from holdfast.core.lifecycle import states
from holdfast.core.lifecycle.states import ClaimFlags, State
from holdfast.ports import Kube
from holdfast.state import times

DEPENDENTS: Final = (LAUNCHED, REGISTERED, INITIALIZED)
_MESSAGE_MAX: Final = 1024
_ON_ITS_WAY_S: Final = 60.0


class Draft:
    def __init__(self, claim: NodeClaim, now_s: int) -> None:
        self.claim = claim
        self.now = datetime.fromtimestamp(now_s, UTC)
        self.labels = dict(claim.metadata.labels)
        self.annotations = dict(claim.metadata.annotations)
        self.status = claim.status
        if not self.holds(LAUNCHED):
            self._unset(REGISTERED, INITIALIZED)
        elif not self.holds(REGISTERED):
            self._unset(INITIALIZED)
        self._state = states.state(self._flags())
        if claim.metadata.deletion_timestamp is None:
            created = claim.metadata.creation_timestamp or self.now
            self._conditions(
                conditions.start(
                    self.status.conditions, DEPENDENTS, created=created, generation=self._generation
                )
            )

    @property
    def name(self) -> str:
        return self.claim.metadata.name

    def condition(self, type_: str) -> Condition | None:
        return conditions.find(self.status.conditions, type_)

    def holds(self, type_: str) -> bool:
        return conditions.holds(self.status.conditions, type_)

    def since_s(self, type_: str) -> int:
        """How long a condition has had its status."""
        found = self.condition(type_)
        return times.epoch_s(self.now) - times.epoch_s(found.last_transition_time) if found is not None else 0

    def say(self, type_: str, status: str, reason: str = "", message: str = "") -> None:
        self._conditions(
            conditions.put(
                self.status.conditions,
                type_,
                status,
                now=self.now,
                generation=self._generation,
                reason=reason,
                message=message[:_MESSAGE_MAX],
            )
        )

    def drop(self, type_: str) -> None:
        self._conditions(conditions.drop(self.status.conditions, type_))

    def restart(self, type_: str) -> None:
        """The time of a condition begins anew."""
        found = self.condition(type_)
        if found is not None:
            anew = msgspec.structs.replace(found, last_transition_time=self.now)
            self._conditions(tuple(anew if one is found else one for one in self.status.conditions))

    def refresh(self, claim: NodeClaim) -> None:
        """The claim as it was just written; what stages added to its metadata before is in it."""
        self.claim = claim
        self.labels = dict(claim.metadata.labels)
        self.annotations = dict(claim.metadata.annotations)

    def fill(self, **fields: Any) -> None:
        """Sets fields of the status."""
        self.status = msgspec.structs.replace(self.status, **fields)

    @property
    def hurries_s(self) -> float:
        """For how long nothing that can wait is to keep it waiting: it is on its way, and may be initialized in a moment."""
        if conditions.holds(self.claim.status.conditions, INITIALIZED):
            return 0.0
        return max(0.0, _ON_ITS_WAY_S - self.since_s(LAUNCHED))

    def moved(self) -> None:
        """A stage has ended: was that a legal move?"""
        after = states.state(self._flags())
        states.check(self._state, after)
        self._state = after

    @property
    def state(self) -> State:
        return self._state

    async def write(self, kube: Kube) -> bool:
        """Writes what changed, metadata first: a claim whose status says Launched has its labels."""
        claim = self.claim
        if claim.metadata.deletion_timestamp is None:
            self._conditions(
                conditions.summarize(
                    self.status.conditions, DEPENDENTS, now=self.now, generation=self._generation
                )
            )
        meta = {
            key: _difference(before, after)
            for key, before, after in (
                ("labels", claim.metadata.labels, self.labels),
                ("annotations", claim.metadata.annotations, self.annotations),
            )
            if before != after
        }
        status = _status_difference(claim.status, self.status)
        if meta:
            claim = await kube.patch(claim, {"metadata": meta})
        if status:
            claim = await kube.patch(claim, {"status": status}, status=True, only_if_unchanged=True)
        self.claim = claim
        return bool(meta or status)

    @property
    def _generation(self) -> int:
        return self.claim.metadata.generation

    def _unset(self, *types: str) -> None:
        """Conditions that cannot be True yet: stages go in order, so these were not written by a stage."""
        for type_ in types:
            if self.holds(type_):
                self.drop(type_)

    def _conditions(self, found: tuple[Condition, ...]) -> None:
        if found is not self.status.conditions:
            self.status = msgspec.structs.replace(self.status, conditions=found)

    def _flags(self) -> ClaimFlags:
        return ClaimFlags(
            launched=self.holds(LAUNCHED),
            registered=self.holds(REGISTERED),
            initialized=self.holds(INITIALIZED),
            deleting=self.claim.metadata.deletion_timestamp is not None,
            terminating=self.holds(INSTANCE_TERMINATING),
            has_finalizer=names.TERMINATION_FINALIZER in self.claim.metadata.finalizers,
        )


def _difference(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | {key: None for key in before if key not in after}


def _status_difference(before: NodeClaimStatus, after: NodeClaimStatus) -> dict[str, Any]:
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    return {key: value for key, value in new.items() if old.get(key) != value}
