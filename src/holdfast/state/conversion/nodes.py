"""Converts nodes to values: a Node merged with its NodeClaim, or a NodeClaim without a Node.

Before a node is registered, labels and taints are read from the NodeClaim; afterwards from the Node. Until a node is
initialized, startup taints and missing resources are ignored (ST-7, S-52, S-61). A value that cannot be parsed must not
attract pods: an amount counts as 0, and a taint with an unknown effect as NoSchedule. The node stays in the snapshot,
with its pods and its slot.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim, NodeClaimStatus, Taint
from holdfast.api.nodes import Node, NodeStatus, NodeTaint
from holdfast.api.storage import CSINode
from holdfast.model import resources, taints
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodView
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodeView
from holdfast.state.conversion import nodepools, times

Limits = tuple[tuple[str, int], ...]
"""The number of volumes that can be attached, by storage driver."""

Wire = Mapping[str, str | int] | Mapping[str, str | int | float]


class NodeAndClaim(NamedTuple):
    """The objects of one node: a Node, a launched NodeClaim, or both."""

    node: Node | None
    claim: NodeClaim | None

    @property
    def name(self) -> str:
        return self._object.metadata.name

    @property
    def instance_type(self) -> str:
        """The label for the instance type, or empty."""
        return self._object.metadata.labels.get(names.INSTANCE_TYPE, "")

    @property
    def registered(self) -> bool:
        """A Node without a NodeClaim counts as registered."""
        return self.claim is None or self._label(names.REGISTERED) == "true"

    @property
    def initialized(self) -> bool:
        return self.claim is None or (self.registered and self._label(names.INITIALIZED) == "true")

    @property
    def _object(self) -> Node | NodeClaim:
        found = self.node if self.node is not None else self.claim
        assert found is not None, "a pair has a Node, a NodeClaim or both"
        return found

    def _label(self, key: str) -> str | None:
        return self.node.metadata.labels.get(key) if self.node is not None else None


def is_known(node: Node) -> bool:
    """Whether a Node has its provider id and its instance type. A Node of a pool that lacks one is left out, and its
    claim is used instead (ST-5)."""
    labels = node.metadata.labels
    typed = names.INSTANCE_TYPE in labels or labels.get(names.INITIALIZED) == "true"
    return names.NODEPOOL not in labels or (bool(node.spec.provider_id) and typed)


def waits_for_claim(node: Node) -> bool:
    """Whether a Node has the taint of nodes that are not registered. Without a NodeClaim no pod is planned onto such a
    Node: its NodeClaim was deleted, and its instance is or will be terminated."""
    return any(taint.key == names.UNREGISTERED_TAINT for taint in node.spec.taints)


def claim_of_node(same_provider_id: Iterable[NodeClaim], names_node: Iterable[NodeClaim]) -> NodeClaim | None:
    """The launched claim of a node: with the same provider id, else with the node's name in its status. Of several
    claims the last by name."""
    for found in (same_provider_id, names_node):
        launched = [claim for claim in found if claim.status.provider_id]
        if launched:
            return max(launched, key=lambda claim: claim.metadata.name)
    return None


def pairs(nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> tuple[NodeAndClaim, ...]:
    """Each Node with its claim, and each launched claim without a Node (ST-5, ST-6). As with `claim_of_node`, the last
    of several claims by name is used."""
    launched = sorted((c for c in claims if c.status.provider_id), key=lambda c: c.metadata.name)
    by_id = {claim.status.provider_id: claim for claim in launched}
    by_name = {claim.status.node_name or "": claim for claim in launched}
    paired = [NodeAndClaim(n, by_id.get(n.spec.provider_id) or by_name.get(n.metadata.name)) for n in nodes]
    taken = {pair.claim.metadata.name for pair in paired if pair.claim is not None}
    return (*paired, *(NodeAndClaim(None, claim) for claim in launched if claim.metadata.name not in taken))


def view(
    pair: NodeAndClaim,
    pods: Iterable[PodView] = (),
    *,
    to_delete: bool = False,
    nominated: bool = False,
    full: bool = False,
    volume_limits: Limits = (),
) -> NodeView:
    """The node. `to_delete`: a DisruptionCommand deletes it, and its objects are not deleted yet. `full`: it has pods
    that cannot be decoded; their requests are unknown, so no more pods are planned onto it."""
    node, claim = pair.node, pair.claim
    has = node.status if node is not None else NodeStatus()
    promised = claim.status if claim is not None else NodeClaimStatus()
    initialized = pair.initialized
    labels = _labels(pair)
    if _is_rebooting(pair):
        pods = (pod for pod in pods if not pod.terminating)  # deleted before the node is ready again
    return NodeView(
        name=pair.name,
        labels=tuple(sorted(labels.items())),
        allocatable=resources.NOTHING
        if full
        else _amounts(has.allocatable, promised.allocatable, initialized=initialized),
        capacity=_amounts(has.capacity, promised.capacity, initialized=initialized),
        taints=_taints(pair),
        pods=tuple(sorted(pods, key=lambda pod: pod.full_name)),
        provider_id=(node.spec.provider_id if node is not None else "") or promised.provider_id,
        node_pool=labels.get(names.NODEPOOL),
        claim=claim.metadata.name if claim is not None else None,
        initialized=initialized,
        deleting=to_delete or is_deleting(pair),
        nominated=nominated,
        last_pod_event_s=times.epoch_s_or_none(promised.last_pod_event_time),
        volume_limits=volume_limits,
    )


def counts_for(pair: NodeAndClaim) -> tuple[str, Resources] | None:
    """The NodePool of the node, and the node's capacity; None: it has no NodePool, or is deleting (ST-14)."""
    node, claim = pair.node, pair.claim
    pool = _labels(pair).get(names.NODEPOOL)
    if not pool or is_deleting(pair):
        return None
    has = node.status.capacity if node is not None else {}
    promised = claim.status.capacity if claim is not None else {}
    return pool, _amounts(has, promised, initialized=pair.initialized)


