"""Sets labels, annotations, capacity and conditions of a NodeClaim after its launch.

Called by `launch`. It changes the draft and writes nothing.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.controllers.claim_draft import Draft
from holdfast.model import resources
from holdfast.model.instances import Instance
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.resources import Resources
from holdfast.state.conversion import claims, reservation_condition

_SET_BY_CLOUD: Final = (names.INSTANCE_TYPE, names.ZONE, names.CAPACITY_TYPE)  # never set by users


def fill(
    draft: Draft, instance: Instance, types: Iterable[InstanceType], well_known: AbstractSet[str]
) -> Offering | None:
    """Returns the offering of the instance, if it is known. Labels of the claim override labels of the instance;
    annotations of the instance override annotations of the claim (NC-9). Labels that an earlier launch wrote for
    another instance are removed."""
    known = next((one for one in types if one.name == instance.instance_type), None)
    offering = offering_of(instance, known)
    of_instance, own = dict(instance.labels), draft.labels
    if any(key in own and own[key] != of_instance.get(key) for key in _SET_BY_CLOUD):
        own = {key: own[key] for key in own if key not in well_known or key == names.NODEPOOL}
    draft.labels = of_instance | own
    draft.annotations |= dict(instance.annotations)
    if claims.held_reservation(draft.annotations) is not None and instance.reservation_id is not None:
        draft.annotations[names.RESERVATION_ID] = instance.reservation_id
        draft.annotations.pop(names.RESERVATION_ID_BEFORE_0_2, None)
    draft.annotations.pop(names.HELD_FOR, None)
    draft.annotations.pop(names.INSTANCE_GONE, None)
    if draft.annotations.pop(names.WAITS_FOR_INSTANCE, None) is not None:
        draft.conditions.restart(claim_conditions.REGISTERED)  # the wait does not count as lateness
    capacity, allocatable = _amounts(known, offering)
    draft.fill(
        provider_id=instance.provider_id,
        image_id=instance.image_id or None,
        capacity=_wire(capacity.without(instance.lacks)),
        allocatable=_wire(allocatable.without(instance.lacks)),
    )
    draft.conditions.put(claim_conditions.LAUNCHED, conditions.TRUE)
    if instance.capacity_type == names.RESERVED:
        draft.conditions.put(reservation_condition.TYPE, conditions.TRUE, reservation_condition.AVAILABLE)
    return offering


def offering_of(instance: Instance, known: InstanceType | None) -> Offering | None:
    """The offering of the instance."""
    reserved = instance.reservation_id if instance.capacity_type == names.RESERVED else None
    key = (instance.zone, instance.capacity_type, reserved)
    offerings = known.offerings if known is not None else ()
    return next((o for o in offerings if (o.zone, o.capacity_type, o.reservation_id) == key), None)


def _amounts(known: InstanceType | None, offering: Offering | None) -> tuple[Resources, Resources]:
    if known is None:
        return resources.NOTHING, resources.NOTHING
    if offering is None:
        return known.capacity, known.allocatable
    return known.capacity.replace(offering.capacity_override), known.allocatable_of(offering)


def _wire(amounts: Resources) -> dict[str, str | int]:
    return {name: resources.text(name, amount) for name, amount in amounts.amounts}
