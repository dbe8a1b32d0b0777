"""What a stage of a claim's life is, and what it may answer.

Called by `lifecycle`, which runs the stages in order, writes what they put into the draft and acts on their answers.
"""

from dataclasses import dataclass
from typing import Protocol

from holdfast.controllers.claim_draft import Draft


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again after that long."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class End:
    """The claim is to be deleted. `reason` as metrics have it; `message` for people."""

    reason: str
    message: str


class Stage(Protocol):
    async def run(self, draft: Draft) -> Wait | End | None:
        """Moves the claim on, if it is this stage's turn."""