def volume_limits(csi_node: CSINode | None, of_type: Limits) -> Limits:
    """The limits in the CSINode; for a driver that is not in it, the limits of the instance type (S-95).

    A driver without a count in the CSINode has no limit.
    """
    reported = {driver.name: driver.allocatable for driver in (csi_node and csi_node.spec.drivers) or ()}
    counts = {name: a.count for name, a in reported.items() if a is not None and a.count is not None}
    stated = {name: count for name, count in of_type if name not in reported}
    return tuple(sorted((stated | counts).items()))


def stated_limits(types: Iterable[Iterable[InstanceType]]) -> dict[str, Limits]:
    """The volume limits of instance types, by name."""
    return {one.name: one.volume_limits for some in types for one in some}


def is_ready(node: Node) -> bool:
    """Whether the Ready condition of the Node is True."""
    return any(c.type == conditions.READY and c.status == conditions.TRUE for c in node.status.conditions)


def _labels(pair: NodeAndClaim) -> dict[str, str]:
    obj = pair.node if pair.node is not None and pair.registered else pair.claim
    assert obj is not None
    return {names.HOSTNAME: pair.name} | obj.metadata.labels


def _taints(pair: NodeAndClaim) -> tuple[taints.Taint, ...]:
    """All taints; while the node starts or reboots, only the lasting ones (S-52)."""
    node, claim = pair.node, pair.claim
    if node is not None and pair.registered:
        found = [taint(t) for t in node.spec.taints]
    else:
        assert claim is not None
        found = [taint(t) for t in claim.spec.taints]
    if pair.initialized and not _is_rebooting(pair):
        return tuple(found)
    return taints.lasting(found, [taint(t) for t in claim.spec.startup_taints] if claim else ())


def _is_rebooting(pair: NodeAndClaim) -> bool:
    return pair.node is not None and any(t.key == names.REBOOTING_TAINT for t in pair.node.spec.taints)


def taint(wire: Taint | NodeTaint) -> taints.Taint:
    try:
        return nodepools.taint(wire)
    except errors.InvalidInput:
        return taints.Taint(wire.key, taints.Effect.NO_SCHEDULE, wire.value or "")


def check(pair: NodeAndClaim) -> None:
    """Raises InvalidInput if `view` ignores a value that cannot be parsed."""
    for obj in (pair.node, pair.claim):
        if obj is not None:
            resources.parse(obj.status.capacity)
            resources.parse(obj.status.allocatable)
    for wire in pair.node.spec.taints if pair.node is not None else ():
        nodepools.taint(wire)
    if pair.claim is not None:
        claim_taints(pair.claim)


def claim_taints(claim: NodeClaim) -> tuple[taints.Taint, ...]:
    """The taints and startup taints of a NodeClaim."""
    return tuple(map(nodepools.taint, (*claim.spec.taints, *claim.spec.startup_taints)))


def _amounts(of_node: Wire, of_claim: Wire, *, initialized: bool) -> Resources:
    """Until a node is initialized, amounts that are zero or absent are taken from its claim (S-61)."""
    there = resources.parse_readable(of_node)
    if initialized:
        return there
    known = Resources(tuple((name, amount) for name, amount in there.amounts if amount))
    return resources.parse_readable(of_claim).replace(known)


def is_deleting(pair: NodeAndClaim) -> bool:
    """Whether the objects show that the node is deleting (ST-13). A NodeClaim whose Node was not found counts as well,
    so that no pod is planned onto it."""
    if pair.claim is None:
        assert pair.node is not None
        return pair.node.metadata.deletion_timestamp is not None
    found = pair.claim.status.conditions
    return (
        pair.claim.metadata.deletion_timestamp is not None
        or conditions.holds(found, claim_conditions.INSTANCE_TERMINATING)
        or conditions.holds(found, claim_conditions.NODE_NOT_FOUND)
    )
