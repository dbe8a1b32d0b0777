"""Plans the launches of a fleet: its strategies, one function for each target capacity type.

Called by `fleet`, before anything is written. It implements the appendix of the reservation design, row by row
(docs/fidelity-ec2.md). A pool with fewer instances than requested is in the plan with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.sim.ec2 import prices
from holdfast.sim.ec2.capacity import FULL, Capacity, Failure, Part, Pool
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, ONLY_RESERVED, Reservation
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request

_DEEP: Final = 5  # of ten: price-capacity-optimized prefers spot pools from this depth on
_NOT_USED: Final = Failure(
    "UnfulfillableCapacity",
    "Launch templates that target Capacity Reservations are not used with use-capacity-reservations-first.",
)

Draw = Callable[[Pool, int], tuple[list[Part], Failure | None]]


@dataclass(slots=True)
class Plan:
    """The launches of a fleet, and why there are not more."""

    parts: list[Part] = field(default_factory=list)
    failures: list[tuple[Pool, Failure]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    def fill(self, pools: list[Pool], wanted: int, draw: Draw) -> None:
        """Draws from each pool in turn, until there are enough instances."""
        for pool in pools:
            if self.count >= wanted:
                return
            parts, failure = draw(pool, wanted - self.count)
            self.parts += parts
            if failure:
                self.failures.append((pool, failure))


def plan(region: RegionState, request: Request, kind: str, pools: list[Pool], wanted: int) -> Plan:
    """The plan for all pools, or, with SingleInstanceType or SingleAvailabilityZone, for the type or zone with most
    instances."""
    options = request.get("SpotOptions" if kind == "spot" else "OnDemandOptions", {})
    ordered = _ordered(kind, request, pools)
    groups: dict[tuple[str, str], list[Pool]] = {}
    for pool in ordered:
        by_type = pool.instance_type if options.get("SingleInstanceType") else ""
        by_zone = pool.zone_id if options.get("SingleAvailabilityZone") else ""
        groups.setdefault((by_type, by_zone), []).append(pool)
    tried = []
    for group in groups.values():
        tried.append(_PLANS[kind](region, request, group, wanted))
        if tried[-1].count >= wanted:
            return tried[-1]
    return max(tried, key=lambda each: each.count, default=Plan())


def _ordered(kind: str, request: Request, pools: list[Pool]) -> list[Pool]:
    if kind == "spot":
        strategy = request.get("SpotOptions", {}).get("AllocationStrategy", "lowest-price")
        return sorted(pools, key=lambda pool: _spot_order(strategy, pool))
    if kind == "reserved-capacity":
        strategy = request.get("ReservedCapacityOptions", {}).get("AllocationStrategy", "")
        return sorted(pools, key=lambda pool: pool.priority) if strategy == "prioritized" else pools
    strategy = request.get("OnDemandOptions", {}).get("AllocationStrategy", "lowest-price")
    return sorted(pools, key=lambda pool: pool.priority if strategy == "prioritized" else pool.price)


def _spot_order(strategy: str, pool: Pool) -> tuple[float, float]:
    depth = prices.spot_depth(pool.instance_type, pool.zone_id)
    match strategy:
        case "capacity-optimized":
            return -depth, 0
        case "capacity-optimized-prioritized":
            return -depth, pool.priority
        case "price-capacity-optimized":
            return depth < _DEEP, pool.price
        case _:
            return 0, pool.price


def _plan_on_demand(region: RegionState, request: Request, pools: list[Pool], wanted: int) -> Plan:
    capacity, plan = Capacity(region, request.account), Plan()
    usage = request.get("OnDemandOptions", {}).get("CapacityReservationOptions", {}).get("UsageStrategy")
    if not usage:
        plan.fill(pools, wanted, capacity.on_demand)
        return plan
    untargeted = [pool for pool in pools if not pool.spec.targets]
    for pool in untargeted:
        if pool.spec.preference != "none":
            inside, _ = capacity.reserved(pool, wanted - plan.count, capacity.candidates(pool))
            plan.parts += inside
    free = [pool for pool in untargeted if pool.spec.preference != ONLY_RESERVED]
    plan.fill(free, wanted, lambda pool, count: capacity.plain(pool, count, "on-demand"))
    if plan.count < wanted:
        plan.failures += [(p, _NOT_USED if p.spec.targets else FULL) for p in pools if p not in free]
    return plan


def _plan_spot(region: RegionState, request: Request, pools: list[Pool], wanted: int) -> Plan:
    capacity, plan = Capacity(region, request.account), Plan()

    def draw(pool: Pool, count: int) -> tuple[list[Part], Failure | None]:
        if pool.spec.targets or pool.spec.preference == ONLY_RESERVED:
            return [], Failure(
                "InvalidParameterCombination", "Spot Instances cannot use a Capacity Reservation."
            )
        return capacity.plain(pool, count, "spot")

    plan.fill(pools, wanted, draw)
    return plan


def _plan_block(region: RegionState, request: Request, pools: list[Pool], wanted: int) -> Plan:
    capacity, plan = Capacity(region, request.account), Plan()

    def draw(pool: Pool, count: int) -> tuple[list[Part], Failure | None]:
        failure = capacity.unusable(pool, pool.spec.target_id, CAPACITY_BLOCK)
        if failure:
            return [], failure
        return capacity.reserved(pool, count, [region.reservations[pool.spec.target_id]])

    plan.fill(pools, wanted, draw)
    return plan


def _plan_reserved(region: RegionState, request: Request, pools: list[Pool], wanted: int) -> Plan:
    """Draws from each type of reservation over all pools, then on demand if the request allows it."""
    capacity, plan = Capacity(region, request.account), Plan()
    options = request.get("ReservedCapacityOptions", {})
    for kind in options.get("ReservationTypes", ()):
        for pool in pools:
            candidates = _candidates(region, options, pool, kind)
            inside, _ = capacity.reserved(
                pool, wanted - plan.count, [r for r in candidates if capacity.takes(pool, r)]
            )
            plan.parts += inside
    if plan.count < wanted:
        plan.failures += [(pool, FULL) for pool in pools]
    if "on-demand" in options.get("ReservedCapacityFallbackOptions", {}).get("MarketTypes", ()):
        cheapest = sorted((p for p in pools if not p.spec.market), key=lambda pool: pool.price)
        plan.fill(cheapest, wanted, lambda pool, count: capacity.plain(pool, count, "on-demand"))
    return plan


def _candidates(region: RegionState, options: dict[str, Any], pool: Pool, kind: str) -> list[Reservation]:
    """The targets of the request, else of the template, else all that match; of ordinary reservations only open
    ones."""
    if pool.spec.market not in {"", kind}:
        return []
    found = [each for each in region.reservations if each.reservation_type == kind]
    target = options.get("CapacityReservationTarget", {})
    arns = target.get("CapacityReservationResourceGroupArns", []) or [pool.spec.target_group]
    ids = list(target.get("CapacityReservationIds", [])) or (
        [pool.spec.target_id] if pool.spec.target_id else []
    )
    ids += [member for group in region.groups if group.id in arns for member in group.members]
    if ids or pool.spec.targets or target:
        return [each for each in found if each.id in ids]
    return [each for each in found if kind != "on-demand-capacity-reservation" or each.criteria == "open"]


_PLANS: Final[dict[str, Callable[[RegionState, Request, list[Pool], int], Plan]]] = {
    "on-demand": _plan_on_demand,
    "spot": _plan_spot,
    CAPACITY_BLOCK: _plan_block,
    "reserved-capacity": _plan_reserved,
}
