"""The setup of a simulated AWS."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.sim.ec2 import setup
from holdfast.sim.ec2.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A capacity reservation of the initial state."""

    instance_type: str
    zone_id: str
    total: int
    id: str = ""  # "": EC2 creates an id
    owner: str = ""  # "": the own account
    elsewhere: int = 0  # slots in use by instances that are not simulated
    shared_with: tuple[str, ...] = ()
    kind: str = "default"  # default or capacity-block
    criteria: str = "open"  # open or targeted
    start_s: int = 0  # 0: at once
    end_s: int = 0  # 0: never
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    ultraserver: bool = False
    lent_from: str = ""  # the reservation that the slots are taken from
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSetup:
    """The initial state of a simulated AWS. A scenario sets the fields that it needs."""

    region: str = "us-west-2"
    accounts: tuple[str, ...] = (setup.ACCOUNT,)  # the first is the own account
    vcpu_limits: Mapping[str, int] = field(default_factory=dict)  # on-demand processors, by account
    cluster: str = setup.CLUSTER  # also the name of its queue, and a tag of its subnets and security groups
    kubernetes: str = setup.KUBERNETES
    kube_endpoint: str = "https://cluster.invalid"
    certificate_authority: str = "Q0E="  # PEM in base64
    roles: tuple[str, ...] = (f"KarpenterNodeRole-{setup.CLUSTER}",)
    spot_role: bool = True  # whether the account has the service-linked role for spot
    addresses: int = 4091  # of each subnet; there is one in every zone for each account
    reservations: tuple[Reserved, ...] = ()
    limits: Mapping[tuple[str, str, str], int] = field(
        default_factory=dict
    )  # count by type, zone id and market
    prices: Mapping[str, int] = field(default_factory=dict)  # on demand, nano-USD an hour
    spot_prices: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by type and zone id
    timings: setup.Timings = field(default_factory=setup.Timings)
    faults: tuple[Fault, ...] = ()
    throttled: bool = True
    page_size: int = 0  # items per page of EC2; 0: EC2's own limits

    @property
    def account(self) -> str:
        return self.accounts[0]


def access_key(account: str) -> str:
    """The access key of an account; unknown keys belong to the own account."""
    return f"AKIA{account}"
