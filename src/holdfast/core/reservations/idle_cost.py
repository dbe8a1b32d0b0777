"""What the idle slots of a reservation cost an hour. A slot is idle if it is paid for and no instance uses it or is being
launched into it. Free slots of a block that is drained are idle, although nothing is launched into them any more.
"""

from holdfast.core.reservations.ledger import Entry
from holdfast.model import reservations
from holdfast.model.reservations import Ended, State, Upcoming


def idle_slots(entry: Entry, now_s: int) -> int:
    one = entry.reservation
    if one.state is not State.ACTIVE or isinstance(reservations.window(one, now_s), Upcoming | Ended):
        return 0
    return max(0, one.available - entry.held)


def idle_nano_usd_per_hour(entry: Entry, list_price_nano: int | None, now_s: int) -> int | None:
    """At the list price of the instance type: the cloud does not report what a reservation costs. None: the price is unknown."""
    slots = idle_slots(entry, now_s)
    if not slots:
        return 0
    return None if list_price_nano is None else slots * list_price_nano
