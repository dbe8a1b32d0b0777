"""Says what changed between two pictures, a sentence each. Called by `holdfast demo`, for those who read along."""

from collections.abc import Iterator
from typing import Final

from holdfast.demo.picture import Machine, Picture, Slots

_DRAINED_FROM_S: Final = 40 * 60  # before the end of a capacity block


def changes(before: Picture, after: Picture) -> Iterator[str]:
    yield from _machines(before, after)
    yield from _pods(before, after)
    old = {one.id: one for one in before.slots}
    for one in after.slots:
        yield from _slots(old.get(one.id, one), one)


def _machines(before: Picture, after: Picture) -> Iterator[str]:
    old = {one.claim: one for one in before.machines}
    new = {one.claim: one for one in after.machines}
    for name, one in new.items():
        was = old.get(name)
        if one.instance_type and (was is None or not was.instance_type):
            yield f"{name} is launched: {_place(one)}"
        if one.state == "ready" and (was is None or was.state != "ready"):
            yield f"{name} is ready"
        if one.state == "ending" and was is not None and was.state != "ending":
            yield f"{name} is being emptied and ended"
    for name in old:
        if name not in new:
            yield f"{name} is gone"


def _place(one: Machine) -> str:
    where = f"{one.instance_type} in {one.zone}"
    return (
        f"{where}, in a paid slot of {one.reservation_id}"
        if one.reservation_id
        else f"{where}, {one.capacity}: {one.why}"
    )


def _pods(before: Picture, after: Picture) -> Iterator[str]:
    for name in sorted(after.wanted):
        running, wanted = after.running.get(name, 0), after.wanted[name]
        was = (before.running.get(name, 0), before.wanted.get(name, 0))
        if running == wanted and was != (running, wanted):
            yield f"{name}: {running} of {wanted} pods run"
    for name, why in after.waiting.items():
        if why and before.waiting.get(name, "") != why:
            yield f"{name} waits: {why}"


def _slots(before: Slots, after: Slots) -> Iterator[str]:
    was_s, is_s = before.ends_in_s, after.ends_in_s
    if was_s is not None and is_s is not None and was_s > _DRAINED_FROM_S >= is_s:
        yield (
            f"{after.id} ends in 40 minutes, and EC2 takes it back in 10: its nodes are drained before, "
            "and nothing is launched into it any more"
        )
    if before.state != after.state:
        yield f"{after.id} is {after.state}"
