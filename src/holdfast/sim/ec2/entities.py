"""The entities of the simulated EC2: instances, reservations, groups, launch templates, fleets.

`region_state` stores them and their history. They are frozen, so older versions stay valid for stale reads. Zones are
zone ids, because each account has its own names. Times are seconds since the epoch. "" and 0 mean that EC2 leaves out
the member.
"""

from dataclasses import dataclass, field
from typing import Any, Final

PENDING_OR_RUNNING: Final = ("pending", "running")
STATE_CODES: Final = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}

CHECKS: Final = ("instance", "system", "ebs")  # EC2's status checks
REBOOTS: Final = ("instance-reboot", "system-reboot")
ENDS: Final = ("instance-stop", "instance-retirement")
EVENT_CODES: Final = (*REBOOTS, *ENDS, "system-maintenance")

CAPACITY_BLOCK: Final = "capacity-block"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"
ONLY_RESERVED: Final = "capacity-reservations-only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A capacity reservation. `available` could be computed, and is stored so that it can be checked."""

    id: str
    owner: str
    instance_type: str
    zone_id: str
    total: int
    available: int
    elsewhere: int = 0  # slots in use by instances that are not simulated
    state: str = "active"
    kind: str = "default"  # default or capacity-block
    criteria: str = "open"  # open or targeted
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    placement_group_arn: str = ""
    created_s: int
    start_s: int
    end_s: int = 0  # 0: unlimited
    interruptible: bool = False
    source_id: str = ""  # of an interruptible reservation: the one that its slots are taken from
    lent: int = 0  # slots moved to an interruptible reservation
    lent_to: str = ""
    target: int = -1  # of an interruptible reservation that shrinks: its new size
    block_id: str = ""
    ultraserver: bool = False
    shared_with: tuple[str, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return self.state == "active"

    @property
    def reservation_type(self) -> str:
        """As in Fleet's ReservationTypes."""
        if self.kind == CAPACITY_BLOCK:
            return CAPACITY_BLOCK
        return INTERRUPTIBLE if self.interruptible else "on-demand-capacity-reservation"

    @property
    def reclaim_s(self) -> int:
        """When EC2 starts to reclaim a capacity block."""
        return self.end_s - (60 if self.ultraserver else 30) * 60

    def visible_to(self, account: str) -> bool:
        return account == self.owner or account in self.shared_with


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The properties of an instance from a launch template or RunInstances."""

    image_id: str
    architecture: str
    platform: str = "Linux/UNIX"
    instance_type: str = ""  # of the template, unless an override sets it
    subnet_id: str = ""
    security_groups: tuple[str, ...] = ()
    profile: str = ""
    preference: str = ""  # "" is open
    target_id: str = ""
    target_group: str = ""
    market: str = ""
    tenancy: str = "default"
    placement_group: str = ""
    user_data: str = ""
    addresses: int = 1  # private addresses that it uses in its subnet
    efas: int = 0
    volumes: tuple[str, ...] = ()  # device names
    volume_gib: int = 0  # of the largest volume; 0: that of the image
    monitoring: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def targets(self) -> bool:
        return bool(self.target_id or self.target_group)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledEvent:
    """A scheduled event of an instance; it is described for a while after it is completed."""

    id: str
    code: str
    at_s: int
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    id: str
    account: str
    instance_type: str
    zone_id: str
    subnet_id: str
    spec: Spec
    lifecycle: str = ""  # "", spot, capacity-block or interruptible-capacity-reservation
    reservation_id: str = ""  # the reservation of the instance, as in DescribeInstances
    held_reservation_id: str = (
        ""  # the reservation whose slot it holds, until the release lag after its termination has passed
    )
    state: str = "pending"
    state_reason: tuple[str, str] = ("", "")
    launched_s: int
    ended_s: int = 0
    batch_id: str  # EC2's id (r-...) of the instances that were launched together
    fleet_id: str = ""
    client_token: str = ""
    spot_request_id: str = ""
    private_ip: str
    interface_id: str
    volume_ids: tuple[str, ...] = ()
    agent: str = ""  # user agent of the client that launched it
    partition: int = 0  # of its placement group; 0: none
    silent: bool = False  # it runs and never responds
    impaired: dict[str, int] = field(default_factory=dict)  # since when, by failing status check
    boots: int = 1  # number of starts
    event: ScheduledEvent | None = None
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def is_pending_or_running(self) -> bool:
        return self.state in PENDING_OR_RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    id: str
    name: str
    account: str
    created_s: int
    created_by: str
    versions: tuple[dict[str, Any], ...]  # LaunchTemplateData by number, from 1
    default: int = 1
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A resource group of capacity reservations."""

    id: str  # its ARN
    account: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    id: str
    account: str
    created_s: int
    target: int
    instance_ids: tuple[str, ...]
    tags: dict[str, str] = field(default_factory=dict)
