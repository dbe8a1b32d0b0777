"""The consistency stage: whether a node came up with what its claim was promised.

Run by `lifecycle` once the claim is Initialized. The rule (NC-22): of everything that was asked for, the node has to
have nine tenths of what its type should have; what is less is said, and nothing is done about it.
"""

from typing import Final

from holdfast.api import claim_conditions, conditions
from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.doors import Doors
from holdfast.model import resources
from holdfast.runtime.cache import Index
from holdfast.state import claims

FAILED: Final = "ConsistencyCheckFailed"
_ENOUGH: Final = (9, 10)


class Consistency:
    def __init__(self, *, nodes: Index[Node], doors: Doors) -> None:
        self._nodes = nodes  # by provider id
        self._recorder = doors.recorder

    async def run(self, draft: Draft) -> None:
        node = next(iter(self._nodes.get(draft.status.provider_id or "")), None)
        if node is None or not draft.conditions.holds(claim_conditions.INITIALIZED):
            return
        short = too_little(node, draft)
        if short is None:
            draft.conditions.put(claim_conditions.CONSISTENT, conditions.TRUE)
            return
        self._recorder.event(draft.claim, "FailedConsistencyCheck", short, warning=True)
        draft.conditions.put(claim_conditions.CONSISTENT, conditions.FALSE, FAILED, short)


def too_little(node: Node, draft: Draft) -> str | None:
    """What the node has much less of than its claim says."""
    has = resources.parse_readable(node.status.capacity)
    expected = resources.parse_readable(draft.status.capacity)
    enough, of = _ENOUGH
    for name, _ in claims.requests(draft.claim).amounts:
        if has[name] * of < expected[name] * enough:
            there, promised = resources.text(name, has[name]), resources.text(name, expected[name])
            return (
                f'expected "{promised}" of resource {name}, but found "{there}" on node/{node.metadata.name}'
            )
    return None
