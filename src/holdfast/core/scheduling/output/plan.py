"""The output of `solve`: a node for each pod, the NodeClaims to create, and reasons.

Every pod of the request is in the plan exactly once: on an existing node, in a claim, or unplaced with a reason.
"""

from dataclasses import dataclass
from typing import NamedTuple

from holdfast import names
from holdfast.model.reasons import Reason
from holdfast.model.requirements import Requirements
from holdfast.model.resources import Resources
from holdfast.model.snapshot import CountBefore


class PlannedClaim(NamedTuple):
    """A NodeClaim to create. Without a slot, `reserved` is not among its capacity types."""

    node_pool: str
    requirements: Requirements  # complete, with instance types and capacity types
    instance_types: tuple[str, ...]  # all that fit, cheapest first
    instance_type: str  # the one that the plan counts on
    zone: str
    capacity_type: str
    price_nano_usd_per_hour: int | None  # 0 in a slot, None if unknown
    requests: Resources  # of its pods and DaemonSets
    pods: tuple[str, ...]  # uids, sorted
    reservation_id: str | None = None
    reservation_ids: tuple[str, ...] = ()  # every reservation that it can use, with `reservation_id`
    min_values_relaxed: bool = False
    counted: CountBefore | None = None  # of its reservation, in the snapshot of the plan
    not_reserved: tuple[
        Reason, ...
    ] = ()  # why it uses none of the reservations; only if the request has `explain_claims`

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the NodeClaim: whether minValues were lowered, and its reservation with the count, or its
        preferred zone."""
        found = {names.MIN_VALUES_RELAXED: "true" if self.min_values_relaxed else "false"}
        if self.reservation_id is None:
            return found | {names.PREFERRED_ZONE: self.zone}
        if self.counted is not None:
            count = self.counted
            found[names.SLOTS_COUNTED] = f"{count.read_s} {count.free} {count.elsewhere} {count.here}"
        return found | {names.RESERVATION_ID: self.reservation_id}


@dataclass(frozen=True, slots=True)
class Placed:
    """Pods that should schedule on an existing node, or on one that is being launched."""

    node: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod without a node. If it waits for a slot, the reservation and the time until which it waits."""

    pod: str
    reasons: tuple[Reason, ...]  # for each NodePool, in the order they were tried
    waits_for: str | None = None
    waits_until_s: int | None = None


@dataclass(frozen=True, slots=True)
class NotReserved:
    """Why a pod is not in a reservation: each reservation is in one of the reasons."""

    pod: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    claims: tuple[PlannedClaim, ...]
    placed: tuple[Placed, ...]
    unplaced: tuple[Unplaced, ...]
    price_nano_usd_per_hour: int  # of all claims whose price is known
    baseline_nano_usd_per_hour: int  # what first fit alone would cost
    baseline_unplaced: int  # how many pods first fit alone would leave unplaced
    packing: str  # the name of the chosen packing
    slots_left: tuple[tuple[str, int], ...]  # slots that stay free, by reservation
    not_reserved: tuple[NotReserved, ...] = ()  # only if the request has `explain_slots`
    baseline_nodes: int = 0  # how many nodes first fit alone would launch on demand or on spot
    node_cost_nano: int = 0  # what each of them costs in addition to its price, an hour
