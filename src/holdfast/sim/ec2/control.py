"""What a scenario does to the world behind EC2's back: reservations, groups, sharing, interruptions, accidents.

Calls that EC2 has itself (CreateCapacityReservation and the like) are in `reservation_calls`; they use these.
"""

from dataclasses import replace
from typing import Any, Final

from holdfast.sim.ec2 import instances, reservations
from holdfast.sim.ec2.entities import Group, Instance, Reservation, ScheduledEvent
from holdfast.sim.ec2.world import World

_ANNOUNCED: Final = (
    "scheduled",
    "active",
    "delayed",
    "unsupported",
    "failed",
)  # states with an event of their own


def add_reservation(
    world: World, *, owner: str, instance_type: str, zone_id: str, total: int, **fields: Any
) -> Reservation:
    """A reservation of any kind, in any state; running instances that match an open one join at once."""
    elsewhere, named = fields.pop("elsewhere", 0), fields.pop("id", "")
    fields.setdefault("start_s", world.now_s)
    fields.setdefault("state", "active" if fields["start_s"] <= world.now_s else "scheduled")
    reservation = world.put_reservation(
        Reservation(
            id=world.give_id(named) if named else world.new_id("cr"),
            owner=owner,
            instance_type=instance_type,
            zone_id=zone_id,
            total=total,
            available=total - elsewhere,
            elsewhere=elsewhere,
            created_s=world.now_s,
            **fields,
        )
    )
    reservations.schedule(world, reservation)
    reservations.join_running(world, reservation)
    return world.reservations[reservation.id]


def lend(world: World, source_id: str, count: int, **fields: Any) -> Reservation:
    """Free slots become an interruptible reservation of their own; the lender counts them as in use."""
    source = world.put_reservation(world.reservations[source_id], lent=count)
    world.put_reservation(source, available=source.available - count)
    lent = add_reservation(
        world,
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
    world.put_reservation(world.reservations[source.id], lent_to=lent.id)
    return lent


def take(world: World, reservation_id: str, count: int) -> None:
    """Instances that are not simulated use slots; no more than are free."""
    reservation = world.reservations[reservation_id]
    count = min(count, reservation.available)
    world.put_reservation(
        reservation, available=reservation.available - count, elsewhere=reservation.elsewhere + count
    )


def give(world: World, reservation_id: str, count: int) -> None:
    """Instances that are not simulated release slots."""
    reservation = world.reservations[reservation_id]
    count = min(count, reservation.elsewhere)
    world.put_reservation(
        reservation, available=reservation.available + count, elsewhere=reservation.elsewhere - count
    )


def share(world: World, reservation_id: str, *accounts: str) -> None:
    """Who it is shared with from now on. Who is left out keeps running, outside."""
    reservation = world.put_reservation(world.reservations[reservation_id], shared_with=accounts)
    for instance in world.instances:
        if instance.held_reservation_id == reservation_id and not reservation.visible_to(instance.account):
            world.put_instance(instance, held_reservation_id="", reservation_id="")
            reservation = world.put_reservation(reservation, available=reservation.available + 1)
    reservations.join_running(world, reservation)


def set_state(world: World, reservation_id: str, state: str) -> None:
    """Moves a reservation to a state that no date brings about, such as payment-failed or delayed."""
    reservation = world.put_reservation(world.reservations[reservation_id], state=state)
    if state in _ANNOUNCED:
        reservations.announce(world, reservation, f"EC2 Capacity Reservation {state.capitalize()}")
    reservations.schedule(world, reservation)
    reservations.join_running(world, reservation)


def set_end(world: World, reservation_id: str, end_s: int) -> None:
    """A new end, as an extension of a capacity block brings it."""
    reservations.schedule(world, world.put_reservation(world.reservations[reservation_id], end_s=end_s))


def add_group(world: World, *, account: str, name: str, members: tuple[str, ...] = ()) -> Group:
    arn = f"arn:aws:resource-groups:{world.setup.region}:{account}:group/{name}"
    group = world.groups.put(Group(id=arn, account=account))
    for member in members:
        add_to_group(world, group.id, member)
    return world.groups[arn]


def add_to_group(world: World, group_arn: str, reservation_id: str) -> None:
    """Instances that target the group and run outside move in."""
    group = world.groups[group_arn]
    world.groups.put(replace(group, members=(*group.members, reservation_id)))
    reservations.join_running(world, world.reservations[reservation_id])


def limit_pool(world: World, instance_type: str, zone_id: str, market: str, left: int) -> None:
    """How many EC2 has to spare of one type in one zone, on-demand or spot."""
    world.pool_limits[instance_type, zone_id, market] = left


def interrupt_spot(world: World, instance_id: str) -> None:
    instances.interrupt(world, world.instances[instance_id], "EC2 Spot Instance Interruption Warning")


def recommend_rebalance(world: World, instance_id: str) -> None:
    instance = world.instances[instance_id]
    world.emit(
        instance.account,
        "EC2 Instance Rebalance Recommendation",
        {"instance-id": instance_id},
        (world.arn(instance.account, f"instance/{instance_id}"),),
    )


def schedule_event(world: World, instance_id: str, code: str, at_s: int) -> None:
    """A scheduled change, said by AWS Health and by DescribeInstanceStatus."""
    event = ScheduledEvent(id=world.new_id("instance-event"), code=code, at_s=at_s)
    instance = world.put_instance(world.instances[instance_id], event=event)
    world.at(at_s, "instance.scheduled", instance_id)
    word = code.replace("-", "_").upper()
    world.emit(
        instance.account,
        "AWS Health Event",
        {
            "service": "EC2",
            "eventTypeCategory": "scheduledChange",
            "eventTypeCode": f"AWS_EC2_{word}_SCHEDULED",
            "affectedEntities": [{"entityValue": instance_id}],
        },
        (world.arn(instance.account, f"instance/{instance_id}"),),
        source="aws.health",
    )


def impair(world: World, instance_id: str, check: str = "instance") -> None:
    instances.impair(world, instance_id, check)


def kill(world: World, instance_id: str) -> None:
    instances.fail(world, instance_id)


def running(world: World) -> list[Instance]:
    """What a simulated kubelet has to stand in for: everything that runs and is not silent."""
    return [each for each in world.instances if each.state == "running" and not each.silent]
