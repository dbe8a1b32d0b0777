"""Converts a NodeClaim to the view that planning, launches and drift share, and a NodeClaim that is not launched yet to
the node that it most likely becomes.

The hold on a slot is read from the claim itself, so a restart loses no slot; a claim whose spec cannot be parsed holds
its slot as well (decisions rows 13 and 22). A snapshot of a running cluster includes the nodes that are not launched
yet, so a slow launch neither delays other pods nor lets its own pods be planned twice. Such a node is computed from the
claim and the catalog alone, so a restart gives the same node: the cheapest offering that the claim can become. A claim
that cannot be parsed is not launched, so it has no offering.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from holdfast import errors, names
from holdfast.api import conditions
from holdfast.api.claim_conditions import LAUNCHED, REBOOTING
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model import requirements, resources, taints
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import NOTHING, Resources
from holdfast.model.snapshot import ClaimView, CloudLabels, CountBefore, NodeView
from holdfast.state.conversion import nodepools, nodes, times

_COUNTED: Final = re.compile(r"([0-9]{1,12}) (-?[0-9]{1,9}) ([0-9]{1,9})(?: ([0-9]{1,9}))?")

# Offerings by the requirements of claims, cheapest first; valid for one catalog.
Offerings = dict[tuple[object, ...], list[tuple[InstanceType, Offering]]]


def view(claim: NodeClaim, labels: CloudLabels) -> ClaimView:
    meta = claim.metadata
    created_s = times.epoch_s_or_none(meta.creation_timestamp) or 0
    waits_for, rebooting_s = meta.annotations.get(names.WAITS_FOR_INSTANCE), _since_s(claim, REBOOTING)
    held = meta.annotations.get(names.HELD_FOR) if waits_for or rebooting_s is not None else None
    wanted, invalid = NO_REQUIREMENTS, ""
    try:
        wanted = requirements_of(claim)
        check_requests(claim)
    except errors.InvalidInput as error:
        invalid = str(error)
    return ClaimView(
        name=meta.name,
        node_pool=meta.labels.get(names.NODEPOOL),
        requirements=wanted,
        created_s=created_s,
        reservation_id=held_reservation(meta.annotations) or _occupied(claim, labels),
        waits_for_instance=waits_for,
        instance_gone_s=times.moment_s(meta.annotations.get(names.INSTANCE_GONE)),
        held_for=frozenset(held.split()) if held is not None else None,
        rebooting_s=rebooting_s,
        counted=_counted(meta.annotations.get(names.SLOTS_COUNTED, "")),
        launched_s=_since_s(claim, LAUNCHED) or (created_s if claim.status.provider_id else None),
        provider_id=claim.status.provider_id,
        deleting=meta.deletion_timestamp is not None,
        requests=requests(claim),
        preferred_zone=meta.annotations.get(names.PREFERRED_ZONE),
        invalid=invalid,
    )


def _counted(written: str) -> CountBefore | None:
    """The annotation of `PlannedClaim.annotations`, of earlier releases without the last number; None for anything
    else."""
    match = _COUNTED.fullmatch(written)
    return CountBefore(*map(int, match.groups("0"))) if match else None


def in_flight_node(
    claim: NodeClaim, types: tuple[InstanceType, ...], labels: CloudLabels, cache: Offerings | None = None
) -> NodeView:
    """The expected node of a claim. If no offering is compatible, the node's capacity is the claim's requests."""
    meta, spec = claim.metadata, claim.spec
    wanted = view(claim, labels)
    found = _cheapest(claim, wanted, types, labels, {} if cache is None else cache)
    known = _single_values(wanted.requirements)
    allocatable = capacity = wanted.requests
    if found is not None:
        type_, offering = found
        known |= _single_values(type_.requirements) | _single_values(offering.requirements)
        allocatable, capacity = type_.allocatable_of(offering), type_.capacity
    if wanted.waits_for_instance:
        # The node may be late, so its capacity beyond the claim's requests is planned for no other pod. The number of
        # pods is not limited to the requests: kube-scheduler may bind some of the pods elsewhere, and smaller pods
        # replace them.
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


def held_reservation(annotations: Mapping[str, str]) -> str | None:
    """The reservation whose slot a claim holds, from the annotation of this release or of releases before 0.2."""
    return annotations.get(names.RESERVATION_ID) or annotations.get(names.RESERVATION_ID_BEFORE_0_2)


def holding(reservation_id: str | None) -> dict[str, str | None]:
    """The annotations of a claim that holds a slot of this reservation, as a patch; None removes one."""
    return {names.RESERVATION_ID: reservation_id, names.RESERVATION_ID_BEFORE_0_2: None}


def requirements_of(claim: NodeClaim) -> Requirements:
    """Raises InvalidInput if the requirements cannot be parsed."""
    return requirements.from_expressions(map(nodepools.expression, claim.spec.requirements))


def requests(claim: NodeClaim) -> Resources:
    """The requests of the claim's pods and DaemonSets; an amount that cannot be parsed counts as 0."""
    return resources.parse_readable(claim.spec.resources.requests) if claim.spec.resources else NOTHING


def check_requests(claim: NodeClaim) -> None:
    """Raises InvalidInput if the requests cannot be parsed."""
    if claim.spec.resources:
        resources.parse(claim.spec.resources.requests)


def has_slot(claim: NodeClaim) -> bool:
    """Whether the claim holds a slot, or its instance uses one."""
    meta = claim.metadata
    return (
        held_reservation(meta.annotations) is not None
        or meta.labels.get(names.CAPACITY_TYPE) == names.RESERVED
    )


def _occupied(claim: NodeClaim, labels: CloudLabels) -> str | None:
    """The reservation of a claim that another autoscaler launched, from the claim's labels."""
    if claim.metadata.labels.get(names.CAPACITY_TYPE) != names.RESERVED or labels.reservation_id is None:
        return None
    return claim.metadata.labels.get(labels.reservation_id)


def _since_s(claim: NodeClaim, condition: str) -> int | None:
    found = conditions.find(claim.status.conditions, condition)
    if found is None or found.status != conditions.TRUE:
        return None
    return times.epoch_s(found.last_transition_time)


def _cheapest(
    claim: NodeClaim,
    wanted: ClaimView,
    types: tuple[InstanceType, ...],
    labels: CloudLabels,
    cache: Offerings,
) -> tuple[InstanceType, Offering] | None:
    """Claims of one plan often differ in their requests alone, so the cached offerings do not depend on requests."""
    spec = claim.spec
    key = (spec.node_class_ref.name, spec.requirements, wanted.reservation_id, wanted.preferred_zone)
    if wanted.invalid:
        return None
    if key not in cache:
        cache[key] = replace(wanted, requests=resources.NOTHING).offerings(types, labels)
    return next((one for one in cache[key] if wanted.requests.fits(one[0].allocatable_of(one[1]))), None)


def _single_values(wanted: Requirements) -> dict[str, str]:
    return {r.key: next(iter(r.values)) for r in wanted if not r.complement and len(r.values) == 1}
