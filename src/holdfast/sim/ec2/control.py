"""Changes of the region without an API call, for scenarios: reservations, groups, sharing, interruptions, failures.

`reservation_calls` has the API calls (CreateCapacityReservation and others), which use these functions.
"""

from dataclasses import replace
from typing import Any, Final

from holdfast.sim.ec2 import instances, reservations
from holdfast.sim.ec2.entities import Group, Instance, Reservation, ScheduledEvent
from holdfast.sim.ec2.region_state import RegionState

_ANNOUNCED: Final = (
    "scheduled",
    "active",
    "delayed",
    "unsupported",
    "failed",
)  # states that have an event


def add_reservation(
    region: RegionState, *, owner: str, instance_type: str, zone_id: str, total: int, **fields: Any
) -> Reservation:
    """Adds a reservation of any kind and state; running instances that match an open one use it at once."""
    elsewhere, named = fields.pop("elsewhere", 0), fields.pop("id", "")
    fields.setdefault("start_s", region.now_s)
    fields.setdefault("state", "active" if fields["start_s"] <= region.now_s else "scheduled")
    reservation = region.put_reservation(
        Reservation(
            id=region.give_id(named) if named else region.new_id("cr"),
            owner=owner,
            instance_type=instance_type,
            zone_id=zone_id,
            total=total,
            available=total - elsewhere,
            elsewhere=elsewhere,
            created_s=region.now_s,
            **fields,
        )
    )
    reservations.schedule(region, reservation)
    reservations.join_running(region, reservation)
    return region.reservations[reservation.id]


def lend(region: RegionState, source_id: str, count: int, **fields: Any) -> Reservation:
    """Moves free slots to a new interruptible reservation; the source counts them as used."""
    source = region.put_reservation(region.reservations[source_id], lent=count)
    region.put_reservation(source, available=source.available - count)
    lent = add_reservation(
        region,
        owner=source.owner,
        instance_type=source.instance_type,
        zone_id=source.zone_id,
        total=count,
        criteria="targeted",
        platform=source.platform,
        tenancy=source.tenancy,
        interruptible=True,
        source_id=source.id,
        **fields,
    )
    region.put_reservation(region.reservations[source.id], lent_to=lent.id)
    return lent


def take(region: RegionState, reservation_id: str, count: int) -> None:
    """Instances that are not simulated take free slots."""
    reservation = region.reservations[reservation_id]
    count = min(count, reservation.available)
    region.put_reservation(
        reservation, available=reservation.available - count, elsewhere=reservation.elsewhere + count
    )


def give(region: RegionState, reservation_id: str, count: int) -> None:
    """Instances that are not simulated release slots."""
    reservation = region.reservations[reservation_id]
    count = min(count, reservation.elsewhere)
    region.put_reservation(
        reservation, available=reservation.available + count, elsewhere=reservation.elsewhere - count
    )


def share(region: RegionState, reservation_id: str, *accounts: str) -> None:
    """Sets the accounts that it is shared with. Instances of other accounts keep running outside it."""
    reservation = region.put_reservation(region.reservations[reservation_id], shared_with=accounts)
    for instance in region.instances:
        if instance.held_reservation_id == reservation_id and not reservation.visible_to(instance.account):
            region.put_instance(instance, held_reservation_id="", reservation_id="")
            reservation = region.put_reservation(reservation, available=reservation.available + 1)
    reservations.join_running(region, reservation)


def set_state(region: RegionState, reservation_id: str, state: str) -> None:
    """Sets a state that no date causes, such as payment-failed or delayed."""
    reservation = region.put_reservation(region.reservations[reservation_id], state=state)
    if state in _ANNOUNCED:
        reservations.announce(region, reservation, f"EC2 Capacity Reservation {state.capitalize()}")
    reservations.schedule(region, reservation)
    reservations.join_running(region, reservation)


def set_start(region: RegionState, reservation_id: str, start_s: int) -> None:
    """Sets a new start of a reservation that has not started."""
    reservation = region.reservations[reservation_id]
    reservations.schedule(region, region.put_reservation(reservation, start_s=start_s))


def set_end(region: RegionState, reservation_id: str, end_s: int) -> None:
    """Sets a new end, like an extension of a capacity block."""
    reservations.schedule(region, region.put_reservation(region.reservations[reservation_id], end_s=end_s))


def add_group(region: RegionState, *, account: str, name: str, members: tuple[str, ...] = ()) -> Group:
    arn = f"arn:aws:resource-groups:{region.setup.region}:{account}:group/{name}"
    group = region.groups.put(Group(id=arn, account=account))
    for member in members:
        add_to_group(region, group.id, member)
    return region.groups[arn]


def add_to_group(region: RegionState, group_arn: str, reservation_id: str) -> None:
    """Adds a reservation to a group. Running instances that target the group use it."""
    group = region.groups[group_arn]
    region.groups.put(replace(group, members=(*group.members, reservation_id)))
    reservations.join_running(region, region.reservations[reservation_id])


def limit_pool(region: RegionState, instance_type: str, zone_id: str, market: str, left: int) -> None:
    """Limits the on-demand or spot capacity of one type in one zone."""
    region.pool_limits[instance_type, zone_id, market] = left


def interrupt_spot(region: RegionState, instance_id: str) -> None:
    instances.interrupt(region, region.instances[instance_id], "EC2 Spot Instance Interruption Warning")


def recommend_rebalance(region: RegionState, instance_id: str) -> None:
    instance = region.instances[instance_id]
    region.emit(
        instance.account,
        "EC2 Instance Rebalance Recommendation",
        {"instance-id": instance_id},
        (region.arn(instance.account, f"instance/{instance_id}"),),
    )


def schedule_event(region: RegionState, instance_id: str, code: str, at_s: int) -> None:
    """Schedules an event, which AWS Health and DescribeInstanceStatus report."""
    event = ScheduledEvent(id=region.new_id("instance-event"), code=code, at_s=at_s)
    instance = region.put_instance(region.instances[instance_id], event=event)
    region.at(at_s, "instance.scheduled", instance_id)
    word = code.replace("-", "_").upper()
    region.emit(
        instance.account,
        "AWS Health Event",
        {
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "eventTypeCode": f"AWS_EC2_{word}_SCHEDULED",
            "affectedEntities": [{"entityValue": instance_id}],
        },
        (region.arn(instance.account, f"instance/{instance_id}"),),
        source="aws.health",
    )


def impair(region: RegionState, instance_id: str, check: str = "instance") -> None:
    instances.impair(region, instance_id, check)


def kill(region: RegionState, instance_id: str) -> None:
    instances.fail(region, instance_id)


def running(region: RegionState) -> list[Instance]:
    """The instances that need a simulated kubelet: all that run and are not silent."""
    return [each for each in region.instances if each.state == "running" and not each.silent]
