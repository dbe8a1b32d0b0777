"""A NodeClaim that was written and not launched yet, as the node it will most likely be.

Called when a snapshot of a running cluster is taken, so that a slow launch neither stalls other pods nor lets its own
pods be planned twice. The rule: what it will be follows from the claim and the catalog alone, so a restart sees the
same: the cheapest offering that its requirements allow or, of a claim that holds a slot, that slot's. A claim that
cannot be read will not be launched, so it offers nothing.
"""

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model import resources, taints
from holdfast.model.claim_needs import ClaimNeeds
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import Resources
from holdfast.model.snapshot import CloudLabels, NodeView
from holdfast.state import claims, nodes

Found = tuple[InstanceType, Offering] | None
# The offerings of claims that ask for the same, cheapest first; good for one catalog.
Memory = dict[tuple[object, ...], list[tuple[InstanceType, Offering]]]


def view(
    claim: NodeClaim, types: tuple[InstanceType, ...], labels: CloudLabels, memory: Memory | None = None
) -> NodeView:
    """The node. Where nothing in the catalog suits the claim, it is as large as its pods need, and no larger."""
    meta, spec = claim.metadata, claim.spec
    wanted = claims.readable_requirements(claim)
    needs = resources.parse_readable(spec.resources.requests) if spec.resources else resources.NOTHING
    found = None
    if wanted is not None:
        found = _likely(claim, wanted, needs, types, labels, {} if memory is None else memory)
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


def _likely(
    claim: NodeClaim,
    wanted: Requirements,
    requests: Resources,
    types: tuple[InstanceType, ...],
    labels: CloudLabels,
    memory: Memory,
) -> Found:
    annotations = claim.metadata.annotations
    reservation_id, zone = claims.held_reservation(annotations), annotations.get(names.PREFERRED_ZONE)
    asked = (claim.spec.node_class_ref.name, claim.spec.requirements, reservation_id, zone)
    if asked not in memory:
        needs = ClaimNeeds(requirements=wanted, reservation_id=reservation_id, preferred_zone=zone)
        memory[asked] = needs.offerings(types, labels)
    return next((one for one in memory[asked] if requests.fits(one[0].allocatable_of(one[1]))), None)


def _single_values(wanted: Requirements) -> dict[str, str]:
    return {r.key: next(iter(r.values)) for r in wanted if not r.complement and len(r.values) == 1}
