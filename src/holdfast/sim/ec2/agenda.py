"""Applies scheduled changes that are due. Called at the start of every call and by `Ec2.advance`.

Changes are applied in the order of their times, each at its own time, however far the clock jumped.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.sim.ec2 import instances, reservations
from holdfast.sim.ec2.region_state import RegionState

ACTIONS: Final[Mapping[str, Callable[[RegionState, str], None]]] = {
    "instance.boot": instances.boot,
    "instance.die": instances.fail,
    "instance.impair": instances.impair,
    "instance.impair-system": functools.partial(instances.impair, check="system"),
    "instance.end": instances.end,
    "instance.release": instances.release,
    "instance.forget": instances.remove,
    "instance.interrupted": instances.interrupted,
    "instance.scheduled": instances.scheduled,
    "reservation.start": reservations.start,
    "reservation.warn": reservations.warn,
    "reservation.reclaim": reservations.reclaim,
    "reservation.end": reservations.expire,
}


def catch_up(region: RegionState) -> None:
    while entry := region.due():
        action, subject = entry
        ACTIONS[action](region, subject)
