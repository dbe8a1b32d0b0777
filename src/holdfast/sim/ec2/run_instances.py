"""RunInstances: one pool, and as many instances between MinCount and MaxCount as it has capacity for.

Called by `service`. Below the minimum nothing is launched, and the call fails.
"""

from typing import Any, Final

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import control, faults, fleet_pools, instance_calls, launch, specs, templates
from holdfast.sim.ec2.capacity import Capacity, Failure, Part, Pool
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, INTERRUPTIBLE, Spec
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, invalid
from holdfast.sim.ec2.setup import Subnet

_OVER_TEMPLATE: Final = (  # parameters that override the launch template
    "ImageId", "InstanceType", "SecurityGroupIds", "NetworkInterfaces", "IamInstanceProfile", "UserData",
    "CapacityReservationSpecification", "InstanceMarketOptions", "Placement", "BlockDeviceMappings",
    "Monitoring", "MetadataOptions",
)  # fmt: skip


def run(region: RegionState, request: Request) -> dict[str, Any]:
    least, most = request.need("MinCount"), request.need("MaxCount")
    if not 1 <= least <= most:
        raise invalid("MinCount must be at least 1 and at most MaxCount")
    data: dict[str, Any] = {}
    if given := request.get("LaunchTemplate"):
        template = templates.find(region, request.account, dict(given))
        data = dict(template.versions[templates.number(template, given.get("Version", "")) - 1])
    data |= {name: request.get(name) for name in _OVER_TEMPLATE if request.get(name)}
    specs.check_data(data)
    spec = specs.resolve(region, request.account, data)
    subnet = _subnet(region, request, spec)
    if not spec.instance_type:
        raise ApiError("MissingParameter", "The request must contain the parameter InstanceType")
    spec = specs.in_network(region, spec, subnet)
    market = spec.market or "on-demand"
    fleet_pools.check_type(region, spec.instance_type, subnet.zone_id, spec, market)
    request.proceed()
    taken = region.faults.strikes(faults.Taken, region.now_s)
    if taken:
        control.take(region, taken.reservation_id, taken.count)
    pool = Pool(
        instance_type=spec.instance_type, zone_id=subnet.zone_id, subnet_id=subnet.id, spec=spec, price=0
    )
    parts, failure = _draw(region, Capacity(region, request.account), pool, most, market)
    if sum(part.count for part in parts) < least:
        assert failure is not None
        raise ApiError(failure.code, failure.message)
    batch_id = region.new_id("r")
    instances = [
        each
        for part in parts
        for each in launch.make(region, request, part, request.tags("instance"), batch_id=batch_id)
    ]
    answers = [instance_calls.render(region, each) for each in instances]
    return {"ReservationId": batch_id, "OwnerId": request.account, "Groups": [], "Instances": answers}


def _draw(
    region: RegionState, capacity: Capacity, pool: Pool, wanted: int, market: str
) -> tuple[list[Part], Failure | None]:
    match market:
        case "spot":
            return capacity.plain(pool, wanted, "spot")
        case "capacity-block" | "interruptible-capacity-reservation":
            assert market in {CAPACITY_BLOCK, INTERRUPTIBLE}
            failure = capacity.unusable(pool, pool.spec.target_id, market)
            if failure:
                return [], failure
            return capacity.reserved(pool, wanted, [region.reservations[pool.spec.target_id]])
        case _:
            return capacity.on_demand(pool, wanted)


def _subnet(region: RegionState, request: Request, spec: Spec) -> Subnet:
    mine = [subnet for subnet in region.setup.subnets if subnet.account == request.account]
    named = request.get("SubnetId") or spec.subnet_id
    if named:
        found = next((subnet for subnet in mine if subnet.id == named), None)
        if found is None:
            raise ApiError("InvalidSubnetID.NotFound", f"The subnet ID '{named}' does not exist")
        return found
    zone = request.get("Placement", {}).get("AvailabilityZone", "")
    zone_id = region.account(request.account).zone_ids.get(zone)
    found = next((s for s in mine if s.default and zone_id in {None, s.zone_id}), None)
    if found is None:
        raise ApiError("MissingInput", "No subnets found for the default VPC")
    return found
