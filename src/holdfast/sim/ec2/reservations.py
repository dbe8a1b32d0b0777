"""The states of a capacity reservation, and which instances use it.

An instance is in at most one reservation. At the end of an ordinary reservation its instances keep running outside it.
The instances of a capacity block are terminated 30 minutes before its end (60 for UltraServers). Only running instances
with the preference `open` move into a reservation, and only into open ones or those of the group that they target.
"""

from holdfast.sim.ec2 import instances
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Instance, Reservation, Spec
from holdfast.sim.ec2.region_state import RegionState

_WARNING_S = 40 * 60  # before a capacity block's end
_NOT_STARTED = ("scheduled", "pending")


def schedule(region: RegionState, reservation: Reservation) -> None:
    """Schedules the changes at a reservation's dates; call it again when they change."""
    if reservation.state in _NOT_STARTED:
        region.at(reservation.start_s, "reservation.start", reservation.id)
    if reservation.end_s:
        lag_s = 0 if reservation.kind == CAPACITY_BLOCK else region.setup.timings.expiry_lag_s
        region.at(reservation.end_s + lag_s, "reservation.end", reservation.id)
        if reservation.kind == CAPACITY_BLOCK:
            region.at(reservation.end_s - _WARNING_S, "reservation.warn", reservation.id)
            region.at(reservation.reclaim_s, "reservation.reclaim", reservation.id)


def start(region: RegionState, reservation_id: str) -> None:
    reservation = region.reservations[reservation_id]
    if reservation.state not in _NOT_STARTED or reservation.start_s > region.now_s:
        return
    reservation = region.put_reservation(reservation, state="active")
    block = reservation.kind == CAPACITY_BLOCK
    announce(region, reservation, "Capacity Block Delivered" if block else "EC2 Capacity Reservation Active")
    join_running(region, reservation)


def warn(region: RegionState, reservation_id: str) -> None:
    reservation = region.reservations[reservation_id]
    if reservation.active and region.now_s == reservation.end_s - _WARNING_S:
        announce(region, reservation, "Capacity Block Expiration Warning")


def reclaim(region: RegionState, reservation_id: str) -> None:
    reservation = region.reservations[reservation_id]
    if reservation.active and region.now_s >= reservation.reclaim_s:
        for instance in inside(region, reservation):
            instances.terminate(
                region, instance, "Server.CapacityBlockExpiration", "The Capacity Block is about to end"
            )


def expire(region: RegionState, reservation_id: str) -> None:
    reservation = region.reservations[reservation_id]
    if reservation.active and reservation.end_s and reservation.end_s <= region.now_s:
        end(region, reservation, "expired")


def end(region: RegionState, reservation: Reservation, state: str) -> None:
    """Ends an expired or cancelled reservation: its instances no longer hold slots."""
    for instance in region.instances:
        if instance.held_reservation_id == reservation.id:
            region.put_instance(instance, held_reservation_id="", reservation_id="")
    ended = region.put_reservation(reservation, state=state, available=0, elsewhere=0)
    announce(region, ended, f"EC2 Capacity Reservation {state.capitalize()}")
    for group in region.groups:
        if ended.id in group.members:
            for other in group.members:
                join_running(region, region.reservations[other])


def inside(region: RegionState, reservation: Reservation) -> list[Instance]:
    return [
        each
        for each in region.instances
        if each.held_reservation_id == reservation.id and each.is_pending_or_running
    ]


def fits(
    region: RegionState,
    reservation: Reservation,
    spec: Spec,
    *,
    account: str,
    instance_type: str,
    zone_id: str,
) -> bool:
    """Whether every attribute matches, independent of the state and the free slots."""
    group_arn = region.arn(account, f"placement-group/{spec.placement_group}") if spec.placement_group else ""
    return (
        reservation.visible_to(account)
        and reservation.instance_type == instance_type
        and reservation.zone_id == zone_id
        and reservation.platform == spec.platform
        and reservation.tenancy == spec.tenancy
        and reservation.placement_group_arn in {"", group_arn}
    )


def usable(region: RegionState, reservation: Reservation) -> bool:
    """Whether EC2 launches into it now, if it has a free slot."""
    if reservation.kind == CAPACITY_BLOCK and region.now_s >= reservation.reclaim_s:
        return False
    return reservation.active


def is_open(reservation: Reservation) -> bool:
    return reservation.criteria == "open" and reservation.kind == "default" and not reservation.interruptible


def join_running(region: RegionState, reservation: Reservation) -> None:
    """Matching running instances use the reservation, oldest first, while it has free slots."""
    if not usable(region, reservation):
        return
    groups = {group.id for group in region.groups if reservation.id in group.members}
    for instance in region.instances:
        if reservation.available == 0:
            return
        if (
            instance.is_pending_or_running
            and not instance.held_reservation_id
            and _joins(region, instance, reservation, groups)
        ):
            region.put_instance(instance, held_reservation_id=reservation.id, reservation_id=reservation.id)
            reservation = region.put_reservation(reservation, available=reservation.available - 1)


def _joins(region: RegionState, instance: Instance, reservation: Reservation, groups: set[str]) -> bool:
    spec = instance.spec
    wanted = spec.target_group in groups if spec.targets else is_open(reservation)
    return (
        wanted
        and not instance.lifecycle
        and reservation.reservation_type == "on-demand-capacity-reservation"
        and spec.preference in {"", "open", "capacity-reservations-only"}
        and fits(
            region,
            reservation,
            spec,
            account=instance.account,
            instance_type=instance.instance_type,
            zone_id=instance.zone_id,
        )
    )


def announce(region: RegionState, reservation: Reservation, detail_type: str) -> None:
    region.emit(
        reservation.owner,
        detail_type,
        {
            "capacity-reservation-id": reservation.id,
            "instance-type": reservation.instance_type,
            "availability-zone-id": reservation.zone_id,
            "state": reservation.state,
        },
        (region.arn(reservation.owner, f"capacity-reservation/{reservation.id}"),),
    )
