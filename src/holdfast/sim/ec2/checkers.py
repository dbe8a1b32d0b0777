"""Invariants of the region, checked after every write. A violation ends the run with its details.

Called by `service` after each call that wrote and after time has passed. A checker shares no code with the code that
maintains its invariant; it counts independently. After a write it checks the changed entities and those that depend on
them, so that the cost does not grow with the region. A full check covers everything, and compares the maintained counts
with new ones.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from holdfast.sim.ec2.entities import CAPACITY_BLOCK, CHECKS, EVENT_CODES, Instance, Reservation
from holdfast.sim.ec2.region_state import RegionState

_FULL_EVERY: Final = 500  # checks between two full ones; in a region with more instances, their number


class BrokenRule(AssertionError):
    """An invariant of EC2 is violated in the simulation: later results cannot be trusted."""


class Tally:
    """Counts over all instances, and the entities to check next."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()  # used slots by reservation
        self.inside: dict[str, dict[str, None]] = {}  # instances in it or with a slot of it, by reservation
        self.addresses: Counter[str] = Counter()  # used addresses by subnet
        self.private_ips: Counter[tuple[str, str]] = (
            Counter()
        )  # account and address of each instance that has one
        self.ids: tuple[str, ...] = ()  # to check, and the existing entities with these ids:
        self.instances: tuple[Instance, ...] = ()
        self.reservations: tuple[Reservation, ...] = ()
        self._counted: dict[str, Instance] = {}
        self._known: dict[str, Reservation] = {}
        self._blocks: dict[str, Reservation] = {}  # the known active capacity blocks

    def look(self, region: RegionState, touched: Iterable[str]) -> None:
        """Updates the counts. To check are the changed entities, the reservations whose slots they hold or held, the
        instances in a changed reservation, and the instances in a block that must be empty by now."""
        ids = dict.fromkeys(touched)
        for key in tuple(ids):
            self._count(region.instances.get(key), key, ids)
        for key in tuple(ids):
            if reservation := region.reservations.get(key):
                if not _alike(self._known.get(key), reservation):
                    ids |= self.inside.get(key, {})
                self._record_reservation(reservation)
        for key, block in self._blocks.items():
            if region.now_s >= block.reclaim_s:
                ids |= self.inside.get(key, {})
        self.ids = tuple(ids)
        self.instances = tuple(filter(None, map(region.instances.get, ids)))
        self.reservations = tuple(filter(None, map(region.reservations.get, ids)))

    def counts(self) -> tuple[Counter[str], Counter[str], Counter[tuple[str, str]]]:
        """The counts without zeros."""
        return +self.held, +self.addresses, +self.private_ips

    def _record_reservation(self, reservation: Reservation) -> None:
        self._known[reservation.id] = reservation
        self._blocks.pop(reservation.id, None)
        if reservation.kind == CAPACITY_BLOCK and reservation.active:
            self._blocks[reservation.id] = reservation

    def _count(self, after: Instance | None, key: str, ids: dict[str, None]) -> None:
        before = self._counted.pop(key, None)
        if after:
            self._counted[key] = after
        for instance, by in ((before, -1), (after, 1)):
            if instance is None:
                continue
            self.held[instance.held_reservation_id] += by
            for reservation_id in filter(
                None, dict.fromkeys((instance.held_reservation_id, instance.reservation_id))
            ):
                ids[reservation_id] = None
                inside = self.inside.setdefault(reservation_id, {})
                inside.pop(key, None)
                if by > 0:
                    inside[key] = None
            if instance.state != "terminated":
                self.addresses[instance.subnet_id] += by * instance.spec.addresses
                private_ip = instance.account, instance.private_ip
                self.private_ips[private_ip] += by
                if not self.private_ips[private_ip]:
                    del self.private_ips[private_ip]


class Watch:
    """Checks a region after each write."""

    def __init__(self, region: RegionState) -> None:
        self._region = region
        self._tally = Tally()
        self._checks = 0

    def check(self) -> None:
        """Checks after a write, and everything from time to time."""
        touched = tuple(self._region.touched)
        self._region.touched.clear()
        self._tally.look(self._region, touched)
        _run(self._region, self._tally)
        self._checks += 1
        if self._checks >= max(_FULL_EVERY, len(self._region.instances)):
            self.check_all()

    def check_all(self) -> None:
        self._checks = 0
        fresh = everything(self._region)
        _run(self._region, fresh)
        if fresh.counts() != self._tally.counts():
            raise BrokenRule(f"carried along: {self._tally.counts()}; counted anew: {fresh.counts()}")


def check(region: RegionState) -> None:
    """Checks everything."""
    _run(region, everything(region))


def everything(region: RegionState) -> Tally:
    tally = Tally()
    instances, reservations = (
        (each.id for each in region.instances),
        (each.id for each in region.reservations),
    )
    tally.look(region, (*instances, *reservations, *region.ledger.open, *region.given))
    return tally


