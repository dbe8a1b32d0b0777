"""The interface of a sub-reconciler of a NodeClaim."""

from dataclasses import dataclass
from typing import Protocol

from holdfast.controllers.claim_draft import Draft
from holdfast.runtime.results import RequeueAfter


@dataclass(frozen=True, slots=True)
class Delete:
    """The claim is to be deleted. `reason` is the label of the metric; `message` is for users."""

    reason: str
    message: str


class SubReconciler(Protocol):
    async def run(self, draft: Draft) -> RequeueAfter | Delete | None:
        """Changes the draft if the claim is in the state that this sub-reconciler is for."""
