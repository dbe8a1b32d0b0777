"""Makes the instances of a plan.

The rule: a slot is taken in the same moment as its instance is made.
"""

import ipaddress
from collections import Counter

from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.capacity import Part
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.requests import Request
from holdfast.sim.ec2.world import World

_RESERVED_ADDRESSES = 4  # AWS keeps the first of every subnet


def make(
    world: World, request: Request, part: Part, tags: dict[str, str], *, batch_id: str, fleet_id: str = ""
) -> list[Instance]:
    return [_make_one(world, request, part, tags, batch_id, fleet_id) for _ in range(part.count)]


def _make_one(
    world: World, request: Request, part: Part, tags: dict[str, str], batch_id: str, fleet_id: str
) -> Instance:
    pool, spec = part.pool, part.pool.spec
    if part.reservation_id:
        reservation = world.reservations[part.reservation_id]
        world.put_reservation(reservation, available=reservation.available - 1)
    elif (key := (pool.instance_type, pool.zone_id, part.market)) in world.pool_limits:
        world.pool_limits[key] -= 1
    instance = world.put_instance(
        Instance(
            id=world.new_id("i"),
            account=request.account,
            instance_type=pool.instance_type,
            zone_id=pool.zone_id,
            subnet_id=pool.subnet_id,
            spec=spec,
            lifecycle="" if part.market == "on-demand" else part.market,
            reservation_id=part.reservation_id,
            held_reservation_id=part.reservation_id,
            launched_s=world.now_s,
            batch_id=batch_id,
            fleet_id=fleet_id,
            client_token=request.get("ClientToken", ""),
            spot_request_id=world.new_id("sir") if part.market == "spot" else "",
            private_ip=_address(world, pool.subnet_id),
            interface_id=world.new_id("eni"),
            volume_ids=tuple(world.new_id("vol") for _ in spec.volumes),
            agent=request.agent,
            partition=_partition(world, request.account, spec.placement_group),
            silent=world.faults.strikes(faults.Silent, world.now_s) is not None,
            tags=spec.tags | tags,
        )
    )
    if not world.faults.strikes(faults.NeverBoots, world.now_s):
        world.at(world.now_s + world.setup.timings.boot_s, "instance.boot", instance.id)
    if fails := world.faults.strikes(faults.HostFails, world.now_s):
        world.at(world.now_s + fails.after_s, "instance.impair-system", instance.id)
    if termination := world.faults.strikes(faults.Dies, world.now_s):
        world.at(world.now_s + termination.after_s, "instance.die", instance.id)
    return instance


def _partition(world: World, account: str, group: str) -> int:
    """EC2 deals instances out evenly over the partitions of a group."""
    found = (g for g in world.setup.placement_groups if group and (g.account, g.name) == (account, group))
    count = next((g.partitions for g in found), 0)
    if not count:
        return 0
    used = Counter(
        each.partition for each in world.instances if each.spec.placement_group == group and each.live
    )
    return min(range(1, count + 1), key=lambda number: used[number])


def _address(world: World, subnet_id: str) -> str:
    """The next address of the subnet that no instance has; after the last comes the first."""
    subnet = world.subnets[subnet_id]
    first = int(ipaddress.ip_address(subnet.cidr.partition("/")[0])) + _RESERVED_ADDRESSES + 1
    for _ in range(subnet.addresses):
        address = str(ipaddress.IPv4Address(first + world.addresses[subnet_id] % subnet.addresses))
        world.addresses[subnet_id] += 1
        if not world.usage.places[subnet_id, address]:
            return address
    raise AssertionError(f"{subnet_id} has no address left, and something is launched there")
