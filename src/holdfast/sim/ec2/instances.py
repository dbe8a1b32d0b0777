"""The states of an instance and of its slot: pending, running, shutting-down, terminated, removed.

A slot is free only when its instance is terminated and the release lag has passed, not when the termination starts. A
terminated instance is never started again.
"""

from dataclasses import replace
from typing import Any

from holdfast.sim.ec2 import times
from holdfast.sim.ec2.entities import ENDS, REBOOTS, Instance, Reservation
from holdfast.sim.ec2.region_state import RegionState

_HEALTH_LAG_S = 120  # time until a status check fails


def boot(region: RegionState, instance_id: str) -> None:
    instance = region.instances.get(instance_id)
    if instance and instance.state == "pending":
        region.put_instance(instance, state="running")
        if instance.silent:
            region.at(region.now_s + _HEALTH_LAG_S, "instance.impair", instance_id)


def impair(region: RegionState, instance_id: str, check: str = "instance") -> None:
    """Makes a status check of the instance fail."""
    instance = region.instances.get(instance_id)
    if instance and instance.is_pending_or_running:
        region.put_instance(instance, impaired={check: region.now_s} | instance.impaired)


def reboot(region: RegionState, instance: Instance) -> None:
    """Reboots in place: the instance keeps its slot. It repairs the instance's own status check, unless the instance is
    silent, and not the host's. It completes a scheduled reboot."""
    event = instance.event
    changes: dict[str, Any] = {}
    if event and event.code in REBOOTS:
        changes["event"] = replace(event, over=True)
    if not instance.silent:
        left = {check: since_s for check, since_s in instance.impaired.items() if check != "instance"}
        changes |= {"impaired": left, "boots": instance.boots + 1}
    region.put_instance(instance, **changes)


def scheduled(region: RegionState, instance_id: str) -> None:
    """Executes a scheduled event. An instance that AWS stops is terminated, because there are no stopped instances
    here."""
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
    """Starts the termination. Idempotent."""
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
    """Frees the slot; a slot that is being reclaimed returns to its source reservation."""
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
    """Moves free slots of an interruptible reservation back to its source."""
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
    """The instance is not described any more."""
    region.instances.drop(instance_id)


def interrupt(region: RegionState, instance: Instance, detail_type: str, **detail: Any) -> None:
    """Emits a warning, and schedules the termination."""
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
