"""The IAM accesses of EC2 calls: actions, ARNs and condition keys, by the AWS Service Authorization Reference.

Called by `sim.guard`. A launch needs its action on every resource that it creates or uses, with the tags that the
request or the launch template sets on that type of resource. The id of a created resource is `*`. A resource that does
not exist needs no access, because the call returns NotFound.

The reference lists fewer resource types for CreateFleet than for RunInstances. Here a fleet needs both actions on all
of them: an instant fleet launches with the permissions of the caller.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.sim.aws.accesses import ANY, arn, pass_role, request_tags, requested_region, resource_tags
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.policy import Access, Context
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import templates
from holdfast.sim.ec2.entities import Template
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import tags_for

RoleOf = Callable[[str], str | None]
"""Returns the role of an instance profile by its name."""

_OVERRIDES: Final = ("ImageId", "SubnetId", "Placement", "BlockDeviceMappings", "IamInstanceProfile")
_OVER_TEMPLATE: Final = (
    *_OVERRIDES,
    "SecurityGroupIds",
    "NetworkInterfaces",
    "CapacityReservationSpecification",
)
_CREATED: Final = ("instance", "network-interface", "spot-instances-request", "volume")


@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch template with one override, or one RunInstances."""

    data: Mapping[str, Any]
    template: Template | None
    spot: bool


def needed(
    region: RegionState, operation: str, params: Mapping[str, Any], caller: Caller, role_of: RoleOf
) -> Iterator[Access]:
    calls = _Calls(region, operation, params, caller)
    match operation:
        case "CreateFleet" | "RunInstances":
            yield from calls.launch(role_of)
        case "CreateLaunchTemplate":
            yield from calls.created(operation, "launch-template", calls.tags("launch-template"))
        case "DeleteLaunchTemplate" | "CreateLaunchTemplateVersion":
            template = calls.find_template(params)
            if template is not None:
                yield calls.access(operation, f"launch-template/{template.id}", resource_tags(template.tags))
        case "TerminateInstances" | "RebootInstances":
            for instance_id in params.get("InstanceIds", ()):
                yield from calls.on_existing(instance_id)
        case "CreateTags" | "DeleteTags":
            tags = {tag["Key"]: tag.get("Value", "") for tag in params.get("Tags", ())}
            for resource_id in params.get("Resources", ()):
                yield from calls.on_existing(resource_id, request_tags(tags))
        case _:
            yield Access(f"ec2:{operation}", ANY, calls.here)


