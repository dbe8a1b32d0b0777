"""The life of a capacity reservation, who fits into it, and who joins by itself.

The rules: an instance is in one reservation at most; an ordinary reservation's end leaves its instances running,
outside; a capacity block's end takes them with it, 30 minutes ahead (60 for UltraServers); only `open` instances join
by themselves, and only open reservations, or those of the group they target.
"""

from holdfast.sim.ec2 import instances
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Instance, Reservation, Spec
from holdfast.sim.ec2.world import World

_WARNING_S = 40 * 60  # before a capacity block's end
_NOT_STARTED = ("scheduled", "pending")


def schedule(world: World, reservation: Reservation) -> None:
    """Puts a reservation's dates on the agenda; again when they change."""
    if reservation.state in _NOT_STARTED:
        world.at(reservation.start_s, "reservation.start", reservation.id)
    if reservation.end_s:
        lag_s = 0 if reservation.kind == CAPACITY_BLOCK else world.setup.timings.expiry_lag_s
        world.at(reservation.end_s + lag_s, "reservation.end", reservation.id)
        if reservation.kind == CAPACITY_BLOCK:
            world.at(reservation.end_s - _WARNING_S, "reservation.warn", reservation.id)
            world.at(reservation.reclaim_s, "reservation.reclaim", reservation.id)


def start(world: World, reservation_id: str) -> None:
    reservation = world.reservations[reservation_id]
    if reservation.state not in _NOT_STARTED or reservation.start_s > world.now_s:
        return
    reservation = world.put_reservation(reservation, state="active")
    block = reservation.kind == CAPACITY_BLOCK
    announce(world, reservation, "Capacity Block Delivered" if block else "EC2 Capacity Reservation Active")
    join_running(world, reservation)


def warn(world: World, reservation_id: str) -> None:
    reservation = world.reservations[reservation_id]
    if reservation.active and world.now_s == reservation.end_s - _WARNING_S:
        announce(world, reservation, "Capacity Block Expiration Warning")


def reclaim(world: World, reservation_id: str) -> None:
    reservation = world.reservations[reservation_id]
    if reservation.active and world.now_s >= reservation.reclaim_s:
        for instance in inside(world, reservation):
            instances.terminate(
                world, instance, "Server.CapacityBlockExpiration", "The Capacity Block is about to end"
            )


def expire(world: World, reservation_id: str) -> None:
    reservation = world.reservations[reservation_id]
    if reservation.active and reservation.end_s and reservation.end_s <= world.now_s:
        end(world, reservation, "expired")


def end(world: World, reservation: Reservation, state: str) -> None:
    """The reservation expired or was cancelled: no instance holds a slot any more."""
    for instance in world.instances:
        if instance.held_reservation_id == reservation.id:
            world.put_instance(instance, held_reservation_id="", reservation_id="")
    ended = world.put_reservation(reservation, state=state, available=0, elsewhere=0)
    announce(world, ended, f"EC2 Capacity Reservation {state.capitalize()}")
    for group in world.groups:
        if ended.id in group.members:
            for other in group.members:
                join_running(world, world.reservations[other])


def inside(world: World, reservation: Reservation) -> list[Instance]:
    return [each for each in world.instances if each.held_reservation_id == reservation.id and each.live]


def fits(
    world: World, reservation: Reservation, spec: Spec, *, account: str, instance_type: str, zone_id: str
) -> bool:
    """Whether every attribute matches, whatever the state and the available slots."""
    group_arn = world.arn(account, f"placement-group/{spec.placement_group}") if spec.placement_group else ""
    return (
        reservation.visible_to(account)
        and reservation.instance_type == instance_type
        and reservation.zone_id == zone_id
        and reservation.platform == spec.platform
        and reservation.tenancy == spec.tenancy
        and reservation.placement_group_arn in {"", group_arn}
    )


def usable(world: World, reservation: Reservation) -> bool:
    """Whether EC2 launches into it now, if it has an available slot."""
    if reservation.kind == CAPACITY_BLOCK and world.now_s >= reservation.reclaim_s:
        return False
    return reservation.active


def is_open(reservation: Reservation) -> bool:
    return reservation.criteria == "open" and reservation.kind == "default" and not reservation.interruptible


def join_running(world: World, reservation: Reservation) -> None:
    """Running instances that match use the reservation, oldest first, while it has available slots."""
    if not usable(world, reservation):
        return
    groups = {group.id for group in world.groups if reservation.id in group.members}
    for instance in world.instances:
        if reservation.available == 0:
            return
        if (
            instance.live
            and not instance.held_reservation_id
            and _joins(world, instance, reservation, groups)
        ):
            world.put_instance(instance, held_reservation_id=reservation.id, reservation_id=reservation.id)
            reservation = world.put_reservation(reservation, available=reservation.available - 1)


def _joins(world: World, instance: Instance, reservation: Reservation, groups: set[str]) -> bool:
    spec = instance.spec
    wanted = spec.target_group in groups if spec.targets else is_open(reservation)
    return (
        wanted
        and not instance.lifecycle
        and reservation.reservation_type == "on-demand-capacity-reservation"
        and spec.preference in {"", "open", "capacity-reservations-only"}
        and fits(
            world,
            reservation,
            spec,
            account=instance.account,
            instance_type=instance.instance_type,
            zone_id=instance.zone_id,
        )
    )


def announce(world: World, reservation: Reservation, detail_type: str) -> None:
    world.emit(
        reservation.owner,
        detail_type,
        {
            "capacity-reservation-id": reservation.id,
            "instance-type": reservation.instance_type,
            "availability-zone-id": reservation.zone_id,
            "state": reservation.state,
        },
        (world.arn(reservation.owner, f"capacity-reservation/{reservation.id}"),),
    )
