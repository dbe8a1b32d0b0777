"""What a command of disruption must not do, by counting: nothing here asks the program, or knows how it decides.

Called by `watch` with what is there when a command is carried out. The rules: whoever is moved has a home to go to; a
pod that consolidation moved is left in peace for a while; and consolidation never pays more.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.sim.ec2 import prices
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.setup import Setup
from storms.generate import App

ZONE: Final = "topology.kubernetes.io/zone"
COOLDOWN_S: Final = 600
FOLLOWS_S: Final = 60  # a pod that was made so soon after its like was evicted is its successor
TRIES_MAX: Final = 20_000


@dataclass(frozen=True)
class Room:
    """What is left of a node."""

    node: str
    cpu_millis: int
    labels: dict[str, str]
    tainted: bool = False


@dataclass(frozen=True)
class Guest:
    """A pod that has to leave its node."""

    pod: str
    app: App
    zone: str | None = None  # where its disk is

    def may_be_in(self, room: Room) -> bool:
        wanted = dict(self.app.selector) | ({ZONE: self.zone} if self.zone else {})
        fits = all(room.labels.get(key) == value for key, value in wanted.items())
        return fits and (self.app.tolerates or not room.tainted)


def have_homes(guests: Sequence[Guest], rooms: Sequence[Room]) -> bool:
    """Whether there is a way to put all of them up, by trying all ways; who would have to try for too long says yes."""
    big_first = sorted(guests, key=lambda guest: -guest.app.cpu_millis)
    left = [room.cpu_millis for room in rooms]
    tries = 0

    def place(number: int) -> bool:
        nonlocal tries
        if number == len(big_first):
            return True
        guest = big_first[number]
        for index, room in enumerate(rooms):
            tries += 1
            if tries > TRIES_MAX:
                return True
            if left[index] >= guest.app.cpu_millis and guest.may_be_in(room):
                left[index] -= guest.app.cpu_millis
                if place(number + 1):
                    return True
                left[index] += guest.app.cpu_millis
        return False

    return place(0)


def hourly_nano_usd(machine: Instance, setup: Setup) -> int:
    """What it adds to the bill: a slot is paid for whether it is used or not."""
    if machine.reservation_id:
        return 0
    if machine.lifecycle == "spot":
        return prices.spot(setup, machine.instance_type, machine.zone_id) or 0
    return prices.on_demand(setup, machine.instance_type) or 0


class Peace:
    """Who was moved by consolidation, and is left alone now."""

    def __init__(self) -> None:
        self._moved_s: dict[str, list[int]] = defaultdict(list)  # by app

    def moved(self, app: str, *, made_s: int, now_s: int) -> bool:
        """A pod is evicted for consolidation: whether it had come by such an eviction, a short while ago."""
        before = self._moved_s[app]
        follows = any(0 <= made_s - moved_s <= FOLLOWS_S for moved_s in before)
        before.append(now_s)
        return follows and now_s - made_s < COOLDOWN_S
