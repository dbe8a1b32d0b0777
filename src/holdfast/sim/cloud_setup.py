"""What a simulated AWS is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.sim.ec2 import setup
from holdfast.sim.ec2.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A capacity reservation that is there from the beginning."""

    instance_type: str
    zone_id: str
    total: int
    id: str = ""  # "": EC2 makes one up
    owner: str = ""  # "": our own account
    elsewhere: int = 0  # slots in use by instances that are not simulated
    shared_with: tuple[str, ...] = ()
    kind: str = "default"  # default or capacity-block
    criteria: str = "open"  # open or targeted
    start_s: int = 0  # 0: at once
    end_s: int = 0  # 0: never
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    ultraserver: bool = False
    lent_from: str = ""  # the reservation whose slots these are
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSetup:
    """What a simulated AWS begins with. A scenario names what it is about."""

    region: str = "us-west-2"
    accounts: tuple[str, ...] = (setup.ACCOUNT,)  # the first is our own
    vcpu_limits: Mapping[str, int] = field(default_factory=dict)  # on-demand processors, by account
    cluster: str = setup.CLUSTER  # also the name of its queue, and the tag of its subnets and groups
    kubernetes: str = setup.KUBERNETES
    kube_endpoint: str = "https://cluster.invalid"
    certificate_authority: str = "Q0E="  # PEM in base64
    roles: tuple[str, ...] = (f"KarpenterNodeRole-{setup.CLUSTER}",)
    addresses: int = 4091  # of each subnet; there is one in every zone for each account
    reservations: tuple[Reserved, ...] = ()
    limits: Mapping[tuple[str, str, str], int] = field(
        default_factory=dict
    )  # type, zone id, market: how many
    prices: Mapping[str, int] = field(default_factory=dict)  # on demand, nano-USD an hour
    spot_prices: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by type and zone id
    timings: setup.Timings = field(default_factory=setup.Timings)
    faults: tuple[Fault, ...] = ()
    throttled: bool = True
    page_size: int = 0  # how many items a page of EC2 has at most; 0: as many as EC2's own

    @property
    def account(self) -> str:
        return self.accounts[0]


def access_key(account: str) -> str:
    """What a client of that account signs with; any other key is our own account's."""
    return f"AKIA{account}"
