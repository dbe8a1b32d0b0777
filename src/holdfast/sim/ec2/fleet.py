"""CreateFleet, type instant: what is launched, where from, and what is said of the rest.

Called by `service`. The rules are the appendix of the reservation design, row by row (docs/fidelity-ec2.md);
above all: what could not be launched is in Errors, with its override, and never left unsaid.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import control, faults, fleet_pools, launch, prices
from holdfast.sim.ec2.capacity import FULL, Capacity, Failure, Part, Pool
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, INTERRUPTIBLE, ONLY_RESERVED, Fleet, Reservation
from holdfast.sim.ec2.requests import Request
from holdfast.sim.ec2.world import World

_CAPACITY_MAX: Final = 1000
_MARKETS: Final = {  # which market types of a template go with a fleet's default target capacity type
    "on-demand": ("", "on-demand"),
    "spot": ("", "spot"),
    CAPACITY_BLOCK: (CAPACITY_BLOCK,),
    "reserved-capacity": ("", CAPACITY_BLOCK, INTERRUPTIBLE),
}
_DEEP: Final = 5  # of ten: the spot pools that price-capacity-optimized prefers
_NOT_USED: Final = Failure(
    "UnfulfillableCapacity",
    "Launch templates that target Capacity Reservations are not used with use-capacity-reservations-first.",
)
_NO_MORE: Final = Failure("InsufficientInstanceCapacity", "We currently do not have sufficient capacity.")

Draw = Callable[[Pool, int], tuple[list[Part], Failure | None]]


@dataclass(slots=True)
class Plan:
    """What a fleet would launch, and why not more."""

    parts: list[Part] = field(default_factory=list)
    failures: list[tuple[Pool, Failure]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    def fill(self, pools: list[Pool], wanted: int, draw: Draw) -> None:
        """From each pool in turn, until there are as many as wanted."""
        for pool in pools:
            if self.count >= wanted:
                return
            parts, failure = draw(pool, wanted - self.count)
            self.parts += parts
            if failure:
                self.failures.append((pool, failure))


def create(world: World, request: Request) -> dict[str, Any]:
    target = _check_target(request)
    kind = target.get("DefaultTargetCapacityType", "on-demand")
    pools, refused = fleet_pools.read(world, request, "spot" if kind == "spot" else kind)
    _check_pools(kind, pools)
    request.proceed()
    _steal(world)
    wanted = target["TotalTargetCapacity"]
    limit = world.faults.strikes(faults.Partial, world.now_s)
    plan = _plan(world, request, kind, pools, min(wanted, limit.at_most) if limit else wanted)
    if limit and plan.count < wanted and not plan.failures and pools:
        plan.failures.append((pools[0], _NO_MORE))
    if plan.count < _least(request, kind):
        plan.parts = []
        plan.failures = plan.failures or [(pool, _NO_MORE) for pool in pools]
    fleet_id, groups = _launch(world, request, plan, wanted)
    errors = [_error(kind, pool.answer, failure, pool.spec.market) for pool, failure in plan.failures]
    errors += [_error(kind, each.answer, each.failure, "") for each in refused]
    assert plan.count >= wanted or errors, "too few instances, and nobody is told why"
    return {"FleetId": fleet_id, "Instances": groups, "Errors": errors}


def _check_target(request: Request) -> dict[str, Any]:
    if request.get("Type", "maintain") != "instant":
        raise ApiError("UnsupportedOperation", "Only fleets of type instant are simulated")
    target: dict[str, Any] = dict(request.need("TargetCapacitySpecification"))
    total = target.get("TotalTargetCapacity", 0)
    if not 1 <= total <= _CAPACITY_MAX:
        raise ApiError(
            "InvalidTargetCapacitySpecification",
            f"The target capacity {total} is not between 1 and {_CAPACITY_MAX}.",
        )
    kind = target.get("DefaultTargetCapacityType", "on-demand")
    if kind not in _MARKETS:
        raise ApiError("InvalidParameterValue", f"Invalid value '{kind}' for DefaultTargetCapacityType.")
    for other in ("OnDemandTargetCapacity", "SpotTargetCapacity", "TargetCapacityUnitType"):
        if target.get(other):
            raise ApiError("UnsupportedOperation", f"{other} is not simulated")
    options = request.get("ReservedCapacityOptions")
    if bool(options) != (kind == "reserved-capacity"):
        raise ApiError(
            "InvalidParameterCombination",
            "ReservedCapacityOptions and the target capacity type reserved-capacity go together.",
        )
    if len((options or {}).get("CapacityReservationTarget", {})) > 1:
        raise ApiError(
            "InvalidParameterCombination",
            "Specify Capacity Reservation ids or resource group ARNs, not both.",
        )
    own = request.get("OnDemandOptions", {})
    if own.get("MinTargetCapacity") and not (
        own.get("SingleInstanceType") or own.get("SingleAvailabilityZone")
    ):
        raise ApiError(
            "InvalidParameterCombination",
            "MinTargetCapacity needs SingleInstanceType or SingleAvailabilityZone.",
        )
    return target


def _check_pools(kind: str, pools: list[Pool]) -> None:
    for pool in pools:
        if pool.spec.market not in _MARKETS[kind]:
            raise ApiError(
                "InvalidFleetConfig",
                f"A launch template with market type '{pool.spec.market}' cannot be used with the target capacity type {kind}.",
            )
    blocks = {pool.spec.target_id for pool in pools if pool.spec.market == CAPACITY_BLOCK}
    if kind == CAPACITY_BLOCK and len(blocks) > 1:
        raise ApiError("InvalidFleetConfig", "A request can use one Capacity Block only.")


def _steal(world: World) -> None:
    taken = world.faults.strikes(faults.Taken, world.now_s)
    if taken:
        control.take(world, taken.reservation_id, taken.count)


def _least(request: Request, kind: str) -> int:
    options = request.get("SpotOptions" if kind == "spot" else "OnDemandOptions", {})
    return int(options.get("MinTargetCapacity", 0))


# --- Plans ------------------------------------------------------------------------------------------


def _plan(world: World, request: Request, kind: str, pools: list[Pool], wanted: int) -> Plan:
    """The plan for all pools, or for the type or the zone alone that gives most, if only one is allowed."""
    options = request.get("SpotOptions" if kind == "spot" else "OnDemandOptions", {})
    ordered = _ordered(kind, request, pools)
    groups: dict[tuple[str, str], list[Pool]] = {}
    for pool in ordered:
        by_type = pool.instance_type if options.get("SingleInstanceType") else ""
        by_zone = pool.zone_id if options.get("SingleAvailabilityZone") else ""
        groups.setdefault((by_type, by_zone), []).append(pool)
    plans = []
    for group in groups.values():
        plan = _PLANS[kind](world, request, group, wanted)
        if plan.count >= wanted:
            return plan
        plans.append(plan)
    return max(plans, key=lambda plan: plan.count, default=Plan())


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


def _plan_on_demand(world: World, request: Request, pools: list[Pool], wanted: int) -> Plan:
    capacity, plan = Capacity(world, request.account), Plan()
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


def _plan_spot(world: World, request: Request, pools: list[Pool], wanted: int) -> Plan:
    capacity, plan = Capacity(world, request.account), Plan()

    def draw(pool: Pool, count: int) -> tuple[list[Part], Failure | None]:
        if pool.spec.targets or pool.spec.preference == ONLY_RESERVED:
            return [], Failure(
                "InvalidParameterCombination", "Spot Instances cannot use a Capacity Reservation."
            )
        return capacity.plain(pool, count, "spot")

    plan.fill(pools, wanted, draw)
    return plan


def _plan_block(world: World, request: Request, pools: list[Pool], wanted: int) -> Plan:
    capacity, plan = Capacity(world, request.account), Plan()

    def draw(pool: Pool, count: int) -> tuple[list[Part], Failure | None]:
        failure = capacity.unusable(pool, pool.spec.target_id, CAPACITY_BLOCK)
        if failure:
            return [], failure
        return capacity.reserved(pool, count, [world.reservations[pool.spec.target_id]])

    plan.fill(pools, wanted, draw)
    return plan


def _plan_reserved(world: World, request: Request, pools: list[Pool], wanted: int) -> Plan:
    """Type of reservation after type of reservation, each over all pools; then on-demand, if that is allowed."""
    capacity, plan = Capacity(world, request.account), Plan()
    options = request.get("ReservedCapacityOptions", {})
    for kind in options.get("ReservationTypes", ()):
        for pool in pools:
            candidates = _candidates(world, options, pool, kind)
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


def _candidates(world: World, options: dict[str, Any], pool: Pool, kind: str) -> list[Reservation]:
    """What the request targets, else what the template does, else whatever matches: open ones, if ordinary."""
    if pool.spec.market not in {"", kind}:
        return []
    found = [each for each in world.reservations if each.reservation_type == kind]
    target = options.get("CapacityReservationTarget", {})
    arns = target.get("CapacityReservationResourceGroupArns", []) or [pool.spec.target_group]
    ids = list(target.get("CapacityReservationIds", [])) or (
        [pool.spec.target_id] if pool.spec.target_id else []
    )
    ids += [member for group in world.groups if group.id in arns for member in group.members]
    if ids or pool.spec.targets or target:
        return [each for each in found if each.id in ids]
    return [each for each in found if kind != "on-demand-capacity-reservation" or each.criteria == "open"]


_PLANS: Final[dict[str, Callable[[World, Request, list[Pool], int], Plan]]] = {
    "on-demand": _plan_on_demand,
    "spot": _plan_spot,
    CAPACITY_BLOCK: _plan_block,
    "reserved-capacity": _plan_reserved,
}


# --- The answer -------------------------------------------------------------------------------------


def _launch(world: World, request: Request, plan: Plan, wanted: int) -> tuple[str, list[dict[str, Any]]]:
    fleet_id, batch_id = world.new_id("fleet"), world.new_id("r")
    groups: dict[tuple[int, str], dict[str, Any]] = {}
    for part in plan.parts:
        source = part.pool.answer["LaunchTemplateSpecification"]
        tags = request.tags("instance") | {
            "aws:ec2:fleet-id": fleet_id,
            "aws:ec2launchtemplate:id": source["LaunchTemplateId"],
            "aws:ec2launchtemplate:version": source["Version"],
        }
        made = launch.make(world, request, part, tags, batch_id=batch_id, fleet_id=fleet_id)
        group = groups.setdefault((id(part.pool), part.market), _group(world, request, part))
        group["InstanceIds"] += [instance.id for instance in made]
    world.fleets.put(
        Fleet(
            id=fleet_id,
            account=request.account,
            created_s=world.now_s,
            target=wanted,
            instance_ids=tuple(i for group in groups.values() for i in group["InstanceIds"]),
            tags=request.tags("fleet"),
        )
    )
    return fleet_id, list(groups.values())


def _group(world: World, request: Request, part: Part) -> dict[str, Any]:
    pool = part.pool
    return {
        "LaunchTemplateAndOverrides": pool.answer,
        "Lifecycle": part.market,
        "InstanceIds": [],
        "InstanceType": pool.instance_type,
        "AvailabilityZone": world.account(request.account).zone_name(pool.zone_id),
        "AvailabilityZoneId": pool.zone_id,
        "SubnetId": pool.subnet_id,
    }


def _error(kind: str, answer: dict[str, Any], failure: Failure, market: str) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": answer,
        "Lifecycle": market or ("on-demand" if kind == "reserved-capacity" else kind),
        "ErrorCode": failure.code,
        "ErrorMessage": failure.message,
    }
