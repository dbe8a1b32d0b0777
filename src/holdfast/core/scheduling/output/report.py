"""What the provisioner reports about a plan: pod events, unusable NodePools, and pending pods by zone.

Every unplaced pod gets an event, also a pod that waits for a slot; Karpenter defers those without one (S-102). Only a
pod that excludes all NodePools gets none: Holdfast launches no nodes for it (S-7).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast import names
from holdfast.core.scheduling.input import columns
from holdfast.core.scheduling.input.request import MinValuesPolicy, SolveRequest
from holdfast.core.scheduling.output.plan import Plan, PlannedClaim
from holdfast.core.scheduling.output.suitability import FITS
from holdfast.core.scheduling.output.usable_types import FILTERED
from holdfast.model import wording
from holdfast.model.pods import PodShape
from holdfast.model.reasons import ReasonCode, sentences
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import NodePoolView, Snapshot
from holdfast.model.taints import TOLERATE_PREFERENCES, first_untolerated

NOMINATED: Final = "Nominated"
FAILED_SCHEDULING: Final = "FailedScheduling"
NOT_RESERVED: Final = "NotReserved"
FLEXIBLE: Final = "flexible"
NO_ZONE: Final = "none"
_CAUSES_MAX: Final = 3  # in one event; the NodeClaim has all
# Nothing was meant to be reserved: a user who selects no reservation needs no event on every pod.
_NOT_MEANT: Final = (
    ReasonCode.NO_RESERVATION_SELECTED,
    ReasonCode.POOL_EXCLUDES_RESERVED,
    ReasonCode.EXCLUDES_RESERVED,
)
_OTHERS: Final = "NodePools of another autoscaler:"


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An event on a pod. It is a warning if a user has to act; waiting for a slot is not."""

    pod: str
    event: str
    text: str
    warning: bool = False


def events(plan: Plan, other_pools: Sequence[str] = ()) -> tuple[PodEvent, ...]:
    """Events on pods placed on existing nodes and on unplaced pods. Pods of a claim get theirs once it has a name.

    `other_pools`: NodePools of another autoscaler. It may launch a node for an unplaced pod, so the event names them and
    is no warning.
    """
    elsewhere = f"; not considered: {_OTHERS} {wording.listed(other_pools)}" if other_pools else ""
    found = [
        PodEvent(uid, NOMINATED, f"Pod should schedule on: node/{one.node}")
        for one in plan.placed
        for uid in one.pods
    ]
    for one in plan.unplaced:
        if any(reason.code is ReasonCode.EXCLUDES_NODE_POOLS for reason in one.reasons):
            continue
        warning = one.waits_for is None and not other_pools
        found.append(
            PodEvent(one.pod, FAILED_SCHEDULING, f"{sentences(one.reasons)}{elsewhere}", warning=warning)
        )
    return tuple(sorted(found, key=lambda event: event.pod))


def why_not_reserved(claim: PlannedClaim) -> str:
    """Why the pods of a claim are not in a reservation, for an event; empty if there is nothing to report. Reservations
    that suit the pods and have no slot come first; if there are any, those that do not suit are left out."""
    reasons = [one for one in claim.not_reserved if one.code not in _NOT_MEANT]
    if claim.reservation_id is not None or not reasons:
        return ""
    reasons = [one for one in reasons if one.code in FITS] or reasons
    text = f"Pod is not in a capacity reservation: {sentences(reasons[:_CAUSES_MAX])}"
    return f"{text}; and other causes" if len(reasons) > _CAUSES_MAX else text


def unusable_pools(request: SolveRequest, catalogs: columns.CatalogCache) -> tuple[tuple[str, str], ...]:
    """NodePools for which no node can be launched for any pod, with the reason. A full reservation is healthy: a slot
    may become free (S-14)."""
    settings, found = request.settings, []
    for pool in request.snapshot.node_pools:
        catalog = catalogs.columns(pool.instance_types)
        usable = catalog.compatible_with(pool.requirements) & catalog.healthy
        if not settings.reserved_capacity:
            usable &= ~catalog.reserved
        wanted = [one for one in pool.requirements if one.min_values is not None]
        values = {one.key: catalog.values(one.key, one, usable) for one in wanted} if usable.any() else {}
        if not usable.any():
            found.append((pool.name, FILTERED))
        elif settings.min_values_policy is MinValuesPolicy.STRICT and pool.requirements.min_values_gaps(
            values
        ):
            found.append((pool.name, f"{FILTERED} due to minValues incompatibility"))
    return tuple(found)


def pending_by_zone(snapshot: Snapshot, catalogs: columns.CatalogCache) -> Counter[str]:
    """Pending pods by the only zone they can be in; `flexible` if there are several, `none` if there is none (S-86)."""
    zones = [
        (pool, catalogs.columns(pool.instance_types).values(names.ZONE, pool.requirements.get(names.ZONE)))
        for pool in snapshot.node_pools
    ]
    buckets: dict[PodShape, str] = {}
    found: Counter[str] = Counter()
    for pod in snapshot.pending:
        if pod.shape not in buckets:
            buckets[pod.shape] = _bucket(pod.shape, zones, snapshot.cloud_labels.well_known)
        found[buckets[pod.shape]] += 1
    return found


def _bucket(shape: PodShape, zones: list[tuple[NodePoolView, set[str]]], well_known: frozenset[str]) -> str:
    tolerations = (*shape.tolerations, TOLERATE_PREFERENCES)
    possible: set[str] = set()
    for pool, of_pool in zones:
        if first_untolerated(pool.taints, tolerations):
            continue
        for term in shape.required_terms or (NO_REQUIREMENTS,):
            wanted = shape.node_selector.union(term)
            if not shape.node_selector.intersects(term) or not pool.requirements.compatible(
                wanted, well_known
            ):
                continue
            for topology in shape.volumes.alternatives or (NO_REQUIREMENTS,):
                if wanted.intersects(topology):
                    allowed = wanted.union(topology).get(names.ZONE)
                    possible |= {zone for zone in of_pool if allowed.has(zone)}
    if len(possible) > 1:
        return FLEXIBLE
    return next(iter(possible), NO_ZONE)
