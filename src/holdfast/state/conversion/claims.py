"""Converts a NodeClaim to the one view of it that planning, launches and drift share.

The rules: whether a claim holds a slot is read from the claim itself, so a restart loses no slot; and a claim whose spec
cannot be read holds its slot as well (decisions rows 13 and 22).
"""

from collections.abc import Mapping

from holdfast import errors, names
from holdfast.api import conditions
from holdfast.api.claim_conditions import LAUNCHED, REBOOTING
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model import requirements, resources
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import NOTHING, Resources
from holdfast.model.snapshot import ClaimView, CloudLabels
from holdfast.state.conversion import nodepools, times


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
        launched_s=_since_s(claim, LAUNCHED) or (created_s if claim.status.provider_id else None),
        provider_id=claim.status.provider_id,
        deleting=meta.deletion_timestamp is not None,
        requests=requests(claim),
        preferred_zone=meta.annotations.get(names.PREFERRED_ZONE),
        invalid=invalid,
    )


def held_reservation(annotations: Mapping[str, str]) -> str | None:
    """The reservation whose slot a claim holds, by the annotation of this release or of those before 0.2."""
    return annotations.get(names.RESERVATION_ID) or annotations.get(names.RESERVATION_ID_BEFORE_0_2)


def holding(reservation_id: str | None) -> dict[str, str | None]:
    """The annotations of a claim that holds a slot of this reservation, as a patch; None removes one."""
    return {names.RESERVATION_ID: reservation_id, names.RESERVATION_ID_BEFORE_0_2: None}


def requirements_of(claim: NodeClaim) -> Requirements:
    """InvalidInput where they cannot be read."""
    return requirements.from_expressions(map(nodepools.expression, claim.spec.requirements))


def requests(claim: NodeClaim) -> Resources:
    """What its pods and DaemonSets request; an amount that cannot be read counts as 0."""
    return resources.parse_readable(claim.spec.resources.requests) if claim.spec.resources else NOTHING


def check_requests(claim: NodeClaim) -> None:
    """InvalidInput where what it requests cannot be read."""
    if claim.spec.resources:
        resources.parse(claim.spec.resources.requests)


def has_slot(claim: NodeClaim) -> bool:
    """Whether it holds a slot, or sits in one."""
    meta = claim.metadata
    return (
        held_reservation(meta.annotations) is not None
        or meta.labels.get(names.CAPACITY_TYPE) == names.RESERVED
    )


def _occupied(claim: NodeClaim, labels: CloudLabels) -> str | None:
    """The reservation of a claim that another autoscaler launched: its labels say where it ended up."""
    if claim.metadata.labels.get(names.CAPACITY_TYPE) != names.RESERVED or labels.reservation_id is None:
        return None
    return claim.metadata.labels.get(labels.reservation_id)


def _since_s(claim: NodeClaim, condition: str) -> int | None:
    found = conditions.find(claim.status.conditions, condition)
    if found is None or found.status != conditions.TRUE:
        return None
    return times.epoch_s(found.last_transition_time)
