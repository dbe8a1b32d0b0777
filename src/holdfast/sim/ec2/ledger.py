"""The ledger of costs: the price of each hour, its subject and its payer.

`region_state` books each change of an instance or a reservation; scenarios and reports read it. An instance or a
reservation has at most one open charge. An instance in a reservation costs nothing itself, because the owner pays for
every slot, used or not. Only running instances are billed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A price per hour during an interval."""

    what: str  # an instance id or a reservation id
    kind: str  # on-demand, spot, reserved, reservation or capacity-block
    account: str  # the payer
    agent: str = ""  # user agent of the client that launched it
    tags: Mapping[str, str] = field(default_factory=dict)
    nano_usd_per_hour: int
    from_s: int
    to_s: int | None = None
    reservation: str = ""  # whose slot an instance uses

    def nano_usd(self, from_s: int, until_s: int) -> int:
        """The cost within an interval."""
        end_s = until_s if self.to_s is None else min(self.to_s, until_s)
        return self.nano_usd_per_hour * max(0, end_s - max(self.from_s, from_s)) // HOUR_S


class Ledger:
    def __init__(self, changed: Callable[[str], None]) -> None:
        self.open: dict[str, Charge] = {}
        self.closed: list[Charge] = []
        self._changed = changed  # called with the id whose charge changed

    def book(self, charge: Charge) -> None:
        """Starts a new charge; closes the previous one."""
        before = self.open.get(charge.what)
        if before and _paid_for(before) == _paid_for(charge):
            return
        self.stop(charge.what, charge.from_s)
        self.open[charge.what] = charge
        self._changed(charge.what)

    def stop(self, what: str, now_s: int) -> None:
        before = self.open.pop(what, None)
        if before is None:
            return
        self._changed(what)
        if before.from_s < now_s:
            self.closed.append(replace(before, to_s=now_s))

    def charges(self) -> Iterator[Charge]:
        yield from self.closed
        yield from self.open.values()

    def take(self, subjects: AbstractSet[str]) -> list[Charge]:
        """Removes the closed charges of these instances, and returns them."""
        taken = [one for one in self.closed if one.what in subjects]
        if taken:
            self.closed = [one for one in self.closed if one.what not in subjects]
        return taken

    def nano_usd(self, from_s: int, until_s: int, *, tag: str = "") -> Counter[tuple[str, str]]:
        """The cost of an interval, by kind and by the value of a tag, or by account."""
        costs: Counter[tuple[str, str]] = Counter()
        for charge in self.charges():
            payer = charge.tags.get(tag, "") if tag else charge.account
            costs[charge.kind, payer] += charge.nano_usd(from_s, until_s)
        return costs

    def by_hour(self, from_s: int, until_s: int, *, tag: str = "") -> dict[int, Counter[tuple[str, str]]]:
        """The same for each hour, by its first second."""
        return {
            hour_s: self.nano_usd(hour_s, min(hour_s + HOUR_S, until_s), tag=tag)
            for hour_s in range(from_s, until_s, HOUR_S)
        }


def _paid_for(charge: Charge) -> tuple[str, int, str]:
    return charge.kind, charge.nano_usd_per_hour, charge.reservation
