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


class Tally:
    """All instances, counted in one walk, since the checkers run after every write."""

    def __init__(self, world: World) -> None:
        self.held: Counter[str] = Counter()  # slots by reservation
        self.inside: list[Instance] = []  # in a reservation, or holding a slot
        self.addresses: dict[str, int] = {}  # in use by subnet
        self.places: list[tuple[str, str]] = []  # account and address of each instance that has one
        self.running: set[str] = set()
        for instance in world.instances:
            if instance.slot or instance.reservation_id:
                self.held[instance.slot] += 1
                self.inside.append(instance)
            if instance.state != "terminated":
                in_use = self.addresses.get(instance.subnet_id, 0)
                self.addresses[instance.subnet_id] = in_use + instance.spec.addresses
                self.places.append((instance.account, instance.private_ip))
                if instance.state == "running":
                    self.running.add(instance.id)


def check(world: World) -> None:
    tally = Tally(world)
    for checker in CHECKERS:
        checker(world, tally)


def no_reservation_is_oversold(world: World, tally: Tally) -> None:
    for reservation in world.reservations:
        used = tally.held[reservation.id] + reservation.elsewhere + reservation.lent
        if used > reservation.total:
            inside = [instance.id for instance in tally.inside if instance.slot == reservation.id]
            raise BrokenWorld(f"{reservation.id} holds {used} of {reservation.total}: {inside}")


def counts_add_up(world: World, tally: Tally) -> None:
    for reservation in world.reservations:
        held = tally.held[reservation.id]
        free = reservation.total - held - reservation.elsewhere - reservation.lent
        if reservation.active and reservation.available != free:
            raise BrokenWorld(
                f"{reservation.id} says {reservation.available} are available; of {reservation.total}, "
                f"{held} are held, {reservation.elsewhere} used elsewhere, {reservation.lent} lent"
            )


def no_instance_is_in_two_reservations(_: World, tally: Tally) -> None:
    for instance in tally.inside:
        if instance.reservation_id and instance.reservation_id != instance.slot:
            raise BrokenWorld(
                f"{instance.id} runs in {instance.reservation_id} and holds a slot of {instance.slot or 'none'}"
            )


def instances_match_their_reservation(world: World, tally: Tally) -> None:
    for instance in tally.inside:
        reservation = world.reservations.get(instance.reservation_id)
        if reservation and (why := _mismatch(instance, reservation)):
            raise BrokenWorld(f"{instance.id} is in {reservation.id} although {why}")


def nothing_runs_in_an_ended_reservation(world: World, tally: Tally) -> None:
    for instance in tally.inside:
        reservation = world.reservations.get(instance.reservation_id)
        if reservation is None:
            continue
        if not reservation.active:
            raise BrokenWorld(f"{instance.id} is in {reservation.id}, which is {reservation.state}")
        block = reservation.kind == CAPACITY_BLOCK
        if block and instance.live and world.now_s >= reservation.reclaim_s:
            raise BrokenWorld(
                f"{instance.id} is {instance.state} in {reservation.id} after its reclaim began"
            )


def ids_are_never_reused(world: World, _: Tally) -> None:
    if sum(world.given.values()) != len(world.given):
        raise BrokenWorld(f"ids given twice: {[each for each, count in world.given.items() if count > 1]}")
    if strange := [each.id for each in world.instances if each.id not in world.given]:
        raise BrokenWorld(f"ids never given: {strange}")


def subnets_are_not_overfull(world: World, tally: Tally) -> None:
    for subnet in world.setup.subnets:
        used = tally.addresses.get(subnet.id, 0)
        if used > subnet.addresses:
            raise BrokenWorld(f"{subnet.id} has {subnet.addresses} addresses and {used} in use")
    if len(set(tally.places)) != len(tally.places):
        doubled = [place for place, count in Counter(tally.places).items() if count > 1]
        raise BrokenWorld(f"addresses in use twice: {doubled}")


def everything_is_paid_for_once(world: World, tally: Tally) -> None:
    owed = {each.id for each in world.reservations if each.active and not each.interruptible}
    owed |= tally.running
    billed = world.ledger.open.keys()
    if owed != billed:
        raise BrokenWorld(f"not billed: {owed - billed}; billed: {billed - owed}")
    inside = {each.id for each in tally.inside if each.reservation_id}
    for charge in world.ledger.open.values():
        if (charge.kind == "reserved") != (charge.what in inside):
            where = "in a reservation" if charge.what in inside else "in no reservation"
            raise BrokenWorld(f"{charge.what} is billed as {charge.kind} and is {where}")


CHECKERS: Final[tuple[Callable[[World, Tally], None], ...]] = (
    no_reservation_is_oversold,
    counts_add_up,
    no_instance_is_in_two_reservations,
    instances_match_their_reservation,
    nothing_runs_in_an_ended_reservation,
    ids_are_never_reused,
    subnets_are_not_overfull,
    everything_is_paid_for_once,
)


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
