"""What must be true of the world after every write; anything else ends the run with the facts.

Called by `service` after each call that wrote and after time has passed. A checker shares nothing with the
code that keeps its rule: it counts anew.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Instance, Reservation
from holdfast.sim.ec2.world import World


class BrokenWorld(AssertionError):
    """The referee itself is wrong, or was made to be: nothing after this can be trusted."""


def check(world: World) -> None:
    for checker in CHECKERS:
        checker(world)


def no_reservation_is_oversold(world: World) -> None:
    held = _held(world)
    for reservation in world.reservations:
        used = held[reservation.id] + reservation.elsewhere + reservation.lent
        if used > reservation.total:
            raise BrokenWorld(
                f"{reservation.id} holds {used} of {reservation.total}: {_inside(world, reservation)}"
            )


def counts_add_up(world: World) -> None:
    held = _held(world)
    for reservation in world.reservations:
        used = held[reservation.id] + reservation.elsewhere + reservation.lent
        if reservation.active and reservation.available != reservation.total - used:
            raise BrokenWorld(
                f"{reservation.id} says {reservation.available} are available; of {reservation.total}, "
                f"{held[reservation.id]} are held, {reservation.elsewhere} used elsewhere, {reservation.lent} lent"
            )


def no_instance_is_in_two_reservations(world: World) -> None:
    for instance in world.instances:
        if instance.reservation_id and instance.reservation_id != instance.slot:
            raise BrokenWorld(
                f"{instance.id} runs in {instance.reservation_id} and holds a slot of {instance.slot or 'none'}"
            )


def instances_match_their_reservation(world: World) -> None:
    for instance in world.instances:
        reservation = world.reservations.get(instance.reservation_id)
        if reservation and (why := _mismatch(instance, reservation)):
            raise BrokenWorld(f"{instance.id} is in {reservation.id} although {why}")


def nothing_runs_in_an_ended_reservation(world: World) -> None:
    for instance in world.instances:
        reservation = world.reservations.get(instance.reservation_id)
        if reservation and not reservation.active:
            raise BrokenWorld(f"{instance.id} is in {reservation.id}, which is {reservation.state}")
        if (
            reservation
            and reservation.kind == CAPACITY_BLOCK
            and instance.live
            and world.now_s >= reservation.reclaim_s
        ):
            raise BrokenWorld(
                f"{instance.id} is {instance.state} in {reservation.id} after its reclaim began"
            )


def ids_are_never_reused(world: World) -> None:
    twice = [each for each, count in world.given.items() if count > 1]
    strange = [each.id for each in world.instances if each.id not in world.given]
    if twice or strange:
        raise BrokenWorld(f"ids given twice: {twice}; never given: {strange}")


def subnets_are_not_overfull(world: World) -> None:
    used: Counter[str] = Counter()
    addresses: Counter[str] = Counter()
    for instance in world.instances:
        if instance.state != "terminated":
            used[instance.subnet_id] += instance.spec.addresses
            addresses[instance.account + instance.private_ip] += 1
    for subnet in world.setup.subnets:
        if used[subnet.id] > subnet.addresses:
            raise BrokenWorld(f"{subnet.id} has {subnet.addresses} addresses and {used[subnet.id]} in use")
    if doubled := [each for each, count in addresses.items() if count > 1]:
        raise BrokenWorld(f"addresses in use twice: {doubled}")


def everything_is_paid_for_once(world: World) -> None:
    billed = {each.id for each in world.instances if each.state == "running"}
    billed |= {each.id for each in world.reservations if each.active and not each.interruptible}
    if billed != set(world.ledger.open):
        raise BrokenWorld(
            f"not billed: {billed - set(world.ledger.open)}; billed: {set(world.ledger.open) - billed}"
        )
    for instance in world.instances:
        charge = world.ledger.open.get(instance.id)
        if charge and (charge.kind == "reserved") != bool(instance.reservation_id):
            raise BrokenWorld(
                f"{instance.id} is billed as {charge.kind} and is in {instance.reservation_id or 'no reservation'}"
            )


CHECKERS: Final[tuple[Callable[[World], None], ...]] = (
    no_reservation_is_oversold,
    counts_add_up,
    no_instance_is_in_two_reservations,
    instances_match_their_reservation,
    nothing_runs_in_an_ended_reservation,
    ids_are_never_reused,
    subnets_are_not_overfull,
    everything_is_paid_for_once,
)


def _held(world: World) -> Counter[str]:
    return Counter(instance.slot for instance in world.instances if instance.slot)


def _inside(world: World, reservation: Reservation) -> list[str]:
    return [instance.id for instance in world.instances if instance.slot == reservation.id]


def _mismatch(instance: Instance, reservation: Reservation) -> str:
    spec = instance.spec
    ours = (instance.instance_type, instance.zone_id, spec.platform, spec.tenancy)
    theirs = (reservation.instance_type, reservation.zone_id, reservation.platform, reservation.tenancy)
    if ours != theirs:
        return f"it is {ours}, not {theirs}"
    if spec.preference == "none":
        return "it wants none"
    if instance.account != reservation.owner and instance.account not in reservation.shared_with:
        return f"its account {instance.account} has no part in it"
    if spec.target_id not in {"", reservation.id}:
        return f"it targets {spec.target_id}"
    return ""
