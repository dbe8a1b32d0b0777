"""An order: what is to become of a NodeClaim and what replaces it, written on the claim itself as an annotation.

Written and read by disruption alone, of which nothing is kept elsewhere: whoever finds an order knows all that is needed
to carry it out or to take it back. The rule: every claim of one order carries the same text.
"""

import msgspec

from holdfast import names
from holdfast.api.meta import Object, Wire


class Order(Wire, frozen=True, kw_only=True):
    id: str
    reason: str  # as budgets name it
    method: str
    why: str
    at: int  # seconds since the epoch
    replacements: tuple[str, ...] = ()  # NodeClaims, by name
    drain_bound: int | None = None  # seconds


def of(claim: Object) -> Order | None:
    """The order about a claim; what cannot be read is none."""
    written = claim.metadata.annotations.get(names.ORDER)
    try:
        return msgspec.json.decode(written, type=Order) if written else None
    except msgspec.MsgspecError:
        return None


def text(order: Order) -> str:
    return msgspec.json.encode(order).decode()
