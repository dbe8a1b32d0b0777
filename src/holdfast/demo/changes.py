"""Describes what changed between two readings of the demo's status, one sentence per change."""

from collections.abc import Iterator
from typing import Final

from holdfast.demo.gangs import GangStatus
from holdfast.demo.status import NodeStatus, ReservationStatus, Status

_DRAINED_FROM_S: Final = 40 * 60  # before the end of a capacity block


def describe(before: Status, after: Status) -> Iterator[str]:
    yield from _nodes(before, after)
    yield from _gangs(before, after)
    yield from _pods(before, after)
    old = {one.id: one for one in before.reservations}
    for one in after.reservations:
        yield from _reservation(old.get(one.id, one), one)


def _nodes(before: Status, after: Status) -> Iterator[str]:
    old = {one.claim: one for one in before.nodes}
    new = {one.claim: one for one in after.nodes}
    for name, one in new.items():
        was = old.get(name)
        if one.instance_type and (was is None or not was.instance_type):
            yield f"launched {name}: {_offering(one)}"
        if one.state == "ready" and (was is None or was.state != "ready"):
            yield f"{name} is ready"
        if one.state == "terminating" and was is not None and was.state != "terminating":
            yield f"draining and terminating {name}"
    for name in old:
        if name not in new:
            yield f"deleted {name}"


def _offering(one: NodeStatus) -> str:
    where = f"{one.instance_type} in {one.zone}"
    return (
        f"{where}, reserved in {one.reservation_id}"
        if one.reservation_id
        else f"{where}, {one.capacity}: {one.reason}"
    )


def _gangs(before: Status, after: Status) -> Iterator[str]:
    old = {(one.kind, one.name): one for one in before.gangs}
    for one in after.gangs:
        was = old.get((one.kind, one.name))
        if one.message and (was is None or was.message != one.message):
            yield f"{_title(one)} waits: {one.message}"
        elif was is not None and was.state != one.state:
            yield f"{_title(one)} is {one.state}"


def _title(one: GangStatus) -> str:
    return f"{one.kind} {one.name}"


def _pods(before: Status, after: Status) -> Iterator[str]:
    for name in sorted(after.replicas):
        running, replicas = after.running.get(name, 0), after.replicas[name]
        was = (before.running.get(name, 0), before.replicas.get(name, 0))
        if running == replicas and was != (running, replicas):
            yield f"{name}: {running} of {replicas} pods run"
    for name, message in after.pending.items():
        if message and before.pending.get(name, "") != message:
            yield f"{name} is pending: {message}"


def _reservation(before: ReservationStatus, after: ReservationStatus) -> Iterator[str]:
    was_s, is_s = before.ends_in_s, after.ends_in_s
    if was_s is not None and is_s is not None and was_s > _DRAINED_FROM_S >= is_s:
        yield (
            f"{after.id} ends in 40 minutes; draining its nodes, because EC2 terminates them in 10. "
            "Nothing is launched into it any more"
        )
    if before.state != after.state:
        yield f"{after.id} is {after.state}"
