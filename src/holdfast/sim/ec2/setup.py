"""The setup of a simulated region: accounts, zones, subnets, security groups, images and timings.

It does not change later. Zone ids are EC2's and the same for every account; zone names are those of an account.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.data import ec2
from holdfast.sim.ec2 import eks_images
from holdfast.sim.ec2.images import Image

ACCOUNT: Final = "111122223333"
DEFAULT_GROUP: Final = "default"  # the name of the default group of every VPC
VPC: Final = "vpc-0a1b2c3d4e5f60718"
CLUSTER: Final = "holdfast"
KUBERNETES: Final = "1.36"
ZONES_OF_CLUSTER: Final = 3  # zones that have a subnet with the cluster's tag


@dataclass(frozen=True)
class Account:
    id: str
    zone_ids: Mapping[str, str]  # by the account's zone name
    vcpu_limit: int = 0  # quota of on-demand vCPUs; 0: none

    @functools.cached_property
    def zone_names(self) -> dict[str, str]:
        """Zone names by zone id."""
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
    """Durations. A scenario sets the fields that it needs."""

    boot_s: int = 20  # pending to running
    shutdown_s: int = 30  # shutting-down to terminated
    release_lag_s: int = 30  # from terminated until the slot is counted as available
    reservation_pending_s: int = 0  # a new reservation is pending this long
    expiry_lag_s: int = 0  # an ordinary reservation ends this long after its end date, at most an hour
    forget_s: int = 3600  # a terminated instance is described this long
    stale_s: int = 0  # age of the data in every Describe response
    interruption_s: int = 120  # from an interruption warning to the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    region: str
    accounts: tuple[Account, ...]
    subnets: tuple[Subnet, ...]
    security_groups: tuple[SecurityGroup, ...]
    images: tuple[Image, ...]
    placement_groups: tuple[PlacementGroup, ...] = ()
    has_profile: Callable[[str], bool] = lambda _: True  # whether IAM has an instance profile of that name
    timings: Timings = Timings()
    page_size: int = 0  # maximum of items in any page; 0: none
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

    The first account has the shipped zone names; each further one has names shifted by one. As in most accounts, the
    cluster has subnets in three zones: subnets of the other zones lack its tag.
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
