"""A capacity reservation as EC2 describes it, and its conversion to the model (`CapacityReservation.model`).

Called by `discovery`, which reads them, and by `reservation_status`. AWS's lead times before the end of a capacity
block and the order of reservation types on a tie are values here, so that `core` names no cloud.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from holdfast.cloud.aws.client import answers, descriptions
from holdfast.cloud.aws.reservations.selection import Traits
from holdfast.model.reservations import Reservation, State

DEFAULT: Final = "default"
ONLY: Final = "capacity-reservations-only"  # the preference of a launch into a reservation
CAPACITY_BLOCK: Final = "capacity-block"
LINUX: Final = "Linux/UNIX"
DEFAULT_TENANCY: Final = "default"
TIE_RANKS: Final = {CAPACITY_BLOCK: 0, DEFAULT: 1}

_MINUTE_S: Final = 60
# Capacity blocks of these types are whole UltraServers. EC2 reports `LaunchStatus` for them only.
_ULTRASERVERS: Final = ("p6e-", "trn2u.")
_UNLAUNCHABLE: Final = "unlaunchable"
_SLOTS_MAX: Final = 1_000_000  # of one reservation


@dataclass(frozen=True, slots=True)
class LeadTimes:
    """How long before the end of a reservation its nodes are drained, and EC2 reclaims its instances."""

    drain_s: int = 0
    reclaim_s: int = 0


NO_LEAD: Final = LeadTimes()  # instances of an ordinary reservation continue on demand after its end
BLOCK_LEAD: Final = LeadTimes(40 * _MINUTE_S, 30 * _MINUTE_S)
ULTRASERVER_LEAD: Final = LeadTimes(70 * _MINUTE_S, 60 * _MINUTE_S)

# EC2's states. An unknown state counts as pending: nothing is launched into the reservation, and its nodes stay.
STATES: Final = {
    "active": State.ACTIVE,
    "cancelled": State.GONE,
    "cancelling": State.GONE,
    "expired": State.GONE,
    "failed": State.GONE,
    "payment-failed": State.GONE,
    "unsupported": State.GONE,
    "assessing": State.PENDING,
    "delayed": State.PENDING,
    "payment-pending": State.PENDING,
    "pending": State.PENDING,
    "scheduled": State.PENDING,
    "unavailable": State.PENDING,
}


@dataclass(frozen=True, kw_only=True)
class CapacityReservation:
    """A capacity reservation from DescribeCapacityReservations. Its dates are EC2's.

    Not slotted, because `model` is a cached property.
    """

    id: str
    instance_type: str
    zone: str  # EC2's name of the zone; for a shared reservation maybe the name in the owner's account
    total: int
    available: int
    kind: str = DEFAULT
    owner: str = ""
    state: str = "active"  # EC2's state
    interruptible: bool = False
    match_criteria: str = "open"
    tags: tuple[tuple[str, str], ...] = ()
    start_s: int | None = None
    end_s: int | None = None
    ultraserver: bool = False  # a capacity block of UltraServers; EC2 reclaims it earlier
    zone_id: str | None = None  # the same for all accounts
    platform: str = LINUX
    tenancy: str = DEFAULT_TENANCY
    placement_group: str = ""  # name of the placement group of the reservation
    outpost: bool = False
    launchable: bool = True  # false for an UltraServer that EC2 reports as unlaunchable
    ec2_ahead_s: int = 0  # seconds that EC2's clock was ahead of the program's time

    @functools.cached_property
    def model(self) -> Reservation:
        """The reservation as `core` uses it, with dates in the program's time."""
        lead = lead_times(self)
        return Reservation(
            id=self.id,
            kind=self.kind,
            instance_type=self.instance_type,
            zone=self.zone,
            owner=self.owner,
            total=self.total,
            available=min(self.available, self.total),  # EC2's counts may lag while it shrinks
            state=STATES.get(self.state, State.PENDING),
            interruptible=self.interruptible,
            tie_rank=TIE_RANKS.get(self.kind, len(TIE_RANKS)),
            start_s=None if self.start_s is None else self.start_s - self.ec2_ahead_s,
            end_s=None if self.end_s is None else self.end_s - self.ec2_ahead_s,
            drain_lead_s=lead.drain_s,
            reclaim_lead_s=lead.reclaim_s,
            state_name=self.state,
            tenancy=self.tenancy,
        )

    @property
    def traits(self) -> Traits:
        return Traits(self.id, self.owner, self.match_criteria, dict(self.tags))


def from_description(raw: Mapping[str, Any]) -> CapacityReservation:
    """Parses an item of DescribeCapacityReservations. A count or date out of range is a ValueError: a plan would use
    it."""
    instance_type = raw["InstanceType"]
    available = answers.count(raw.get("AvailableInstanceCount", 0), _SLOTS_MAX)
    total = answers.count(raw.get("TotalInstanceCount", available), _SLOTS_MAX)
    return CapacityReservation(
        id=raw["CapacityReservationId"],
        instance_type=instance_type,
        zone=raw.get("AvailabilityZone", ""),
        zone_id=raw.get("AvailabilityZoneId"),
        total=total,
        available=min(available, total),  # otherwise a plan could oversell it
        kind=raw.get("ReservationType") or DEFAULT,
        owner=raw.get("OwnerId", ""),
        state=raw.get("State", ""),
        interruptible=raw.get("Interruptible", False),
        match_criteria=raw.get("InstanceMatchCriteria", ""),
        tags=tuple(sorted(descriptions.tags(raw).items())),
        start_s=_epoch_s(raw.get("StartDate")),
        end_s=_epoch_s(raw.get("EndDate")),
        ultraserver="LaunchStatus" in raw or instance_type.startswith(_ULTRASERVERS),
        platform=raw.get("InstancePlatform", LINUX),
        tenancy=raw.get("Tenancy", DEFAULT_TENANCY),
        placement_group=raw.get("PlacementGroupArn", "").rpartition("/")[2],
        outpost=bool(raw.get("OutpostArn")),
        launchable=raw.get("LaunchStatus") != _UNLAUNCHABLE,
    )


def _epoch_s(moment: datetime | None) -> int | None:
    return None if moment is None else answers.epoch_s(moment)


def lead_times(reservation: CapacityReservation) -> LeadTimes:
    if reservation.kind != CAPACITY_BLOCK:
        return NO_LEAD
    return ULTRASERVER_LEAD if reservation.ultraserver else BLOCK_LEAD


def turns_s(reservation: CapacityReservation) -> tuple[int, ...]:
    """The dates at which it starts, and at which its drain starts. A reading from before such a date is stale."""
    lead, end_s = lead_times(reservation), reservation.end_s
    drains_s = end_s - lead.drain_s if end_s is not None and lead.drain_s else None
    return tuple(turn_s for turn_s in (reservation.start_s, drains_s) if turn_s is not None)


def localized(
    reservations: Iterable[CapacityReservation], zone_names: Mapping[str, str], ec2_ahead_s: int
) -> tuple[CapacityReservation, ...]:
    """Sets each zone to its name in this account, and the offset of EC2's clock. EC2 may report the owner's zone name
    for a shared reservation: names differ between accounts, ids do not. A zone with an unknown id keeps its name."""
    return tuple(
        replace(one, zone=zone_names.get(one.zone_id or "", one.zone), ec2_ahead_s=ec2_ahead_s)
        for one in reservations
    )
