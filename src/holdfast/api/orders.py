"""A disruption command as an annotation of its NodeClaims: the reason, the decision and the replacements.

The disruption controllers keep no other record, so that a restarted process can complete or undo a command. All
NodeClaims of one command have the same text.
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
