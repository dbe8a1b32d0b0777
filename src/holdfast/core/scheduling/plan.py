"""What `solve` answers: where each pod goes, what is to be launched, and why not otherwise.

Read by whoever writes NodeClaims, by `holdfast plan`, and by reports. Every pod of the request is in it exactly
once: on a node that exists, in a claim, or unplaced with a reason.
"""

from dataclasses import dataclass

from holdfast import names
from holdfast.model.reasons import Reason
from holdfast.model.requirements import Requirements
from holdfast.model.resources import Resources


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A node to launch. With a slot it is reserved; without, `reserved` is not among its capacity types."""

    node_pool: str
    requirements: Requirements  # everything that is written, instance types and capacity types included
    instance_types: tuple[str, ...]  # that will do, cheapest first
    instance_type: str  # the one the plan counts on
    zone: str
    capacity_type: str
    price_nano_usd_per_hour: int | None  # what it adds to the bill: 0 in a slot, None when unknown
    requests: Resources  # of its pods and DaemonSets
    pods: tuple[str, ...]  # uids, sorted
    reservation_id: str | None = None
    reservation_ids: tuple[str, ...] = ()  # every reservation that would do, the slot's included
    min_values_relaxed: bool = False

    @property
    def annotations(self) -> dict[str, str]:
        """What is written on the claim itself: whether minValues were lowered, and the slot it holds or the zone that is
        preferred for it."""
        relaxed = {names.MIN_VALUES_RELAXED: "true" if self.min_values_relaxed else "false"}
        where = (
            {names.PREFERRED_ZONE: self.zone}
            if self.reservation_id is None
            else {names.RESERVATION_ID: self.reservation_id}
        )
        return relaxed | where


@dataclass(frozen=True, slots=True)
class Placed:
    """Pods that go on a node that exists or is on its way."""

    node: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod without a node. One that waits names the reservation it waits for, and until when."""

    pod: str
    reasons: tuple[Reason, ...]  # for each NodePool, in the order they were tried
    waits_for: str | None = None
    waits_until_s: int | None = None


@dataclass(frozen=True, slots=True)
class NotReserved:
    """Why a pod that got something else did not get a reserved slot: each reservation is in one of the reasons."""

    pod: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    claims: tuple[PlannedClaim, ...]
    placed: tuple[Placed, ...]
    unplaced: tuple[Unplaced, ...]
    price_nano_usd_per_hour: int  # of all claims whose price is known
    baseline_nano_usd_per_hour: int  # what first fit alone would cost
    baseline_unplaced: int  # and how many pods it would leave without a place
    packing: str  # which packing was kept
    slots_left: tuple[tuple[str, int], ...]  # free slots that nobody needed, by reservation
    not_reserved: tuple[NotReserved, ...] = ()
    baseline_nodes: int = 0  # how many nodes first fit alone would buy
    node_cost_nano: int = 0  # what each of them counts beside its price, an hour  # only when asked for
