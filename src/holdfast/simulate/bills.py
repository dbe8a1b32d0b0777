"""Who paid for what: the charges of the simulated EC2, by reservation and by instance type. Pure except for `Bills`.

A reservation costs its price whether it is used or not; an instance in a slot costs nothing on top. So a slot is paid for
and used here, used elsewhere, or idle. Amounts are nano-USD and seconds until they are written.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.sim.ec2.ledger import HOUR_S, Charge
from holdfast.sim.ec2.region_state import RegionState

NANO: Final = 10**9
IN_SLOT: Final = "reserved"
ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
RESERVATIONS: Final = ("reservation", "capacity-block")


@dataclass(frozen=True, slots=True)
class Launched:
    """What an instance was. EC2 forgets terminated instances after an hour."""

    instance_type: str
    zone: str


@dataclass(frozen=True, slots=True)
class Use:
    """An instance or a reservation that was paid for from one time to another."""

    what: str
    kind: str  # on-demand, spot, reserved, reservation or capacity-block
    instance_type: str
    zone: str
    reservation: str
    nano_usd_per_hour: int
    from_s: int
    to_s: int


class Bills:
    """Collects what instances are while EC2 knows them. Call `see` at least twice an hour.

    Of an instance that EC2 has forgotten, only what it was paid for is kept, and its charges are taken out of EC2's
    ledger: they have its tags, and a simulation of weeks launches very many instances."""

    def __init__(
        self, region: RegionState, account: str, slot_prices: Mapping[str, int] | None = None
    ) -> None:
        """`slot_prices`: what a slot costs an hour in nano-USD, by instance type, where it is not the list price."""
        self._region = region
        self._account = account
        self._slot_prices = slot_prices or {}
        self.zones = {id_: name for name, id_ in region.account(account).zone_ids.items()}
        self._launched: dict[str, Launched] = {}
        self._over: list[Use] = []  # of instances that EC2 has forgotten

    def see(self) -> None:
        for one in self._region.instances:
            if one.id not in self._launched:
                self._launched[one.id] = Launched(sys.intern(one.instance_type), self.zones[one.zone_id])
        forgotten = {id_ for id_ in self._launched if id_ not in self._region.instances}
        for charge in self._region.ledger.take(forgotten):
            if charge.account == self._account:
                assert charge.to_s is not None
                self._over.append(self._use(charge, charge.to_s))
        for id_ in forgotten:
            del self._launched[id_]

    def uses(self, until_s: int) -> list[Use]:
        """Everything that the account paid for, and its instances in slots."""
        self.see()
        charges = (one for one in self._region.ledger.charges() if one.account == self._account)
        return [*self._over, *(self._use(one, until_s) for one in charges)]

    def _use(self, charge: Charge, until_s: int) -> Use:
        to_s = until_s if charge.to_s is None else min(charge.to_s, until_s)
        if charge.kind in RESERVATIONS:
            reservation = self._region.reservations[charge.what]
            about, of = Launched(reservation.instance_type, self.zones[reservation.zone_id]), charge.what
        else:
            about, of = self._launched[charge.what], charge.reservation
        return Use(
            charge.what,
            charge.kind,
            about.instance_type,
            about.zone,
            of,
            self._price(charge, about),
            charge.from_s,
            to_s,
        )

    def _price(self, charge: Charge, about: Launched) -> int:
        if charge.kind in RESERVATIONS and about.instance_type in self._slot_prices:
            return self._slot_prices[about.instance_type] * self._region.reservations[charge.what].total
        return charge.nano_usd_per_hour


def nano_usd(uses: Iterable[Use]) -> int:
    return sum(one.nano_usd_per_hour * (one.to_s - one.from_s) for one in uses) // HOUR_S


def seconds(uses: Iterable[Use]) -> int:
    return sum(one.to_s - one.from_s for one in uses)


def usd(nano: int) -> float:
    return round(nano / NANO, 4)


def changes(uses: Iterable[Use]) -> tuple[tuple[int, int], ...]:
    """How many run from each time on."""
    steps: dict[int, int] = defaultdict(int)
    for one in uses:
        if one.from_s < one.to_s:
            steps[one.from_s] += 1
            steps[one.to_s] -= 1
    found: list[tuple[int, int]] = []
    count = 0
    for at_s in sorted(steps):
        if steps[at_s]:
            count += steps[at_s]
            found.append((at_s, count))
    return tuple(found)


def at_steps(weights: Iterable[tuple[int, int, int]], begins_s: int, step_s: int, count: int) -> list[int]:
    """The sum of the weights at each step, of intervals (from, to, weight)."""
    steps = [0] * (count + 1)
    for from_s, to_s, weight in weights:
        first = max(0, -(-(from_s - begins_s) // step_s))
        last = min(count, -(-(to_s - begins_s) // step_s))
        if first < last:
            steps[first] += weight
            steps[last] -= weight
    found, total = [], 0
    for change in steps[:count]:
        total += change
        found.append(total)
    return found


def by_key(uses: Iterable[Use]) -> Mapping[tuple[str, str], list[Use]]:
    """By instance type and zone."""
    found: dict[tuple[str, str], list[Use]] = defaultdict(list)
    for one in uses:
        found[one.instance_type, one.zone].append(one)
    return found
