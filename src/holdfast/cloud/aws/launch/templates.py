"""Builds launch templates: one for each image, pod limit and reservation of a launch. Pure.

The name of a template is derived from its content, so equal launches share one and a changed class gets a new one. Each
reservation has its own template (Q-21). `_reservation` implements decisions 7, 10 and 26.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast import errors, names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.selectors import CapacityReservationSpec
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog import capacity, families, node_shape, type_labels
from holdfast.cloud.aws.catalog.labels import CLOUD_LABELS
from holdfast.cloud.aws.launch import template_data, userdata
from holdfast.cloud.aws.launch.choice import Choice, LaunchOption, Market
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap
from holdfast.cloud.aws.nodeclass import images
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.nodeclass.identity import Identity
from holdfast.cloud.aws.nodeclass.ownership import Ownership
from holdfast.cloud.aws.reservations import capacity_reservation
from holdfast.model import resources
from holdfast.model.offerings import Offering
from holdfast.model.snapshot import ClaimView
from holdfast.model.taints import Effect, Taint
from holdfast.state.conversion import claims, nodepools

NONE: Final = "none"
TARGET: Final = "target"
_MARKET_TYPES: Final = (Market.BLOCK, Market.INTERRUPTIBLE)  # other markets have no market type
_TENANCIES: Final = ("default", "dedicated")
_NAME_BYTES: Final = 8
_TEMPLATES_MAX: Final = 50  # EC2's limit for one fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """The cluster, the region and the settings that every launch uses."""

    cluster: Cluster
    identity: Identity | None = None  # reads `cluster`; None: it does not change
    region: str
    reserved_capacity: bool = True  # the feature gate
    min_values_best_effort: bool = False  # whether a launch may have fewer values than minValues requires
    dry_runs: bool = True  # before a class is Ready; DISABLE_DRY_RUN turns them off

    async def now(self) -> "LaunchContext":
        """With the cluster as it is known now."""
        return replace(self, cluster=await self.identity.read()) if self.identity else self


@dataclass(frozen=True, slots=True)
class Template:
    """A launch template, and the options of a choice that use it."""

    name: str
    image_id: str
    options: tuple[LaunchOption, ...]
    data: Mapping[str, Any]  # LaunchTemplateData
    tags: Mapping[str, str]  # of the instances
    ownership: Ownership

    def creation(self) -> dict[str, Any]:
        """The request that creates it."""
        tags = self.ownership.template_tags(self.tags)
        return {
            "LaunchTemplateName": self.name,
            "LaunchTemplateData": dict(self.data),
            "TagSpecifications": template_data.tag_specifications(["launch-template"], tags),
        }


@dataclass(frozen=True, slots=True)
class _Group:
    """The values that options with one template have in common."""

    image_id: str
    max_pods: int
    efas: int
    reservation_id: str | None
    tenancy: str
    enclave: bool


def templates(
    choice: Choice, claim: NodeClaim, node_class: EC2NodeClass, context: LaunchContext
) -> tuple[Template, ...]:
    """The templates of a launch, the one with the cheapest offering first. Raises NotReady while the class's status is
    incomplete or instances could not join the cluster, and InsufficientCapacity if no image fits any of the types."""
    _ready(node_class)
    problem = context.cluster.problem(families.of(node_class).name)
    if problem:
        raise errors.NotReady(problem.message)
    wanted = claims.view(claim, CLOUD_LABELS)
    groups: dict[_Group, list[LaunchOption]] = {}
    for option in choice.options:
        image_id = images.image_for(option.instance_type, node_class.status.amis)
        if image_id:
            wants_efa = bool(wanted.requests[capacity.EFA])
            group = _Group(
                image_id=image_id,
                max_pods=option.instance_type.capacity[resources.PODS],
                efas=option.instance_type.capacity[capacity.EFA] if wants_efa else 0,
                reservation_id=option.offering.reservation_id,
                tenancy=tenancy(wanted, option.offering),
                enclave=wanted.requirements.get(type_labels.NITRO_SANDBOX).values == {"true"},
            )
            groups.setdefault(group, []).append(option)
    if not groups:
        raise errors.InsufficientCapacity(
            f"EC2NodeClass/{node_class.metadata.name} has no image for any of the instance types that will do"
        )
    return tuple(
        _template(group, tuple(options), choice, claim, node_class, context)
        for group, options in list(groups.items())[:_TEMPLATES_MAX]
    )


def object_tags(claim: NodeClaim, node_class: EC2NodeClass, cluster: Cluster) -> dict[str, str]:
    """The tags of all AWS objects of a claim. Holdfast's tags have priority over the user's.

    The NodePool tag is always set, empty without a NodePool, as in Karpenter: the IAM policy allows the controller to
    create, tag and terminate only objects with this tag.
    """
    direct = direct_setting(node_class)
    return {
        **node_class.spec.tags,
        **cluster.tags,
        names.NODEPOOL: claim.metadata.labels.get(names.NODEPOOL, ""),
        node_class.label: node_class.metadata.name,
        **({aws.CAPACITY_RESERVATION_SETTING: direct} if direct else {}),
    }


def direct_setting(node_class: EC2NodeClass) -> str | None:
    """The reservation setting of direct mode, as in its label; None if the class does not use it."""
    direct = node_class.spec.capacity_reservation_spec
    if direct is None:
        return None
    return TARGET if direct.capacity_reservation_target else direct.capacity_reservation_preference


def tenancy(wanted: ClaimView, offering: Offering) -> str:
    """Default tenancy, unless the claim or the reservation excludes it."""
    key = aws.INSTANCE_TENANCY
    allowed = wanted.requirements.get(key).intersection(offering.requirements.get(key))
    return next((name for name in _TENANCIES if allowed.has(name)), _TENANCIES[0])


def _template(
    group: _Group,
    options: tuple[LaunchOption, ...],
    choice: Choice,
    claim: NodeClaim,
    node_class: EC2NodeClass,
    context: LaunchContext,
) -> Template:
    tags = object_tags(claim, node_class, context.cluster)
    data = _data(group, choice, claim, node_class, context) | {
        "TagSpecifications": template_data.tag_specifications(
            ["network-interface", *(["spot-instances-request"] if choice.market is Market.SPOT else [])], tags
        )
    }
    content = json.dumps([data, tags], sort_keys=True).encode()
    number = int.from_bytes(hashlib.sha256(content).digest()[:_NAME_BYTES], "big")
    ownership = context.cluster.ownership
    return Template(f"{ownership.template_prefix}{number}", group.image_id, options, data, tags, ownership)


def _data(
    group: _Group, choice: Choice, claim: NodeClaim, node_class: EC2NodeClass, context: LaunchContext
) -> dict[str, Any]:
    spec, family = node_class.spec, families.of(node_class)
    groups = sorted(group.id for group in node_class.status.security_groups)
    data: dict[str, Any] = {
        "ImageId": group.image_id,
        "IamInstanceProfile": {"Name": node_class.status.instance_profile},
        "BlockDeviceMappings": template_data.block_devices(spec, family),
        "MetadataOptions": template_data.metadata_options(spec, context.region),
        "Monitoring": {"Enabled": bool(spec.detailed_monitoring)},
        "EnclaveOptions": {"Enabled": group.enclave},
        "NetworkInterfaces": template_data.network_interfaces(
            spec, groups, group.efas, ipv6=context.cluster.ipv6
        ),
        "Placement": _placement(group.tenancy, node_class),
        "UserData": _user_data(group, choice, claim, node_class, context.cluster),
    }
    if spec.cpu_options and spec.cpu_options.nested_virtualization:
        data["CpuOptions"] = {"NestedVirtualization": spec.cpu_options.nested_virtualization}
    if choice.market in _MARKET_TYPES:
        data["InstanceMarketOptions"] = {"MarketType": choice.market.value}
    reservation = _reservation(group.reservation_id, node_class, context)
    if reservation:
        data["CapacityReservationSpecification"] = reservation
    return {key: value for key, value in data.items() if value not in ("", [])}


def _reservation(
    reservation_id: str | None, node_class: EC2NodeClass, context: LaunchContext
) -> dict[str, Any] | None:
    """A reserved launch uses its reservation or fails. Other launches of a class with selector terms use no
    reservation. Without terms, EC2 decides."""
    if reservation_id:
        return {
            "CapacityReservationPreference": capacity_reservation.ONLY,
            "CapacityReservationTarget": {"CapacityReservationId": reservation_id},
        }
    direct = node_class.spec.capacity_reservation_spec
    if direct:
        return _direct(direct)
    if context.reserved_capacity and node_class.spec.capacity_reservation_selector_terms:
        return {"CapacityReservationPreference": NONE}
    return None


def _direct(direct: CapacityReservationSpec) -> dict[str, Any]:
    target = direct.capacity_reservation_target
    if target is None:
        return {"CapacityReservationPreference": direct.capacity_reservation_preference}
    if target.capacity_reservation_id:
        return {"CapacityReservationTarget": {"CapacityReservationId": target.capacity_reservation_id}}
    arn = target.capacity_reservation_resource_group_arn
    return {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": arn}}


def _placement(tenancy: str, node_class: EC2NodeClass) -> dict[str, str]:
    placement = {"Tenancy": tenancy}
    group = node_class.spec.placement_group_selector
    if group and group.id:
        placement["GroupId"] = group.id
    elif group and group.name:
        placement["GroupName"] = group.name
    return placement


def _user_data(
    group: _Group, choice: Choice, claim: NodeClaim, node_class: EC2NodeClass, cluster: Cluster
) -> str:
    spec, family = node_class.spec, families.of(node_class)
    own = {} if family.name == families.CUSTOM else {names.DO_NOT_SYNC_TAINTS: "true"}
    aliases = [term.alias for term in spec.ami_selector_terms if term.alias]
    text = userdata.text(
        family.name,
        Bootstrap(
            cluster=cluster,
            max_pods=group.max_pods,
            labels={**claim.metadata.labels, names.CAPACITY_TYPE: choice.capacity_type, **own},
            taints=_taints(claim),
            kubelet=spec.kubelet or {},
            custom=spec.user_data,
            raid0=spec.instance_store_policy == node_shape.RAID0,
            image_version=aliases[0].partition("@")[2] if aliases else "latest",
        ),
    )
    size = len(text.encode())
    if size > userdata.SIZE_MAX_BYTES:
        raise errors.InvalidInput(
            f"user data of EC2NodeClass/{node_class.metadata.name} is {size} bytes; "
            f"EC2 takes {userdata.SIZE_MAX_BYTES} at most, so make spec.userData shorter"
        )
    return base64.b64encode(text.encode()).decode()


def _taints(claim: NodeClaim) -> tuple[Taint, ...]:
    """The taints of the node, its startup taints, and the one that keeps pods off the node until it is registered."""
    found = [nodepools.taint(t) for t in (*claim.spec.taints, *claim.spec.startup_taints)]
    unregistered = Taint(names.UNREGISTERED_TAINT, Effect.NO_EXECUTE)
    return tuple(dict.fromkeys([*found, unregistered]))


def _ready(node_class: EC2NodeClass) -> None:
    status = node_class.status
    missing = [
        word
        for word, found in (
            ("images", status.amis),
            ("subnets", status.subnets),
            ("security groups", status.security_groups),
            ("an instance profile", status.instance_profile),
        )
        if not found
    ]
    if missing:
        raise errors.NotReady(
            f"EC2NodeClass/{node_class.metadata.name} has no {', no '.join(missing)} in its status yet"
        )
