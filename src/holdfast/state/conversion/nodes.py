"""Nodes as decisions see them: a Node and its NodeClaim merged, or a NodeClaim whose Node has not appeared.

Called when a snapshot is taken. The rule: before a node has registered, what its claim says is true of it;
after, what the Node says; and while it is starting, what will pass is not held against it (ST-7, S-52, S-61). What
cannot be read is left out so that no pod is sent there by mistake: an amount counts as 0, and a taint of an unknown
effect as NoSchedule. The node itself stays, with its pods and its slot.
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
"""Volumes that can be attached, by storage driver."""

Wire = Mapping[str, str | int] | Mapping[str, str | int | float]


class NodeAndClaim(NamedTuple):
    """A node as the API server has it: a Node, a NodeClaim that was launched, or both."""

    node: Node | None
    claim: NodeClaim | None

    @property
    def name(self) -> str:
        return self._object.metadata.name

    @property
    def instance_type(self) -> str:
        """What it states, or nothing."""
        return self._object.metadata.labels.get(names.INSTANCE_TYPE, "")

    @property
    def registered(self) -> bool:
        """A node that is not ours registered long ago."""
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
    """Whether a Node has its provider id and its instance type. A Node of a pool that lacks one is left out, and its claim
    is used instead (ST-5)."""
    labels = node.metadata.labels
    typed = names.INSTANCE_TYPE in labels or labels.get(names.INITIALIZED) == "true"
    return names.NODEPOOL not in labels or (bool(node.spec.provider_id) and typed)


def waits_for_claim(node: Node) -> bool:
    """Whether a Node of ours is not registered. Without a claim no pod is planned on it: its claim was deleted, and its
    instance is terminated or will be."""
    return any(taint.key == names.UNREGISTERED_TAINT for taint in node.spec.taints)


def claim_of_node(same_provider_id: Iterable[NodeClaim], names_node: Iterable[NodeClaim]) -> NodeClaim | None:
    """The launched claim of a node, from the claims with its provider id and those that name it in their status. Of
    several it is the last by name."""
    for found in (same_provider_id, names_node):
        launched = [claim for claim in found if claim.status.provider_id]
        if launched:
            return max(launched, key=lambda claim: claim.metadata.name)
    return None


def pairs(nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> tuple[NodeAndClaim, ...]:
    """Each node with its claim, and each claim that was launched and has no node (ST-5, ST-6)."""
    launched = sorted((c for c in claims if c.status.provider_id), key=lambda c: c.metadata.name)
    by_id: dict[str, list[NodeClaim]] = {}
    by_name: dict[str, list[NodeClaim]] = {}
    for claim in launched:
        by_id.setdefault(claim.status.provider_id or "", []).append(claim)
        by_name.setdefault(claim.status.node_name or "", []).append(claim)
    paired = [
        NodeAndClaim(n, claim_of_node(by_id.get(n.spec.provider_id, ()), by_name.get(n.metadata.name, ())))
        for n in nodes
    ]
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
    """The node; `to_delete` when we decided to delete it and the API server does not know yet; `full` when it has pods that
    cannot be read: what they request is not known, so nothing more is planned onto it."""
    node, claim = pair.node, pair.claim
    has = node.status if node is not None else NodeStatus()
    promised = claim.status if claim is not None else NodeClaimStatus()
    initialized = pair.initialized
    labels = _labels(pair)
    if _is_rebooting(pair):
        pods = (pod for pod in pods if not pod.terminating)  # gone before it is back
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
        deleting=to_delete or _is_deleting(pair),
        nominated=nominated,
        last_pod_event_s=times.epoch_s_or_none(promised.last_pod_event_time),
        volume_limits=volume_limits,
    )


def counts_for(pair: NodeAndClaim) -> tuple[str, Resources] | None:
    """The NodePool that the node counts for, and what it has; None: it counts for none, or no longer (ST-14)."""
    node, claim = pair.node, pair.claim
    pool = _labels(pair).get(names.NODEPOOL)
    if not pool or _is_deleting(pair):
        return None
    has = node.status.capacity if node is not None else {}
    promised = claim.status.capacity if claim is not None else {}
    return pool, _amounts(has, promised, initialized=pair.initialized)


def volume_limits(csi_node: CSINode | None, of_type: Limits) -> Limits:
    """What the node's drivers report; of one that has not reported, what its instance type states (S-95).

    A driver that reports no count attaches as many as one likes.
    """
    reported = {driver.name: driver.allocatable for driver in (csi_node and csi_node.spec.drivers) or ()}
    counts = {name: a.count for name, a in reported.items() if a is not None and a.count is not None}
    stated = {name: count for name, count in of_type if name not in reported}
    return tuple(sorted((stated | counts).items()))


def stated_limits(types: Iterable[Iterable[InstanceType]]) -> dict[str, Limits]:
    """What instance types state, by their names."""
    return {one.name: one.volume_limits for some in types for one in some}


def is_ready(node: Node) -> bool:
    """Whether its kubelet says that it can run pods."""
    return any(c.type == conditions.READY and c.status == conditions.TRUE for c in node.status.conditions)


def _labels(pair: NodeAndClaim) -> dict[str, str]:
    obj = pair.node if pair.node is not None and pair.registered else pair.claim
    assert obj is not None
    return {names.HOSTNAME: pair.name} | obj.metadata.labels


def _taints(pair: NodeAndClaim) -> tuple[taints.Taint, ...]:
    """All that it has or, while it starts or reboots, those that will last (S-52)."""
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
    """InvalidInput where `view` leaves something out."""
    for obj in (pair.node, pair.claim):
        if obj is not None:
            resources.parse(obj.status.capacity)
            resources.parse(obj.status.allocatable)
    for wire in pair.node.spec.taints if pair.node is not None else ():
        nodepools.taint(wire)
    if pair.claim is not None:
        claim_taints(pair.claim)


def claim_taints(claim: NodeClaim) -> tuple[taints.Taint, ...]:
    """Those of the spec, which last, and those for the start."""
    return tuple(map(nodepools.taint, (*claim.spec.taints, *claim.spec.startup_taints)))


def _amounts(of_node: Wire, of_claim: Wire, *, initialized: bool) -> Resources:
    """Of a node that starts, what is zero or not there yet is taken from its claim (S-61)."""
    there = resources.parse_readable(of_node)
    if initialized:
        return there
    known = Resources(tuple((name, amount) for name, amount in there.amounts if amount))
    return resources.parse_readable(of_claim).replace(known)


def _is_deleting(pair: NodeAndClaim) -> bool:
    """ST-13, but for the mark in memory; and no pod is planned on a claim whose Node is missing."""
    if pair.claim is None:
        assert pair.node is not None
        return pair.node.metadata.deletion_timestamp is not None
    found = pair.claim.status.conditions
    return (
        pair.claim.metadata.deletion_timestamp is not None
        or conditions.holds(found, claim_conditions.INSTANCE_TERMINATING)
        or conditions.holds(found, claim_conditions.NODE_NOT_FOUND)
    )
