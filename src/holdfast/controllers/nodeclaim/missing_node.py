"""The missing-node stage: a NodeClaim whose Node object is gone, while its instance runs, ends after a bound.

Run by `lifecycle` once the claim is Registered. A kubelet creates its Node only when it starts, so a Node that a user or
another controller deletes by force stays gone, and one that a restarted kubelet creates keeps the taint that only
registration removes. The rules: the cache only raises the question, and a read from the API server answers it, so a cache
that is behind ends nothing; a read that fails changes nothing; and the bound counts from the transition of the condition
NodeNotFound, so a restart does not extend it. While the condition holds, no pod is planned on the claim (state/nodes.py).
"""

from typing import Final

from holdfast import errors
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.doors import Doors
from holdfast.controllers.nodeclaim.stage import End, Wait
from holdfast.runtime.cache import Index
from holdfast.state import nodes as node_states

BOUND_S: Final = 300.0
_CHECK_S: Final = 60.0  # between two reads while the cache lacks a Node that the API server has


class MissingNode:
    def __init__(self, *, nodes: Index[Node], doors: Doors) -> None:
        self._nodes = nodes  # by provider id
        self._kube = doors.kube
        self._recorder = doors.recorder

    async def run(self, draft: Draft) -> Wait | End | None:
        if not draft.conditions.holds(claim_conditions.REGISTERED) or not draft.status.node_name:
            return None
        if any(map(_is_registered, self._nodes.get(draft.status.provider_id or ""))):
            draft.conditions.drop(claim_conditions.NODE_NOT_FOUND)
            return None
        if await self._exists(draft):
            draft.conditions.drop(claim_conditions.NODE_NOT_FOUND)
            return Wait(_CHECK_S, "the cache lacks its Node")
        message = (
            f"node {draft.status.node_name} does not exist; the NodeClaim is deleted after {BOUND_S:.0f} s"
        )
        if not draft.conditions.holds(claim_conditions.NODE_NOT_FOUND):
            self._recorder.event(draft.claim, claim_conditions.NODE_NOT_FOUND, message, warning=True)
        draft.conditions.put(claim_conditions.NODE_NOT_FOUND, conditions.TRUE, message=message)
        left_s = BOUND_S - draft.age_s(claim_conditions.NODE_NOT_FOUND)
        if left_s > 0:
            return Wait(left_s, message)
        return End("node_not_found", message)

    async def _exists(self, draft: Draft) -> bool:
        """Another instance may have the name by now: clouds reuse addresses, and names of nodes follow from them."""
        try:
            node = await self._kube.get(Node, draft.status.node_name or "")
        except errors.NotFound:
            return False
        return node.spec.provider_id == draft.status.provider_id and _is_registered(node)


def _is_registered(node: Node) -> bool:
    return not node_states.waits_for_claim(node)
