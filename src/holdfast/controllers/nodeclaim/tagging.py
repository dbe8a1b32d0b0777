"""The tagging stage: the instance of a registered claim says which claim and node it is.

Run by `lifecycle` once the node's name is on the claim, and the node is up or late: tags wait in line, and a node that
comes up should not. Claims of one launch share a call, so an instance cannot carry its claim's name from the start. What a
node really came up with is told to the cloud as well: later catalogs go by it.
"""

from holdfast.api import claim_conditions
from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.doors import Doors
from holdfast.controllers.nodeclaim.stage import Wait
from holdfast.model import resources
from holdfast.runtime.cache import Index
from holdfast.state.live import Live


class Tagging:
    def __init__(self, *, live: Live, nodes: Index[Node], doors: Doors) -> None:
        self._live = live
        self._nodes = nodes  # by provider id
        self._cloud = doors.cloud

    async def run(self, draft: Draft) -> Wait | None:
        claim = draft.claim
        if not claim.status.node_name:
            return None
        if draft.hurries_s:
            return Wait(draft.hurries_s, "its instance is tagged once its node is up, or late")
        draft.annotations |= await self._cloud.tag(claim)
        node_class = self._live.node_class(claim.spec.node_class_ref)
        node = next(iter(self._nodes.get(claim.status.provider_id or "")), None)
        if (
            node is not None
            and node_class is not None
            and draft.conditions.holds(claim_conditions.INITIALIZED)
        ):
            await self._cloud.learn(claim, node_class, resources.parse_readable(node.status.capacity))
        return None