def no_reservation_is_oversold(_: RegionState, tally: Tally) -> None:
    for reservation in tally.reservations:
        used = tally.held[reservation.id] + reservation.elsewhere + reservation.lent
        if used > reservation.total:
            inside = list(tally.inside.get(reservation.id, ()))
            raise BrokenRule(f"{reservation.id} holds {used} of {reservation.total}: {inside}")


def counts_add_up(_: RegionState, tally: Tally) -> None:
    for reservation in tally.reservations:
        held = tally.held[reservation.id]
        free = reservation.total - held - reservation.elsewhere - reservation.lent
        if reservation.active and reservation.available != free:
            raise BrokenRule(
                f"{reservation.id} says {reservation.available} are available; of {reservation.total}, "
                f"{held} are held, {reservation.elsewhere} used elsewhere, {reservation.lent} lent"
            )


def no_instance_is_in_two_reservations(_: RegionState, tally: Tally) -> None:
    for instance in tally.instances:
        if instance.reservation_id and instance.reservation_id != instance.held_reservation_id:
            raise BrokenRule(
                f"{instance.id} runs in {instance.reservation_id} and holds a slot of {instance.held_reservation_id or 'none'}"
            )


def instances_match_their_reservation(region: RegionState, tally: Tally) -> None:
    for instance in tally.instances:
        reservation = region.reservations.get(instance.reservation_id)
        if reservation and (why := _mismatch(instance, reservation)):
            raise BrokenRule(f"{instance.id} is in {reservation.id} although {why}")


def nothing_runs_in_an_ended_reservation(region: RegionState, tally: Tally) -> None:
    for instance in tally.instances:
        reservation = region.reservations.get(instance.reservation_id)
        if reservation is None:
            continue
        if not reservation.active:
            raise BrokenRule(f"{instance.id} is in {reservation.id}, which is {reservation.state}")
        block = reservation.kind == CAPACITY_BLOCK
        if block and instance.is_pending_or_running and region.now_s >= reservation.reclaim_s:
            raise BrokenRule(f"{instance.id} is {instance.state} in {reservation.id} after its reclaim began")


def ids_are_never_reused(region: RegionState, tally: Tally) -> None:
    if twice := [key for key in tally.ids if region.given.get(key, 0) > 1]:
        raise BrokenRule(f"ids given twice: {twice}")
    if strange := [each.id for each in tally.instances if each.id not in region.given]:
        raise BrokenRule(f"ids never given: {strange}")


def subnets_are_not_overfull(region: RegionState, tally: Tally) -> None:
    for instance in tally.instances:
        subnet, used = region.subnets[instance.subnet_id], tally.addresses[instance.subnet_id]
        if used > subnet.addresses:
            raise BrokenRule(f"{subnet.id} has {subnet.addresses} addresses and {used} in use")
    private_ips = {(each.account, each.private_ip): None for each in tally.instances}
    if doubled := [private_ip for private_ip in private_ips if tally.private_ips[private_ip] > 1]:
        raise BrokenRule(f"addresses in use twice: {doubled}")


def everything_is_paid_for_once(region: RegionState, tally: Tally) -> None:
    owed = {each.id: "" for each in tally.reservations if each.active and not each.interruptible}
    owed |= {each.id: each.reservation_id for each in tally.instances if each.state == "running"}
    billed = {key: region.ledger.open[key].kind for key in tally.ids if key in region.ledger.open}
    if owed.keys() != billed.keys():
        raise BrokenRule(
            f"not billed: {sorted(owed.keys() - billed.keys())}; billed: {sorted(billed.keys() - owed.keys())}"
        )
    for key, kind in billed.items():
        if (kind == "reserved") != bool(owed[key]):
            where = "in a reservation" if owed[key] else "in no reservation"
            raise BrokenRule(f"{key} is billed as {kind} and is {where}")


def instance_health_is_valid(region: RegionState, tally: Tally) -> None:
    for instance in tally.instances:
        for check, since_s in instance.impaired.items():
            if check not in CHECKS or not instance.launched_s <= since_s <= region.now_s:
                raise BrokenRule(f"{instance.id} fails its check {check!r} since {since_s}")
        event = instance.event
        if event and (
            event.code not in EVENT_CODES
            or (instance.is_pending_or_running and not event.over and event.at_s < region.now_s)
        ):
            raise BrokenRule(f"{instance.id} waits for {event.code} at {event.at_s}")


CHECKERS: Final[tuple[Callable[[RegionState, Tally], None], ...]] = (
    no_reservation_is_oversold,
    counts_add_up,
    no_instance_is_in_two_reservations,
    instances_match_their_reservation,
    nothing_runs_in_an_ended_reservation,
    ids_are_never_reused,
    subnets_are_not_overfull,
    everything_is_paid_for_once,
    instance_health_is_valid,
)


def _run(region: RegionState, tally: Tally) -> None:
    for checker in CHECKERS:
        checker(region, tally)


def _alike(before: Reservation | None, after: Reservation) -> bool:
    """Whether nothing changed that the instances in the reservation depend on."""
    return before is not None and replace(before, available=after.available) == after


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
