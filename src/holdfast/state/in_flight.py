"""A NodeClaim that was written and not launched yet, as the node it will most likely be.

Called when a snapshot of a running cluster is taken, so that a slow launch neither stalls other pods nor lets its own
pods be planned twice. The rule: what it will be follows from the claim and the catalog alone, so a restart sees the
same: the cheapest offering that its requirements allow or, of a claim that holds a slot, that slot's. A claim that
cannot be read will not be launched, so it offers nothing.
"""

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model import resources, taints
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.snapshot import CloudLabels, NodeView
from holdfast.state import claims, nodes

Found = tuple[InstanceType, Offering] | None
Memory = dict[tuple[object, ...], Found]  # what claims that ask for the same will be; good for one catalog


def view(
    claim: NodeClaim, types: tuple[InstanceType, ...], labels: CloudLabels, memory: Memory | None = None
) -> NodeView:
    """The node. Where nothing in the catalog suits the claim, it is as large as its pods need, and no larger."""
    meta, spec = claim.metadata, claim.spec
    wanted = claims.readable_requirements(claim)
    found = _remembered(claim, wanted, types, labels, memory if memory is not None else {})
    needs = resources.parse_readable(spec.resources.requests) if spec.resources else resources.NOTHING
    known = _single_values(wanted or NO_REQUIREMENTS)
    allocatable = capacity = needs
    if found is not None:
        type_, offering = found
        known |= _single_values(type_.requirements) | _single_values(offering.requirements)
        allocatable, capacity = type_.allocatable_of(offering), type_.capacity
    if names.WAITS_FOR_INSTANCE in meta.annotations:
        # It may come late, so what is left of its cpu and memory is promised to no other pod. How many pods share what was
        # asked for is free: kube-scheduler binds some of its pods elsewhere, and others are planned in their place.
        allocatable = resources.of(dict(needs.amounts) | {resources.PODS: allocatable[resources.PODS]})
    startup = [nodes.taint(t) for t in spec.startup_taints]
    return NodeView(
        name=meta.name,
        labels=tuple(sorted(({names.HOSTNAME: meta.name} | known | meta.labels).items())),
        allocatable=allocatable,
        capacity=capacity,
        taints=taints.lasting([nodes.taint(t) for t in spec.taints], startup),
        node_pool=meta.labels.get(names.NODEPOOL),
        claim=meta.name,
        initialized=False,
    )


def _remembered(
    claim: NodeClaim,
    wanted: Requirements | None,
    types: tuple[InstanceType, ...],
    labels: CloudLabels,
    memory: Memory,
) -> Found:
    if wanted is None:
        return None
    reservation_id = claims.held_reservation(claim.metadata.annotations)
    asked = (claim.spec.node_class_ref.name, claim.spec.requirements, reservation_id)
    if asked not in memory:
        memory[asked] = _likely(wanted, reservation_id, types, labels)
    return memory[asked]


def _likely(
    wanted: Requirements, reservation_id: str | None, types: tuple[InstanceType, ...], labels: CloudLabels
) -> Found:
    allowed = wanted.get(names.INSTANCE_TYPE)
    found = [
        (type_.order_key(offering), type_.name, offering.zone, type_, offering)
        for type_ in types
        if allowed.has(type_.name) and type_.requirements.intersects(wanted)
        for offering in type_.offerings
        if (offering.reservation_id == reservation_id if reservation_id else offering.launchable)
        and wanted.compatible(offering.requirements, labels.well_known)
    ]
    if not found:
        return None
    *_, type_, offering = min(found, key=lambda one: one[:3])
    return type_, offering


def _single_values(wanted: Requirements) -> dict[str, str]:
    return {r.key: next(iter(r.values)) for r in wanted if not r.complement and len(r.values) == 1}
