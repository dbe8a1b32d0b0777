"""The annotation of a NodeClaim that explains it: which pods, which offering, which reservations were considered, and why
it uses none of them. `state.conversion.claim_explanations` writes and reads it.
"""

from holdfast.api.meta import Wire


class ConsideredReservations(Wire, frozen=True, kw_only=True):
    """Reservations that the NodeClaim does not use for one reason."""

    code: str
    text: str  # a predicate: "has no free slot"
    kind: str = ""
    ids: tuple[str, ...] = ()
    more: int = 0  # how many ids are left out


class ClaimExplanation(Wire, frozen=True, kw_only=True):
    at: int  # seconds since the epoch
    cause: str  # why a node is launched
    pods: tuple[str, ...] = ()  # namespace/name of some of them
    pod_count: int = 0
    instance_type: str = ""  # what the plan counts on; EC2 may launch another listed type
    zone: str = ""
    capacity_type: str = ""
    usd_per_hour: str | None = None  # 0 in a slot; None: unknown
    reservation: str | None = None
    not_reserved: tuple[ConsideredReservations, ...] = ()
    more_causes: int = 0  # how many entries of not_reserved are left out
    changes: tuple[str, ...] = ()  # what would change it
