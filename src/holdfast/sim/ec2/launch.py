"""Creates the instances of a plan.

A slot is taken at the same time as its instance is created.
"""

import ipaddress
from collections import Counter

from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.capacity import Part
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request

_RESERVED_ADDRESSES = 4  # AWS reserves the first addresses of every subnet


def make(
    region: RegionState,
    request: Request,
    part: Part,
    tags: dict[str, str],
    *,
    batch_id: str,
    fleet_id: str = "",
) -> list[Instance]:
    return [_make_one(region, request, part, tags, batch_id, fleet_id) for _ in range(part.count)]


def _make_one(
    region: RegionState, request: Request, part: Part, tags: dict[str, str], batch_id: str, fleet_id: str
) -> Instance:
    pool, spec = part.pool, part.pool.spec
    if part.reservation_id:
        reservation = region.reservations[part.reservation_id]
        region.put_reservation(reservation, available=reservation.available - 1)
    elif (key := (pool.instance_type, pool.zone_id, part.market)) in region.pool_limits:
        region.pool_limits[key] -= 1
    instance = region.put_instance(
        Instance(
            id=region.new_id("i"),
            account=request.account,
            instance_type=pool.instance_type,
            zone_id=pool.zone_id,
            subnet_id=pool.subnet_id,
            spec=spec,
            lifecycle="" if part.market == "on-demand" else part.market,
            reservation_id=part.reservation_id,
            held_reservation_id=part.reservation_id,
            launched_s=region.now_s,
            batch_id=batch_id,
            fleet_id=fleet_id,
            client_token=request.get("ClientToken", ""),
            spot_request_id=region.new_id("sir") if part.market == "spot" else "",
            private_ip=_address(region, pool.subnet_id),
            interface_id=region.new_id("eni"),
            volume_ids=tuple(region.new_id("vol") for _ in spec.volumes),
            agent=request.agent,
            partition=_partition(region, request.account, spec.placement_group),
            silent=region.faults.strikes(faults.Silent, region.now_s) is not None,
            tags=spec.tags | tags,
        )
    )
    if not region.faults.strikes(faults.NeverBoots, region.now_s):
        region.at(region.now_s + region.setup.timings.boot_s, "instance.boot", instance.id)
    if fails := region.faults.strikes(faults.HostFails, region.now_s):
        region.at(region.now_s + fails.after_s, "instance.impair-system", instance.id)
    if termination := region.faults.strikes(faults.Dies, region.now_s):
        region.at(region.now_s + termination.after_s, "instance.die", instance.id)
    return instance


def _partition(region: RegionState, account: str, group: str) -> int:
    """EC2 distributes instances evenly over the partitions of a group."""
    found = (g for g in region.setup.placement_groups if group and (g.account, g.name) == (account, group))
    count = next((g.partitions for g in found), 0)
    if not count:
        return 0
    used = Counter(
        each.partition
        for each in region.instances
        if each.spec.placement_group == group and each.is_pending_or_running
    )
    return min(range(1, count + 1), key=lambda number: used[number])


def _address(region: RegionState, subnet_id: str) -> str:
    """The next free address of the subnet, round-robin."""
    subnet = region.subnets[subnet_id]
    first = int(ipaddress.ip_address(subnet.cidr.partition("/")[0])) + _RESERVED_ADDRESSES + 1
    for _ in range(subnet.addresses):
        address = str(ipaddress.IPv4Address(first + region.addresses[subnet_id] % subnet.addresses))
        region.addresses[subnet_id] += 1
        if not region.usage.private_ips[subnet_id, address]:
            return address
    raise AssertionError(f"{subnet_id} has no address left, and something is launched there")
