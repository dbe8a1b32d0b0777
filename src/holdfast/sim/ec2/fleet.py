"""CreateFleet of type instant.

Called by `service`. It implements the appendix of the reservation design, row by row (docs/fidelity-ec2.md). Every
instance that could not be launched has an entry in Errors, with its override.
"""

from typing import Any, Final

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import control, faults, fleet_plans, fleet_pools, launch
from holdfast.sim.ec2.capacity import Failure, Part, Pool
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, INTERRUPTIBLE, Fleet
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request

_CAPACITY_MAX: Final = 1000
_MARKETS: Final = {  # the market types of templates that a fleet's default target capacity type allows
    "on-demand": ("", "on-demand"),
    "spot": ("", "spot"),
    CAPACITY_BLOCK: (CAPACITY_BLOCK,),
    "reserved-capacity": ("", CAPACITY_BLOCK, INTERRUPTIBLE),
}
_NO_MORE: Final = Failure("InsufficientInstanceCapacity", "We currently do not have sufficient capacity.")


def create(region: RegionState, request: Request) -> dict[str, Any]:
    target = _check_target(request)
    kind = target.get("DefaultTargetCapacityType", "on-demand")
    pools, refused = fleet_pools.read(region, request, "spot" if kind == "spot" else kind)
    _check_pools(kind, pools)
    request.proceed()
    _steal(region)
    wanted = target["TotalTargetCapacity"]
    limit = region.faults.strikes(faults.Partial, region.now_s)
    plan = fleet_plans.plan(region, request, kind, pools, min(wanted, limit.at_most) if limit else wanted)
    if limit and plan.count < wanted and not plan.failures and pools:
        plan.failures.append((pools[0], _NO_MORE))
    if plan.count < _least(request, kind):
        plan.parts = []
        plan.failures = plan.failures or [(pool, _NO_MORE) for pool in pools]
    fleet_id, groups = _launch(region, request, plan, wanted)
    errors = [_error(kind, pool.answer, failure, pool.spec.market) for pool, failure in plan.failures]
    errors += [_error(kind, each.answer, each.failure, "") for each in refused]
    assert plan.count >= wanted or errors, "too few instances, and no error reports why"
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


def _steal(region: RegionState) -> None:
    taken = region.faults.strikes(faults.Taken, region.now_s)
    if taken:
        control.take(region, taken.reservation_id, taken.count)


def _least(request: Request, kind: str) -> int:
    options = request.get("SpotOptions" if kind == "spot" else "OnDemandOptions", {})
    return int(options.get("MinTargetCapacity", 0))


def _launch(
    region: RegionState, request: Request, plan: fleet_plans.Plan, wanted: int
) -> tuple[str, list[dict[str, Any]]]:
    fleet_id, batch_id = region.new_id("fleet"), region.new_id("r")
    groups: dict[tuple[int, str], dict[str, Any]] = {}
    for part in plan.parts:
        source = part.pool.answer["LaunchTemplateSpecification"]
        tags = request.tags("instance") | {
            "aws:ec2:fleet-id": fleet_id,
            "aws:ec2launchtemplate:id": source["LaunchTemplateId"],
            "aws:ec2launchtemplate:version": source["Version"],
        }
        instances = launch.make(region, request, part, tags, batch_id=batch_id, fleet_id=fleet_id)
        group = groups.setdefault((id(part.pool), part.market), _group(region, request, part))
        group["InstanceIds"] += [instance.id for instance in instances]
    _forget_fleets(region)
    region.fleets.put(
        Fleet(
            id=fleet_id,
            account=request.account,
            created_s=region.now_s,
            target=wanted,
            instance_ids=tuple(i for group in groups.values() for i in group["InstanceIds"]),
            tags=request.tags("fleet"),
        )
    )
    return fleet_id, list(groups.values())


def _forget_fleets(region: RegionState) -> None:
    """Removes the fleets whose instances EC2 has forgotten."""
    forgets_s = region.now_s - region.setup.timings.forget_s
    for fleet in region.fleets:
        if fleet.created_s < forgets_s and not any(id_ in region.instances for id_ in fleet.instance_ids):
            region.fleets.drop(fleet.id)


def _group(region: RegionState, request: Request, part: Part) -> dict[str, Any]:
    pool = part.pool
    return {
        "LaunchTemplateAndOverrides": pool.answer,
        "Lifecycle": part.market,
        "InstanceIds": [],
        "InstanceType": pool.instance_type,
        "AvailabilityZone": region.account(request.account).zone_name(pool.zone_id),
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
