"""The region's state as bytes and back, so that an endpoint that is restarted continues where it stopped.

The rules: everything that EC2 would store is in it, client tokens and what is due included; the setup, the faults and
the history of stale reads are not, they belong to the run.
"""

from collections import Counter
from dataclasses import dataclass

import msgspec

from holdfast.sim.ec2.entities import Fleet, Group, Instance, Reservation, Template
from holdfast.sim.ec2.ledger import Charge
from holdfast.sim.ec2.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    now_s: int
    agenda: list[tuple[int, int, str, str]]
    entries: int
    given: dict[str, int]
    addresses: dict[str, int]
    pool_limits: list[tuple[tuple[str, str, str], int]]
    answers: list[tuple[tuple[str, str, str], tuple[str, bytes]]]
    instances: list[Instance]
    reservations: list[Reservation]
    templates: list[Template]
    groups: list[Group]
    fleets: list[Fleet]
    open: dict[str, Charge]
    closed: list[Charge]


def dump(world: World) -> bytes:
    return msgspec.msgpack.encode(
        Saved(
            now_s=world.now_s,
            agenda=world.agenda,
            entries=world.entries,
            given=dict(world.given),
            addresses=dict(world.addresses),
            pool_limits=list(world.pool_limits.items()),
            answers=list(world.answers.items()),
            instances=list(world.instances),
            reservations=list(world.reservations),
            templates=list(world.templates),
            groups=list(world.groups),
            fleets=list(world.fleets),
            open=world.ledger.open,
            closed=world.ledger.closed,
        )
    )


def load(world: World, data: bytes) -> None:
    """Into a world that nothing has happened in yet."""
    assert world.writes == 0, "a world that has begun cannot be replaced"
    saved = msgspec.msgpack.decode(data, type=Saved)
    world.now_s = max(world.now_s, saved.now_s)
    world.agenda, world.entries = saved.agenda, saved.entries
    world.given, world.addresses = Counter(saved.given), Counter(saved.addresses)
    world.pool_limits, world.answers = dict(saved.pool_limits), dict(saved.answers)
    world.ledger.open, world.ledger.closed = saved.open, saved.closed
    for instance in saved.instances:
        world.instances.put(instance)
    for reservation in saved.reservations:
        world.reservations.put(reservation)
    for template in saved.templates:
        world.templates.put(template)
    for group in saved.groups:
        world.groups.put(group)
    for fleet in saved.fleets:
        world.fleets.put(fleet)
