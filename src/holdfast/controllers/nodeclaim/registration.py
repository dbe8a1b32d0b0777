"""Registers the Node of a launched NodeClaim, and tags its instance with the names of both.

Registration runs while the claim is Launched and not Registered, and only once, so taints that a user removes later
stay removed (NC-13). The node gets labels, annotations, taints, finalizer and owner in one write with an optimistic
lock; then the condition Registered is set. Several controllers write to a new node and the cache is behind, so the node
is read from the API server before the write.

Tagging runs once the claim has its node's name and the node is initialized or late: calls that tag are rate limited,
and a new node should not wait for them. Claims of one launch share a call, so an instance cannot be launched with its
claim's name. The capacity that the node reports is passed to the cloud as well, which corrects later catalogs with it.
"""

from typing import Any, Final

import msgspec
import structlog

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.meta import OwnerReference
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node, NodeTaint
from holdfast.controllers.claim_draft import Draft
from holdfast.model import resources
from holdfast.ports import Ports
from holdfast.runtime.cache import Index
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState

CREATED: Final = "karpenter_nodes_created_total"
METRICS: Final = (Metric(CREATED, "counter", "Nodes that joined.", ("nodepool", "zone")),)
_UNREGISTERED: Final = (names.UNREGISTERED_TAINT, "NoExecute")


class Registration:
    def __init__(self, *, nodes: Index[Node], ports: Ports) -> None:
        self._nodes = nodes  # by provider id
        self._kube = ports.kube
        self._recorder = ports.recorder
        self._log = structlog.get_logger().bind(controller="nodeclaim.lifecycle")

    async def run(self, draft: Draft) -> None:
        if not draft.conditions.holds(claim_conditions.LAUNCHED) or draft.conditions.holds(
            claim_conditions.REGISTERED
        ):
            return
        found = list(self._nodes.get(draft.status.provider_id or ""))
        if not found:
            draft.conditions.put(
                claim_conditions.REGISTERED,
                conditions.UNKNOWN,
                "NodeNotFound",
                "Node not registered with cluster",
            )
            return
        if len(found) > 1:
            message = "Invariant violated, matched multiple nodes: " + ", ".join(
                sorted(node.metadata.name for node in found)
            )
            draft.conditions.put(claim_conditions.REGISTERED, conditions.FALSE, "MultipleNodesFound", message)
            return
        node = await self._registered(found[0], draft)
        draft.conditions.put(claim_conditions.REGISTERED, conditions.TRUE)
        draft.fill(node_name=node.metadata.name)
        self._log.info(
            "registered nodeclaim",
            nodeclaim=draft.name,
            node=node.metadata.name,
            provider_id=draft.status.provider_id,
        )
        zone = draft.labels.get(names.ZONE, "")
        about = {"nodepool": draft.labels.get(names.NODEPOOL, ""), "zone": zone}
        self._recorder.count(CREATED, about)

    async def _registered(self, known: Node, draft: Draft) -> Node:
        node = await self._kube.get(Node, known.metadata.name)
        if node.metadata.uid != known.metadata.uid:
            raise errors.Conflict(f"node {node.metadata.name} is another one by now")
        has_taint = any((t.key, t.effect) == _UNREGISTERED for t in node.spec.taints)
        if not has_taint and node.metadata.labels.get(names.REGISTERED) != "true":
            message = (
                f"Missing {names.UNREGISTERED_TAINT} taint which prevents registration related race conditions on "
                f"Karpenter-managed nodes (node/{node.metadata.name})"
            )
            self._recorder.event(draft.claim, "UnregisteredTaintMissing", message, warning=True)
        change = registered(node, draft)
        return await self._kube.patch(node, change, only_if_unchanged=True)


def registered(node: Node, draft: Draft) -> dict[str, Any]:
    """The patch that registers a node (NC-11)."""
    claim = draft.claim
    owner = OwnerReference(
        api_version=claim.api_version,
        kind=claim.kind,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        block_owner_deletion=True,
    )
    others = [one for one in node.metadata.owner_references if one.uid != owner.uid]
    finalizers = dict.fromkeys((*node.metadata.finalizers, names.TERMINATION_FINALIZER))
    return {
        "metadata": {
            "labels": draft.labels | {names.REGISTERED: "true"},
            # The explanation is about the NodeClaim, and large.
            "annotations": {k: v for k, v in draft.annotations.items() if k != names.EXPLANATION},
            "finalizers": list(finalizers),
            "ownerReferences": [msgspec.to_builtins(one) for one in (*others, owner)],
        },
        "spec": {"taints": [msgspec.to_builtins(one) for one in _taints(node, claim, draft.labels)]},
    }


def _taints(node: Node, claim: NodeClaim, labels: dict[str, str]) -> list[NodeTaint]:
    remaining = [t for t in node.spec.taints if (t.key, t.effect) != _UNREGISTERED]
    if (labels | node.metadata.labels).get(names.DO_NOT_SYNC_TAINTS) == "true":
        return remaining
    there = {(t.key, t.effect) for t in remaining}
    ours = (*claim.spec.taints, *claim.spec.startup_taints)
    return remaining + [
        NodeTaint(key=t.key, effect=t.effect, value=t.value or "")
        for t in ours
        if (t.key, t.effect) not in there
    ]


class Tagging:
    def __init__(self, *, cluster_state: ClusterState, nodes: Index[Node], ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._nodes = nodes  # by provider id
        self._cloud = ports.cloud

    async def run(self, draft: Draft) -> RequeueAfter | None:
        claim = draft.claim
        if not claim.status.node_name:
            return None
        if draft.starting_s:
            return RequeueAfter(draft.starting_s, "instance is tagged when the node is initialized, or late")
        draft.annotations |= await self._cloud.tag(claim)
        node_class = self._cluster_state.node_class(claim.spec.node_class_ref)
        node = next(iter(self._nodes.get(claim.status.provider_id or "")), None)
        if (
            node is not None
            and node_class is not None
            and draft.conditions.holds(claim_conditions.INITIALIZED)
        ):
            await self._cloud.record_capacity(
                claim, node_class, resources.parse_readable(node.status.capacity)
            )
        return None
