"""Saves and loads the state of the region, so that a restarted endpoint continues.

The state has everything that EC2 would store, with client tokens and scheduled changes. The setup, the faults and the
history for stale reads are not saved; they belong to the run.
"""

from collections import Counter
from dataclasses import dataclass

import msgspec

from holdfast.sim.ec2.entities import Fleet, Group, Instance, Reservation, Template
from holdfast.sim.ec2.ledger import Charge
from holdfast.sim.ec2.region_state import RegionState


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


def dump(region: RegionState) -> bytes:
    return msgspec.msgpack.encode(
        Saved(
            now_s=region.now_s,
            agenda=region.agenda,
            entries=region.entries,
            given=dict(region.given),
            addresses=dict(region.addresses),
            pool_limits=list(region.pool_limits.items()),
            answers=list(region.answers.items()),
            instances=list(region.instances),
            reservations=list(region.reservations),
            templates=list(region.templates),
            groups=list(region.groups),
            fleets=list(region.fleets),
            open=region.ledger.open,
            closed=region.ledger.closed,
        )
    )


def load(region: RegionState, data: bytes) -> None:
    """Loads the state into a new region."""
    assert region.writes == 0, "a region that has begun cannot be replaced"
    saved = msgspec.msgpack.decode(data, type=Saved)
    region.now_s = max(region.now_s, saved.now_s)
    region.agenda, region.entries = saved.agenda, saved.entries
    region.given, region.addresses = Counter(saved.given), Counter(saved.addresses)
    region.pool_limits, region.answers = dict(saved.pool_limits), dict(saved.answers)
    region.ledger.open, region.ledger.closed = saved.open, saved.closed
    for instance in saved.instances:
        region.instances.put(instance)
    for reservation in saved.reservations:
        region.reservations.put(reservation)
    for template in saved.templates:
        region.templates.put(template)
    for group in saved.groups:
        region.groups.put(group)
    for fleet in saved.fleets:
        region.fleets.put(fleet)
