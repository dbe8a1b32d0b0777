"""karpenter.k8s.aws/v1 EC2NodeClass: how instances are launched, and which reservations they may use.

The field names and bounds are Karpenter's; `capacityReservationSpec` and
`status.upcomingCapacityReservations` are ours. `HoldfastNodeClass` is the same kind in the group holdfast.dev.
"""

from typing import Annotated, Any, ClassVar, Final

from msgspec import field

from holdfast import names
from holdfast.api import aws
from holdfast.api.ec2nodeclass.instance import (
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    MetadataOptions,
    NetworkInterface,
)
from holdfast.api.ec2nodeclass.selectors import (
    AMI_FAMILIES,
    AMISelectorTerm,
    CapacityReservationSelectorTerm,
    CapacityReservationSpec,
    PlacementGroupSelector,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
    alone,
    at_least_one,
)
from holdfast.api.ec2nodeclass.status import EC2NodeClassStatus
from holdfast.api.meta import Object, Wire
from holdfast.api.schema import Rule, about

RESERVED_TAGS: Final = (aws.CLUSTER_NAME_TAG, names.NODEPOOL, aws.NODECLAIM_TAG, aws.EC2NODECLASS)


def _reserved_tags() -> tuple[Rule, ...]:
    return tuple(
        Rule(f"self.all(k, k != '{tag}')", f"the tag {tag} is set by the autoscaler") for tag in RESERVED_TAGS
    )


def _families_fit_aliases() -> tuple[Rule, ...]:
    return tuple(
        Rule(
            f"!has(self.amiFamily) || self.amiFamily in ['{family}', 'Custom'] || "
            f"!self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.split('@')[0] == '{alias}')",
            f"with an alias of {alias}, amiFamily is {family} or Custom, or left out",
        )
        for alias, family in AMI_FAMILIES.items()
    )