class _Calls:
    def __init__(
        self, region: RegionState, operation: str, params: Mapping[str, Any], caller: Caller
    ) -> None:
        self._region = region
        self._operation = operation
        self._params = params
        self._caller = caller
        self.here = requested_region("ec2", caller)

    def access(
        self, operation: str, resource: str, context: Context, *, account: str | None = None
    ) -> Access:
        return Access(
            f"ec2:{operation}", arn("ec2", self._caller, resource, account=account), {**self.here, **context}
        )

    def tags(self, kind: str) -> dict[str, str]:
        return tags_for(self._params.get("TagSpecifications", ()), kind)

    def created(self, operation: str, kind: str, tags: Mapping[str, str]) -> Iterator[Access]:
        """The action itself, and CreateTags on the created resource."""
        yield self.access(operation, f"{kind}/*", request_tags(tags))
        if tags:
            context = request_tags(tags) | {"ec2:CreateAction": (operation,)}
            yield self.access("CreateTags", f"{kind}/*", context)

    def on_existing(self, resource_id: str, context: Context | None = None) -> Iterator[Access]:
        kinds: dict[str, tuple[str, Any]] = {
            "i": ("instance", self._region.instances),
            "cr": ("capacity-reservation", self._region.reservations),
            "lt": ("launch-template", self._region.templates),
            "fleet": ("fleet", self._region.fleets),
        }
        kind, table = kinds.get(resource_id.partition("-")[0], ("", None))
        found = table.get(resource_id) if table is not None else None
        if found is not None:
            tags = resource_tags(found.tags)
            yield self.access(self._operation, f"{kind}/{resource_id}", {**tags, **(context or {})})

    def find_template(self, given: Mapping[str, Any]) -> Template | None:
        try:
            return templates.find(self._region, self._caller.account_id, dict(given))
        except ApiError:
            return None

    # --- Launches -------------------------------------------------------------------------------------

    def launch(self, role_of: RoleOf) -> Iterator[Access]:
        is_fleet = self._operation == "CreateFleet"
        if is_fleet:
            yield from self.created("CreateFleet", "fleet", self.tags("fleet"))
        for one in self._fleet_launches() if is_fleet else self._one_launch():
            for operation in dict.fromkeys((self._operation, "RunInstances")):
                yield from self._launch(operation, one)
            profile = one.data.get("IamInstanceProfile", {})
            role = role_of(profile.get("Name") or profile.get("Arn", "").rpartition("/")[2])
            if role:
                yield pass_role(role, self._caller)

    def _fleet_launches(self) -> Iterator[_Launch]:
        target = self._params.get("TargetCapacitySpecification", {}).get("DefaultTargetCapacityType")
        for config in self._params.get("LaunchTemplateConfigs", ()):
            given = config.get("LaunchTemplateSpecification", {})
            template = self.find_template(given)
            if template is None:
                continue
            data = template.versions[templates.number(template, given.get("Version", "")) - 1]
            for override in config.get("Overrides") or [{}]:
                changes = {key: override[key] for key in _OVERRIDES if key in override}
                yield _Launch(data | changes, template, target == "spot")

    def _one_launch(self) -> Iterator[_Launch]:
        given = self._params.get("LaunchTemplate")
        template = self.find_template(given) if given else None
        if given and template is None:
            return
        data: dict[str, Any] = {}
        if given and template:
            data = template.versions[templates.number(template, given.get("Version", "")) - 1]
        data = data | {key: self._params[key] for key in _OVER_TEMPLATE if key in self._params}
        market = data.get("InstanceMarketOptions", {}).get("MarketType")
        yield _Launch(data, template, market == "spot")

    def _launch(self, operation: str, one: _Launch) -> Iterator[Access]:
        for kind in _CREATED:
            if kind == "spot-instances-request" and not one.spot:
                continue
            tags = tags_for(one.data.get("TagSpecifications", ()), kind) | self.tags(kind)
            yield from self.created(operation, kind, tags)
        from_template = self._of_template(one.template)
        for resource, account, own_tags in self._used(one):
            if resource.startswith("arn:"):
                yield Access(f"ec2:{operation}", resource, self.here)
            else:
                yield self.access(
                    operation, resource, resource_tags(own_tags) | from_template, account=account
                )

    def _of_template(self, template: Template | None) -> dict[str, tuple[str, ...]]:
        if template is None:
            return {}
        return {"ec2:LaunchTemplate": (arn("ec2", self._caller, f"launch-template/{template.id}"),)}

    def _used(self, one: _Launch) -> Iterator[tuple[str, str | None, Mapping[str, str]]]:
        """The existing resources that a launch uses: the resource, its owner (None: the caller) and its tags."""
        data, region = one.data, self._region
        if one.template is not None:
            yield f"launch-template/{one.template.id}", None, one.template.tags
        image = region.images.get(data.get("ImageId", ""))
        if image is not None:
            yield f"image/{image.id}", "", image.tags
        for device in data.get("BlockDeviceMappings", ()):
            if snapshot := device.get("Ebs", {}).get("SnapshotId"):
                yield f"snapshot/{snapshot}", "", {}
        interfaces = data.get("NetworkInterfaces", ())
        for subnet_id in {data.get("SubnetId"), *(nic.get("SubnetId") for nic in interfaces)} - {None}:
            subnet = region.subnets.get(str(subnet_id))
            if subnet is not None:
                yield f"subnet/{subnet.id}", subnet.account, subnet.tags
        named = {*data.get("SecurityGroupIds", ()), *(g for nic in interfaces for g in nic.get("Groups", ()))}
        for group in region.setup.security_groups:
            if group.id in named:
                yield f"security-group/{group.id}", group.account, group.tags
        placement = data.get("Placement", {})
        for placement_group in region.setup.placement_groups:
            if placement_group.name == placement.get("GroupName") or placement_group.id == placement.get(
                "GroupId"
            ):
                yield f"placement-group/{placement_group.name}", placement_group.account, placement_group.tags
        yield from self._reservation(data)

    def _reservation(self, data: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Mapping[str, str]]]:
        target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        reservation = self._region.reservations.get(target.get("CapacityReservationId", ""))
        if reservation is not None:
            yield f"capacity-reservation/{reservation.id}", reservation.owner, reservation.tags
        if group := target.get("CapacityReservationResourceGroupArn"):
            yield group, None, {}
