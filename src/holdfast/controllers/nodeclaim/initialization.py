"""Initializes a registered node, and checks that it has the expected capacity.

Initialization runs while the claim is Registered and not Initialized. The condition names the first missing part
(NC-16). It is written with the registration, and again only if initialization takes long, so that new nodes cause few
writes. Initialized is never reset (NC-17).

Consistency runs once the claim is Initialized. Of each resource that the claim requests, the node must have 90% of the
capacity of its instance type (NC-22). Less is only reported.
"""

from typing import Final

import structlog

from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.model import resources, taints
from holdfast.ports import Ports
from holdfast.runtime.cache import Index
from holdfast.runtime.results import RequeueAfter
from holdfast.state.conversion import claims
from holdfast.state.conversion import nodes as node_states

_LONG_S: Final = 15.0
_REPORTED_AGAIN_S: Final = 600.0  # as in Karpenter
FAILED: Final = "ConsistencyCheckFailed"
_ENOUGH: Final = (9, 10)


class Initialization:
    def __init__(self, *, nodes: Index[Node], ports: Ports) -> None:
        self._nodes = nodes  # by provider id
        self._kube = ports.kube
        self._log = structlog.get_logger().bind(controller="nodeclaim.lifecycle")

    async def run(self, draft: Draft) -> RequeueAfter | None:
        if not draft.conditions.holds(claim_conditions.REGISTERED) or draft.conditions.holds(
            claim_conditions.INITIALIZED
        ):
            return None
        node = next(iter(self._nodes.get(draft.status.provider_id or "")), None)
        missing = why_not(node, draft.claim)
        if missing is not None:
            left_s = _LONG_S - draft.age_s(claim_conditions.REGISTERED)
            was_registered = conditions.holds(draft.claim.status.conditions, claim_conditions.REGISTERED)
            if was_registered and left_s > 0:
                return RequeueAfter(left_s, "next report of what is missing")
            draft.conditions.put(claim_conditions.INITIALIZED, conditions.UNKNOWN, *missing)
            return None
        assert node is not None
        await self._kube.patch(node, {"metadata": {"labels": {names.INITIALIZED: "true"}}})
        draft.conditions.put(claim_conditions.INITIALIZED, conditions.TRUE)
        self._log.info("initialized nodeclaim", nodeclaim=draft.name, node=node.metadata.name)
        return None


def why_not(node: Node | None, claim: NodeClaim) -> tuple[str, str] | None:
    """Why a node is not initialized: a reason and a message; None: it is."""
    if node is None:
        return "NodeNotFound", "Node not registered with cluster"
    if not node_states.is_ready(node):
        return "NodeNotReady", "Node status is NotReady"
    startup = {(t.key, t.effect) for t in claim.spec.startup_taints}
    left = [t for t in node.spec.taints if (t.key, t.effect) in startup]
    if left:
        waits = ": other nodes of its gang are not ready" if left[0].key == names.FORMING_TAINT else ""
        return "StartupTaintsExist", f'StartupTaint "{left[0].key}" still exists{waits}'
    passing = [t for t in node.spec.taints if taints.is_ephemeral(node_states.taint(t))]
    if passing:
        return "KnownEphemeralTaintsExist", f'KnownEphemeralTaint "{passing[0].key}" still exists'
    has = resources.parse_readable(node.status.allocatable)
    for name, amount in claims.requests(claim).amounts:
        if amount and not has[name]:
            return "ResourceNotRegistered", f'Resource "{name}" was requested but not registered'
    return None


class Consistency:
    def __init__(self, *, nodes: Index[Node], ports: Ports) -> None:
        self._nodes = nodes  # by provider id
        self._recorder = ports.recorder

    async def run(self, draft: Draft) -> RequeueAfter | None:
        node = next(iter(self._nodes.get(draft.status.provider_id or "")), None)
        if node is None or not draft.conditions.holds(claim_conditions.INITIALIZED):
            return None
        short = too_little(node, draft)
        if short is None:
            draft.conditions.put(claim_conditions.CONSISTENT, conditions.TRUE)
            return None
        self._recorder.event(draft.claim, "FailedConsistencyCheck", short, warning=True)
        draft.conditions.put(claim_conditions.CONSISTENT, conditions.FALSE, FAILED, short)
        return RequeueAfter(_REPORTED_AGAIN_S, "next report of what the node lacks")


def too_little(node: Node, draft: Draft) -> str | None:
    """The resource of which the node has much less than its claim expects, as a message."""
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
