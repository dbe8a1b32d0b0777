"""Narrows a replacement to the instance types, capacity type and slot that save money.

The command compared prices of certain offerings. All offerings that are not cheaper are removed from the requirements
of the NodeClaim (D-25 to D-27, D-37).
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from holdfast import names
from holdfast.core.disruption.candidates import Candidate
from holdfast.core.disruption.costs import Cost
from holdfast.core.scheduling.output.plan import PlannedClaim
from holdfast.model import requirement
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.requirement import Operator
from holdfast.model.snapshot import CloudLabels, NodePoolView

_FLEXIBLE: Final = 15  # cheaper types that a spot node must have before it is replaced by a spot node (D-27)


def limit_nano(found: Sequence[Candidate], claim: PlannedClaim, before: Cost) -> int:
    """The upper limit of the replacement's price. If it may have the instance type of a candidate, it must be cheaper
    than that candidate alone: otherwise that candidate could be kept (D-37)."""
    same = [
        one.cost.paid_nano
        for one in found
        if len(found) > 1 and one.labels.get(names.INSTANCE_TYPE) in claim.instance_types
    ]
    same = [price for price in same if price]
    return min([before.paid_nano, *same])


def cheaper(
    claim: PlannedClaim, pool: NodePoolView, well_known: AbstractSet[str], limit_nano: int
) -> PlannedClaim | None:
    """The claim with only the types that are cheaper in all of their offerings; None: there are none (D-25)."""
    if not claim.price_nano_usd_per_hour or claim.price_nano_usd_per_hour >= limit_nano:
        return None
    types = {t.name: t for t in pool.instance_types}
    worst = {name: types[name].worst_launch(claim.requirements, well_known) for name in claim.instance_types}
    type_names = [name for name, offering in worst.items() if 0 < _cost(offering) < limit_nano]
    return _only(claim, type_names, types, well_known) if type_names else None


def only_spot(claim: PlannedClaim) -> PlannedClaim:
    spot = requirement.of(names.CAPACITY_TYPE, Operator.IN, (names.SPOT,))
    return claim._replace(requirements=claim.requirements.add(spot), capacity_type=names.SPOT)


def spot_rather_than_on_demand(
    claim: PlannedClaim, pool: NodePoolView, well_known: AbstractSet[str]
) -> PlannedClaim:
    """Removes on-demand: the spot price was compared, and on demand the node could cost more than before (D-26)."""
    allowed = claim.requirements.get(names.CAPACITY_TYPE)
    if not (allowed.has(names.SPOT) and allowed.has(names.ON_DEMAND)):
        return claim
    narrowed = only_spot(claim)
    types = {t.name: t for t in pool.instance_types}
    type_names = [n for n in claim.instance_types if types[n].worst_launch(narrowed.requirements, well_known)]
    return _only(narrowed, type_names, types, well_known) if type_names else claim


def flexible(claim: PlannedClaim, pool: NodePoolView) -> PlannedClaim | Reason:
    """A spot node is replaced by a spot node only if many types are cheaper. The claim lists only the cheapest of them:
    from a longer list the cloud may choose a type that consolidation would replace again (D-27)."""
    count = len(claim.instance_types)
    if count < _FLEXIBLE:
        return Reason(
            BlockedCode.SPOT_TO_SPOT,
            f"SpotToSpotConsolidation requires {_FLEXIBLE} cheaper instance type options than the current candidate to consolidate, got {count}",
        )
    needed = _FLEXIBLE
    while needed < count and breaks_min_values(_listing(claim, claim.instance_types[:needed]), pool):
        needed += 1
    return _listing(claim, claim.instance_types[:needed])


def breaks_min_values(claim: PlannedClaim, pool: NodePoolView) -> bool:
    keys = [r.key for r in claim.requirements if r.min_values is not None]
    if not keys:
        return False
    listed = [t for t in pool.instance_types if t.name in set(claim.instance_types)]
    values = {key: {v for t in listed for v in t.requirements.get(key).values} for key in keys}
    return bool(claim.requirements.min_values_gaps(values))


def pinned(claim: PlannedClaim, labels: CloudLabels) -> PlannedClaim:
    """The claim, restricted to its own slot."""
    assert claim.reservation_id is not None
    assert labels.reservation_id is not None
    only = requirement.of(labels.reservation_id, Operator.IN, (claim.reservation_id,))
    type_ = requirement.of(names.INSTANCE_TYPE, Operator.IN, (claim.instance_type,))
    return claim._replace(
        requirements=claim.requirements.add(only, type_),
        instance_types=(claim.instance_type,),
        reservation_ids=(claim.reservation_id,),
    )


def slot_nano(claim: PlannedClaim, pool: NodePoolView) -> int:
    """The worth of a claim's slot: the on-demand price of its type."""
    found = [
        offering.price_nano_usd_per_hour or 0
        for known in pool.instance_types
        if known.name == claim.instance_type
        for offering in known.offerings
        if offering.reservation_id == claim.reservation_id
    ]
    return found[0] if found else 0


def _only(
    claim: PlannedClaim,
    type_names: Sequence[str],
    types: dict[str, InstanceType],
    well_known: AbstractSet[str],
) -> PlannedClaim:
    """The claim with these types, cheapest first. The plan counts on the first."""
    narrowed = _listing(claim, type_names)
    found = types[type_names[0]].cheapest(narrowed.requirements, well_known)
    assert found is not None, "every listed type can be launched"
    return narrowed._replace(
        instance_type=type_names[0],
        zone=found.zone,
        capacity_type=found.capacity_type,
        price_nano_usd_per_hour=found.price_nano_usd_per_hour,
    )


def _listing(claim: PlannedClaim, type_names: Sequence[str]) -> PlannedClaim:
    listed = requirement.of(names.INSTANCE_TYPE, Operator.IN, type_names)
    return claim._replace(requirements=claim.requirements.add(listed), instance_types=tuple(type_names))


def _cost(offering: Offering | None) -> int:
    return (offering.cost_nano_usd_per_hour or 0) if offering is not None else 0
