"""A NodeClaim that was written and not launched yet, as the node it will most likely be.

A snapshot of a running cluster includes such nodes, so a slow launch neither stalls other pods nor lets its own pods be
planned twice. The rule: the node follows from the claim and the catalog alone, so a restart computes the same node: the
cheapest offering that the claim can become. A claim that cannot be read is not launched, so it has no offering.
"""

from dataclasses import replace

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model import resources, taints
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirements import Requirements
from holdfast.model.snapshot import ClaimView, CloudLabels, NodeView
from holdfast.state.conversion import claims, nodes

# The offerings of claims that ask for the same, cheapest first; valid for one catalog.
Cache = dict[tuple[object, ...], list[tuple[InstanceType, Offering]]]


def view(
    claim: NodeClaim, types: tuple[InstanceType, ...], labels: CloudLabels, cache: Cache | None = None
) -> NodeView:
    """The node. Where nothing in the catalog suits the claim, it is as large as its pods need, and no larger."""
    meta, spec = claim.metadata, claim.spec
    wanted = claims.view(claim, labels)
    found = _cheapest(claim, wanted, types, labels, {} if cache is None else cache)
    known = _single_values(wanted.requirements)
    allocatable = capacity = wanted.requests
    if found is not None:
        type_, offering = found
        known |= _single_values(type_.requirements) | _single_values(offering.requirements)
        allocatable, capacity = type_.allocatable_of(offering), type_.capacity
    if wanted.waits_for_instance:
        # It may come late, so what is left of its cpu and memory is promised to no other pod. How many pods share what was
        # asked for is free: kube-scheduler binds some of its pods elsewhere, and others are planned in their place.
        allocatable = resources.of(
            dict(wanted.requests.amounts) | {resources.PODS: allocatable[resources.PODS]}
        )
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


def _cheapest(
    claim: NodeClaim, wanted: ClaimView, types: tuple[InstanceType, ...], labels: CloudLabels, cache: Cache
) -> tuple[InstanceType, Offering] | None:
    """Claims of one plan differ in their requests alone, so the offerings are found once, whatever the requests."""
    spec = claim.spec
    key = (spec.node_class_ref.name, spec.requirements, wanted.reservation_id, wanted.preferred_zone)
    if wanted.invalid:
        return None
    if key not in cache:
        cache[key] = replace(wanted, requests=resources.NOTHING).offerings(types, labels)
    return next((one for one in cache[key] if wanted.requests.fits(one[0].allocatable_of(one[1]))), None)


def _single_values(wanted: Requirements) -> dict[str, str]:
    return {r.key: next(iter(r.values)) for r in wanted if not r.complement and len(r.values) == 1}