class EC2NodeClassSpec(Wire, frozen=True, kw_only=True):
    subnet_selector_terms: Annotated[
        tuple[SubnetSelectorTerm, ...],
        about(
            "The subnets instances start in: those that any of the terms selects.",
            max_items=30,
            rules=(
                Rule("self.size() != 0", "at least one subnet selector term is needed"),
                at_least_one("tags", "id"),
                alone("id", "tags", any_term=False),
            ),
        ),
    ]
    security_group_selector_terms: Annotated[
        tuple[SecurityGroupSelectorTerm, ...],
        about(
            "The security groups instances get: those that any of the terms selects.",
            max_items=30,
            rules=(
                Rule("self.size() != 0", "at least one security group selector term is needed"),
                at_least_one("tags", "id", "name"),
                alone("id", "tags", "name", any_term=False),
                alone("name", "tags", "id", any_term=False),
            ),
        ),
    ]
    ami_selector_terms: Annotated[
        tuple[AMISelectorTerm, ...],
        about(
            "The images instances start from: those that any of the terms selects.",
            min_items=1,
            max_items=30,
            rules=(
                at_least_one("tags", "id", "name", "alias", "ssmParameter"),
                alone("id", "alias", "tags", "name", "owner", any_term=True),
                alone("alias", "id", "tags", "name", "owner", any_term=True),
                Rule(
                    "!self.exists(x, has(x.alias)) || self.size() == 1",
                    "a term with an alias is the only term",
                ),
            ),
        ),
    ]
    ami_family: Annotated[
        str | None,
        about(
            "How user data is written and which devices there are. Taken from the alias where there is one.",
            enum=(*AMI_FAMILIES.values(), "Custom"),
        ),
    ] = None
    capacity_reservation_selector_terms: Annotated[
        tuple[CapacityReservationSelectorTerm, ...],
        about(
            "The capacity reservations instances may use: those that any of the terms selects.",
            max_items=30,
            rules=(
                at_least_one("tags", "id", "ownerID", "instanceMatchCriteria"),
                alone("id", "tags", "ownerID", "instanceMatchCriteria", any_term=True),
            ),
        ),
    ] = ()
    capacity_reservation_spec: Annotated[
        CapacityReservationSpec | None,
        about(
            "Direct mode: the capacity reservation settings of every launch template, instead of selector terms.",
            rules=(
                Rule(
                    "has(self.capacityReservationPreference) != has(self.capacityReservationTarget)",
                    "set either capacityReservationPreference or capacityReservationTarget",
                ),
            ),
        ),
    ] = None
    placement_group_selector: Annotated[
        PlacementGroupSelector | None,
        about(
            "The placement group instances start in.",
            rules=(
                Rule("has(self.name) || has(self.id)", "a placement group is selected by name or by id"),
                Rule(
                    "!(has(self.name) && has(self.id))",
                    "a placement group is selected by name or by id, not both",
                ),
            ),
        ),
    ] = None
    role: Annotated[
        str | None,
        about(
            "The IAM role of the instances; an instance profile is made for it.",
            rules=(Rule("self != ''", "role must not be empty"),),
        ),
    ] = None
    instance_profile: Annotated[
        str | None,
        about(
            "An existing instance profile for the instances.",
            rules=(Rule("self != ''", "instanceProfile must not be empty"),),
        ),
    ] = None
    user_data: Annotated[str | None, about("User data that is merged with what the AMI family needs.")] = None
    tags: Annotated[
        dict[str, str],
        about(
            "Tags that instances, volumes and launch templates get.",
            rules=(
                Rule("self.all(k, k != '')", "tag keys must not be empty"),
                *_reserved_tags(),
                Rule(
                    "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
                    "tags that start with kubernetes.io/cluster are set by the autoscaler",
                ),
            ),
        ),
    ] = {}
    kubelet: Annotated[
        dict[str, Any] | None,
        about(
            "Settings for the kubelet, as KubeletConfiguration has them; checked when the class is resolved."
        ),
    ] = None
    block_device_mappings: Annotated[
        tuple[BlockDeviceMapping, ...],
        about(
            "The volumes of the instances. Unset: what the AMI family starts with.",
            max_items=50,
            rules=(
                Rule(
                    "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
                    "at most one block device is the root volume",
                ),
            ),
        ),
    ] = ()
    instance_store_policy: Annotated[
        str | None, about("RAID0: local disks become one volume for pods.", enum=("RAID0",))
    ] = None
    network_interfaces: Annotated[
        tuple[NetworkInterface, ...],
        about(
            "The network interfaces of the instances. Unset: one ordinary interface.",
            max_items=150,
            rules=(
                Rule(
                    "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
                    "card 0, device 0 must be there with interfaceType interface",
                ),
                Rule(
                    "self.all(x, self.exists_one(y, y.networkCardIndex == x.networkCardIndex && y.deviceIndex == x.deviceIndex))",
                    "each pair of networkCardIndex and deviceIndex can be there once",
                ),
                Rule(
                    "self.all(x, x.interfaceType != 'efa-only' || self.exists_one(y, y.networkCardIndex == x.networkCardIndex && y.interfaceType == 'efa-only'))",
                    "a network card can have one efa-only interface",
                ),
            ),
        ),
    ] = ()
    ip_prefix_count: Annotated[
        int | None,
        about("How many IPv4 or IPv6 prefixes the first interface gets.", minimum=0, format="int32"),
    ] = None
    associate_public_ip_address: Annotated[
        bool | None, about("Whether instances get a public address. Unset: the subnet decides.")
    ] = field(default=None, name="associatePublicIPAddress")
    detailed_monitoring: Annotated[bool | None, about("Whether CloudWatch gets data each minute.")] = None
    metadata_options: Annotated[
        MetadataOptions,
        about(
            "The instance metadata service.",
            default={
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
        ),
    ] = MetadataOptions()
    connection_tracking: Annotated[
        ConnectionTracking | None,
        about(
            "How long the first interface tracks idle connections.",
            rules=(
                Rule(
                    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
                    "set at least one of tcpEstablishedTimeout, udpStreamTimeout and udpTimeout",
                ),
            ),
        ),
    ] = None
    context: Annotated[str | None, about("Handed to CreateFleet as its Context.")] = None
    cpu_options: Annotated[CPUOptions | None, about("Options of the processor.")] = None


class EC2NodeClass(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "karpenter.k8s.aws/v1"
    kind: ClassVar[str] = "EC2NodeClass"
    plural: ClassVar[str] = "ec2nodeclasses"
    namespaced: ClassVar[bool] = False
    label: ClassVar[str] = (
        aws.EC2NODECLASS
    )  # of NodeClaims and Nodes, and tag of AWS objects: the name of the class

    spec: Annotated[
        EC2NodeClassSpec,
        about(
            "How instances are made.",
            rules=(
                Rule("has(self.role) != has(self.instanceProfile)", "set either role or instanceProfile"),
                *_families_fit_aliases(),
                Rule(
                    "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
                    "set amiFamily, or select images by an alias, which names the family",
                ),
                Rule(
                    "!has(self.capacityReservationSpec) || !has(self.capacityReservationSelectorTerms)",
                    "set either capacityReservationSelectorTerms or capacityReservationSpec (direct mode)",
                ),
            ),
        ),
    ]
    status: Annotated[EC2NodeClassStatus, about("What the selectors found.")] = EC2NodeClassStatus()


class HoldfastNodeClass(EC2NodeClass, frozen=True, kw_only=True):
    """The same class in a group that Karpenter does not act on: for Holdfast and Karpenter in one cluster.

    The plural differs as well. With the same plural, `kubectl get ec2nodeclasses` would list the classes of this group,
    because kubectl prefers the first group in alphabetical order.
    """

    api_version: ClassVar[str] = "holdfast.dev/v1"
    plural: ClassVar[str] = "holdfastnodeclasses"
    label: ClassVar[str] = aws.HOLDFAST_EC2NODECLASS
