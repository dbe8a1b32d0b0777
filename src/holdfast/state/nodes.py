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
from holdfast.state import nodepools, times

Limits = tuple[tuple[str, int], ...]
"""Volumes that can be attached, by storage driver."""

Wire = Mapping[str, str | int] | Mapping[str, str | int | float]


class Halves(NamedTuple):
    """A node as the API server has it: a Node, a NodeClaim that was launched, or both."""

    node: Node | None
    claim: NodeClaim | None

    @property
    def name(self) -> str:
        half = self.node if self.node is not None else self.claim
        assert half is not None, "a node has at least one half"
        return half.metadata.name

    @property
    def instance_type(self) -> str:
        """What it states, or nothing."""
        half = self.node if self.node is not None else self.claim
        assert half is not None, "a node has at least one half"
        return half.metadata.labels.get(names.INSTANCE_TYPE, "")

    @property
    def registered(self) -> bool:
        """A node that is not ours registered long ago."""
        return self.claim is None or self._label(names.REGISTERED) == "true"

    @property
    def initialized(self) -> bool:
        return self.claim is None or (self.registered and self._label(names.INITIALIZED) == "true")

    def _label(self, key: str) -> str | None:
        return self.node.metadata.labels.get(key) if self.node is not None else None


def is_known(node: Node) -> bool:
    """Whether a Node says which machine and which type it is. One of a pool that does not yet is left out of the
    world, and its claim speaks for it (ST-5)."""
    labels = node.metadata.labels
    typed = names.INSTANCE_TYPE in labels or labels.get(names.INITIALIZED) == "true"
    return names.NODEPOOL not in labels or (bool(node.spec.provider_id) and typed)


def waits_for_claim(node: Node) -> bool:
    """Whether a Node of ours is not registered. Without a claim it is nobody's home: its claim has been ended, and its
    machine is or will be."""
    return any(taint.key == names.UNREGISTERED_TAINT for taint in node.spec.taints)


def pair(nodes: Iterable[Node], claims: Iterable[NodeClaim]) -> tuple[Halves, ...]:
    """Each node with its claim, and each claim that was launched and has no node (ST-5, ST-6).

    They belong together by provider id; a claim that names a node in its status has that one. Of several claims for one
    node it is the last by name.
    """
    nodes = tuple(nodes)
    launched = sorted((c for c in claims if c.status.provider_id), key=lambda c: c.metadata.name)
    by_id = {claim.status.provider_id: claim for claim in launched}
    by_name = {claim.status.node_name: claim for claim in launched if claim.status.node_name}
    paired = [Halves(n, by_id.get(n.spec.provider_id) or by_name.get(n.metadata.name)) for n in nodes]
    taken = {halves.claim.metadata.name for halves in paired if halves.claim is not None}
    return (*paired, *(Halves(None, claim) for claim in launched if claim.metadata.name not in taken))


def view(
    halves: Halves,
    pods: Iterable[PodView] = (),
    *,
    marked: bool = False,
    nominated: bool = False,
    full: bool = False,
    volume_limits: Limits = (),
) -> NodeView:
    """The node; `marked` when we decided to delete it and the API server does not know yet; `full` when it has pods that
    cannot be read: what they request is not known, so nothing more is planned onto it."""
    node, claim = halves.node, halves.claim
    has = node.status if node is not None else NodeStatus()
    promised = claim.status if claim is not None else NodeClaimStatus()
    initialized = halves.initialized
    labels = _labels(halves)
    if _is_rebooting(halves):
        pods = (pod for pod in pods if not pod.terminating)  # gone before it is back
    return NodeView(
        name=halves.name,
        labels=tuple(sorted(labels.items())),
        allocatable=resources.NOTHING
        if full
        else _amounts(has.allocatable, promised.allocatable, initialized=initialized),
        capacity=_amounts(has.capacity, promised.capacity, initialized=initialized),
        taints=_taints(halves),
        pods=tuple(sorted(pods, key=lambda pod: pod.full_name)),
        provider_id=(node.spec.provider_id if node is not None else "") or promised.provider_id,
        node_pool=labels.get(names.NODEPOOL),
        claim=claim.metadata.name if claim is not None else None,
        initialized=initialized,
        deleting=marked or _is_deleting(halves),
        nominated=nominated,
        last_pod_event_s=times.epoch_s_or_none(promised.last_pod_event_time),
        volume_limits=volume_limits,
    )


def counts_for(halves: Halves) -> tuple[str, Resources] | None:
    """The NodePool that the node counts for, and what it has; None: it counts for none, or no longer (ST-14)."""
    node, claim = halves.node, halves.claim
    pool = _labels(halves).get(names.NODEPOOL)
    if not pool or _is_deleting(halves):
        return None
    has = node.status.capacity if node is not None else {}
    promised = claim.status.capacity if claim is not None else {}
    return pool, _amounts(has, promised, initialized=halves.initialized)


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


def _labels(halves: Halves) -> dict[str, str]:
    half = halves.node if halves.node is not None and halves.registered else halves.claim
    assert half is not None
    return {names.HOSTNAME: halves.name} | half.metadata.labels


def _taints(halves: Halves) -> tuple[taints.Taint, ...]:
    """All that it has or, while it starts or reboots, those that will last (S-52)."""
    node, claim = halves.node, halves.claim
    if node is not None and halves.registered:
        found = [taint(t) for t in node.spec.taints]
    else:
        assert claim is not None
        found = [taint(t) for t in claim.spec.taints]
    if halves.initialized and not _is_rebooting(halves):
        return tuple(found)
    return taints.lasting(found, [taint(t) for t in claim.spec.startup_taints] if claim else ())


def _is_rebooting(halves: Halves) -> bool:
    return halves.node is not None and any(t.key == names.REBOOTING_TAINT for t in halves.node.spec.taints)


def taint(wire: Taint | NodeTaint) -> taints.Taint:
    try:
        return nodepools.taint(wire)
    except errors.InvalidInput:
        return taints.Taint(wire.key, taints.Effect.NO_SCHEDULE, wire.value or "")


def check(halves: Halves) -> None:
    """InvalidInput where `view` leaves something out."""
    for half in (halves.node, halves.claim):
        if half is not None:
            resources.parse(half.status.capacity)
            resources.parse(half.status.allocatable)
    for wire in halves.node.spec.taints if halves.node is not None else ():
        nodepools.taint(wire)
    if halves.claim is not None:
        claim_taints(halves.claim)


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


def _is_deleting(halves: Halves) -> bool:
    """ST-13, but for the mark in memory; and no pod is planned on a claim whose Node is missing."""
    if halves.claim is None:
        assert halves.node is not None
        return halves.node.metadata.deletion_timestamp is not None
    found = halves.claim.status.conditions
    return (
        halves.claim.metadata.deletion_timestamp is not None
        or conditions.holds(found, claim_conditions.INSTANCE_TERMINATING)
        or conditions.holds(found, claim_conditions.NODE_NOT_FOUND)
    )
