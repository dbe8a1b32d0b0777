"""What a simulated region begins with: accounts, zones, subnets, security groups, images, and how fast it is.

Nothing here changes afterwards. The rule: zone ids are EC2's and the same for every account, zone names are an
account's own.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.data import ec2
from holdfast.sim.ec2 import eks_images
from holdfast.sim.ec2.images import Image

ACCOUNT: Final = "111122223333"
DEFAULT_GROUP: Final = "default"  # the name of the group that every VPC has
VPC: Final = "vpc-0a1b2c3d4e5f60718"
CLUSTER: Final = "holdfast"
KUBERNETES: Final = "1.36"
ZONES_OF_CLUSTER: Final = 3  # with a subnet that has the cluster's tag


@dataclass(frozen=True)
class Account:
    id: str
    zone_ids: Mapping[str, str]  # by the name this account knows a zone by
    vcpu_limit: int = 0  # on-demand processors it may run at once; 0: no limit

    @functools.cached_property
    def zone_names(self) -> dict[str, str]:
        """By the id of the zone."""
        return {zone_id: name for name, zone_id in self.zone_ids.items()}

    def zone_name(self, zone_id: str) -> str:
        return self.zone_names[zone_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    id: str
    account: str
    zone_id: str
    cidr: str
    vpc_id: str = VPC
    addresses: int = 4091
    default: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityGroup:
    id: str
    account: str
    name: str
    vpc_id: str = VPC
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementGroup:
    id: str
    account: str
    name: str
    strategy: str = "cluster"
    partitions: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How long things take. A scenario sets what it is about."""

    boot_s: int = 20  # pending to running
    shutdown_s: int = 30  # shutting-down to terminated
    release_lag_s: int = 30  # terminated to its slot being counted as available
    reservation_pending_s: int = 0  # a new reservation is pending this long
    expiry_lag_s: int = 0  # an ordinary reservation ends this long after its end date, at most an hour
    forget_s: int = 3600  # a terminated instance is described this long
    stale_s: int = 0  # how old every answer of a Describe call is
    interruption_s: int = 120  # from an interruption warning to the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    region: str
    accounts: tuple[Account, ...]
    subnets: tuple[Subnet, ...]
    security_groups: tuple[SecurityGroup, ...]
    images: tuple[Image, ...]
    placement_groups: tuple[PlacementGroup, ...] = ()
    has_profile: Callable[[str], bool] = lambda _: True  # whether IAM knows an instance profile of that name
    timings: Timings = Timings()
    page_size: int = 0  # how many items a page has at most, whatever is asked for; 0: no such bound
    prices: Mapping[str, int] = field(
        default_factory=dict
    )  # on demand, nano-USD an hour, instead of the shipped
    spot_prices: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by type and zone id


def plain(
    region: str = "us-west-2",
    *,
    accounts: tuple[str, ...] = (ACCOUNT,),
    cluster: str = CLUSTER,
    kubernetes: str = KUBERNETES,
    addresses: int = 4091,
) -> Setup:
    """Accounts with a subnet in every zone, the default security group and one for nodes, and the images of EKS.

    The first account knows the zones by the shipped names, each further one by names moved on by one. As in most
    accounts, the cluster has subnets in three zones: those of the other zones lack its tag.
    """
    zones = ec2.region(region).zones
    known = tuple(
        Account(account, {zone.name: str(zones[(i + n) % len(zones)].id) for i, zone in enumerate(zones)})
        for n, account in enumerate(accounts)
    )
    tags = {"karpenter.sh/discovery": cluster}
    with_nodes = [str(zone.id) for zone in zones[:ZONES_OF_CLUSTER]]
    return Setup(
        region=region,
        accounts=known,
        subnets=tuple(
            Subnet(
                id=f"subnet-{account.id[-8:]}{n:09x}",
                account=account.id,
                zone_id=str(zone.id),
                cidr=f"10.{number}.{16 * n}.0/20",
                addresses=addresses,
                default=True,
                tags=tags if str(zone.id) in with_nodes else {},
            )
            for number, account in enumerate(known)
            for n, zone in enumerate(zones)
        ),
        security_groups=tuple(
            SecurityGroup(id=f"sg-{account.id[-8:]}{n:09x}", account=account.id, name=name, tags=tagged)
            for account in known
            for n, (name, tagged) in enumerate(((f"{cluster}-nodes", tags), (DEFAULT_GROUP, {})), start=1)
        ),
        images=eks_images.images(kubernetes),
    )
