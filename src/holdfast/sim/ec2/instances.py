"""The states of an instance: pending, running, shutting-down, terminated, removed; and of the slot it holds.

The rules: a slot is free again only when its instance is terminated and the release lag has passed, not when the end is
asked for; an instance that has ended never comes back.
"""

from dataclasses import replace
from typing import Any

from holdfast.sim.ec2 import times
from holdfast.sim.ec2.entities import ENDS, REBOOTS, Instance, Reservation
from holdfast.sim.ec2.region_state import RegionState

_HEALTH_LAG_S = 120  # how long a status check takes to fail


def boot(region: RegionState, instance_id: str) -> None:
    instance = region.instances.get(instance_id)
    if instance and instance.state == "pending":
        region.put_instance(instance, state="running")
        if instance.silent:
            region.at(region.now_s + _HEALTH_LAG_S, "instance.impair", instance_id)


def impair(region: RegionState, instance_id: str, check: str = "instance") -> None:
    """From now on a status check of it fails."""
    instance = region.instances.get(instance_id)
    if instance and instance.is_pending_or_running:
        region.put_instance(instance, impaired={check: region.now_s} | instance.impaired)


def reboot(region: RegionState, instance: Instance) -> None:
    """In place: it keeps its slot. What ailed the instance itself is gone, unless nothing on it ever answered; what
    ails its host is not. A reboot that was scheduled need not come any more."""
    event = instance.event
    changes: dict[str, Any] = {}
    if event and event.code in REBOOTS:
        changes["event"] = replace(event, over=True)
    if not instance.silent:
        left = {check: since_s for check, since_s in instance.impaired.items() if check != "instance"}
        changes |= {"impaired": left, "boots": instance.boots + 1}
    region.put_instance(instance, **changes)


def scheduled(region: RegionState, instance_id: str) -> None:
    """The time of its event has come. An instance that AWS stops never comes back here: there are no stopped ones."""
    instance = region.instances.get(instance_id)
    if not instance or not instance.is_pending_or_running or not instance.event or instance.event.over:
        return
    if instance.event.code in REBOOTS:
        reboot(region, instance)
        return
    instance = region.put_instance(instance, event=replace(instance.event, over=True))
    if instance.event and instance.event.code in ENDS:
        code = "Server.ScheduledStop"
        terminate(region, instance, code, f"{code}: Stopped due to a scheduled retirement")


def terminate(region: RegionState, instance: Instance, code: str, message: str) -> None:
    """Begins the end. Twice is once."""
    if instance.is_pending_or_running:
        region.put_instance(instance, state="shutting-down", state_reason=(code, message))
        region.at(region.now_s + region.setup.timings.shutdown_s, "instance.end", instance.id)


def fail(region: RegionState, instance_id: str) -> None:
    instance = region.instances.get(instance_id)
    if instance:
        terminate(region, instance, "Server.InternalError", "Server.InternalError: the host failed")


def end(region: RegionState, instance_id: str) -> None:
    instance = region.instances[instance_id]
    timings = region.setup.timings
    region.put_instance(instance, state="terminated", ended_s=region.now_s, reservation_id="")
    if instance.held_reservation_id:
        region.at(region.now_s + timings.release_lag_s, "instance.release", instance_id)
    region.at(region.now_s + max(timings.forget_s, timings.release_lag_s + 1), "instance.forget", instance_id)


def release(region: RegionState, instance_id: str) -> None:
    """The slot is counted as available again; one that is being taken back returns to where it came from."""
    instance = region.instances[instance_id]
    if not instance.held_reservation_id:
        return
    reservation = region.reservations[instance.held_reservation_id]
    region.put_instance(instance, held_reservation_id="")
    if 0 <= reservation.target < reservation.total:
        give_back(region, region.put_reservation(reservation, available=reservation.available + 1), 1)
    else:
        region.put_reservation(reservation, available=reservation.available + 1)


def give_back(region: RegionState, lent: Reservation, count: int) -> None:
    """Free slots of an interruptible reservation go back to the one they were lent by."""
    source = region.reservations[lent.source_id]
    lent = region.put_reservation(lent, total=lent.total - count, available=lent.available - count)
    region.put_reservation(source, lent=source.lent - count, available=source.available + count)
    if lent.total > lent.target:
        return
    if lent.total == 0:
        region.put_reservation(lent, state="cancelled", target=-1)
        region.put_reservation(region.reservations[source.id], lent_to="")
    else:
        region.put_reservation(lent, target=-1)
    region.emit(
        source.owner,
        "EC2 Interruptible Capacity Reservation Allocation Reclamation Completed",
        {"capacity-reservation-id": source.id, "interruptible-capacity-reservation-id": lent.id},
        (region.arn(source.owner, f"capacity-reservation/{source.id}"),),
    )


def remove(region: RegionState, instance_id: str) -> None:
    """From now on it is not described any more."""
    region.instances.drop(instance_id)


def interrupt(region: RegionState, instance: Instance, detail_type: str, **detail: Any) -> None:
    """A warning now, the end when the notice is over."""
    ends_s = region.now_s + region.setup.timings.interruption_s
    region.emit(
        instance.account,
        detail_type,
        {"instance-id": instance.id, "instance-action": "terminate", **detail},
        (region.arn(instance.account, f"instance/{instance.id}"),),
    )
    region.at(ends_s, "instance.interrupted", instance.id)


def warn_interruptible(region: RegionState, instance: Instance) -> None:
    interrupt(
        region,
        instance,
        "EC2 Capacity Reservation Instance Interruption Warning",
        **{
            "instance-termination-time": times.text(region.now_s + region.setup.timings.interruption_s),
            "availability-zone-id": instance.zone_id,
        },
    )


def interrupted(region: RegionState, instance_id: str) -> None:
    instance = region.instances.get(instance_id)
    if instance:
        spot = instance.lifecycle == "spot"
        code = "Server.SpotInstanceTermination" if spot else "Server.CapacityReservationInterruption"
        terminate(region, instance, code, f"{code}: the capacity was taken back")
