"""An instance of this cluster, as the cloud describes it."""

import enum
from dataclasses import dataclass


class InstanceState(enum.StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"  # terminating; its reserved slot is not free until it is gone
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Instance:
    """As the cloud last described it; it may be some seconds old."""

    provider_id: str  # as Node objects spell it
    instance_type: str
    zone: str
    capacity_type: str
    state: InstanceState
    launched_s: int
    image_id: str = ""
    reservation_id: str | None = None  # the reservation it runs in, even if it was launched without one
    claim: str | None = None  # the NodeClaim it was launched for, by its tags
    launch_token: str | None = None  # the token of the call that launched it, by its tags
    lacks: tuple[str, ...] = ()  # resources that instances of its type can have, and this one does not
    labels: tuple[tuple[str, str], ...] = ()  # the labels of its node, sorted by key
    annotations: tuple[tuple[str, str], ...] = ()  # the annotations of its NodeClaim
