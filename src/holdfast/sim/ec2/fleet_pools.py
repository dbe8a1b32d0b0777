"""Reads the launch template configs of a CreateFleet call into pools.

Called by `fleet`. A mistake in the whole request fails the call; a mistake in one pool is an error of that pool. The
same (type, zone) twice fails the call, even with different templates.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import prices, specs, templates
from holdfast.sim.ec2.capacity import Failure, Pool
from holdfast.sim.ec2.entities import Spec
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, invalid
from holdfast.sim.ec2.setup import Subnet

_ECHOED: Final = (
    "InstanceType", "MaxPrice", "SubnetId", "AvailabilityZone", "Priority", "ImageId", "AvailabilityZoneId",
)  # fmt: skip
_OVER_TEMPLATE: Final = ("ImageId", "BlockDeviceMappings", "IamInstanceProfile", "MetadataOptions")
_CONFIGS_MAX: Final = 50
_OVERRIDES_MAX: Final = 300
_DEAREST: Final = 1 << 62  # for unknown prices
_USD: Final = 10**9


@dataclass(frozen=True, slots=True)
class Refused:
    """A pool that cannot be used."""

    answer: dict[str, Any]
    failure: Failure


def read(region: RegionState, request: Request, market: str) -> tuple[list[Pool], list[Refused]]:
    configs = request.need("LaunchTemplateConfigs")
    overrides = sum(len(config.get("Overrides") or [{}]) for config in configs)
    if len(configs) > _CONFIGS_MAX or overrides > _OVERRIDES_MAX:
        raise ApiError("InvalidFleetConfig", "Too many launch template configurations or overrides.")
    pools: list[Pool] = []
    refused: list[Refused] = []
    seen: set[tuple[str, str]] = set()
    for config in configs:
        given = config.get("LaunchTemplateSpecification", {})
        template = templates.find(region, request.account, given)
        version = templates.number(template, given.get("Version", ""))
        source = _Source(region, request.account, template.versions[version - 1])
        for override in config.get("Overrides") or [{}]:
            reader = _Reader(source, override, market)
            answer = reader.answer(template.id, str(version))
            if reader.pair in seen:
                raise ApiError(
                    "InvalidFleetConfig", "The fleet configuration contains duplicate instance pools."
                )
            seen.add(reader.pair)
            try:
                pools.append(reader.pool(answer))
            except ApiError as error:
                refused.append(Refused(answer, Failure(error.code, error.message)))
    return pools, refused


class _Source:
    """The data of one launch template, as used by one account."""

    def __init__(self, region: RegionState, account: str, data: Mapping[str, Any]) -> None:
        self.region, self.account, self.data = region, region.account(account), data

    @functools.cached_property
    def spec(self) -> Spec:
        """The spec of an instance without overrides."""
        return specs.resolve(self.region, self.account.id, self.data)

    def overridden(self, override: Mapping[str, Any]) -> Spec:
        changes = {name: override[name] for name in _OVER_TEMPLATE if name in override}
        if placement := override.get("Placement"):
            changes["Placement"] = {**self.data.get("Placement", {}), **placement}
        if not changes:
            return self.spec
        return specs.resolve(self.region, self.account.id, {**self.data, **changes})


class _Reader:
    """One override on the data of its template."""

    def __init__(self, source: _Source, override: Mapping[str, Any], market: str) -> None:
        for unknown in ("InstanceRequirements", "WeightedCapacity"):
            if unknown in override:
                raise ApiError("UnsupportedOperation", f"{unknown} is not simulated")
        if "AvailabilityZone" in override and "AvailabilityZoneId" in override:
            raise ApiError("InvalidFleetConfig", "Specify AvailabilityZone or AvailabilityZoneId, not both.")
        self.source, self.market, self.override, self.data = source, market, override, source.data
        self.region, self.account = source.region, source.account
        self.instance_type = override.get("InstanceType") or self.data.get("InstanceType", "")
        if not self.instance_type:
            raise ApiError("InvalidFleetConfig", "The fleet configuration has no instance type.")
        requested_zone = self._requested_zone()
        self.subnet = self._subnet(requested_zone)
        self.zone_id = requested_zone or (self.subnet.zone_id if self.subnet else "")
        self.pair = (self.instance_type, self.zone_id or str(override))

    def _requested_zone(self) -> str:
        """The zone id. A name that the account does not have is returned as it is, and rejected later."""
        for source in (self.override, self.override.get("Placement", {}), self.data.get("Placement", {})):
            if source.get("AvailabilityZoneId"):
                return str(source["AvailabilityZoneId"])
            if name := source.get("AvailabilityZone"):
                return self.account.zone_ids.get(name, name)
        return ""

    def answer(self, template_id: str, version: str) -> dict[str, Any]:
        echoed = {name: self.override[name] for name in _ECHOED if name in self.override}
        echoed["InstanceType"] = self.instance_type
        if zone_name := self.account.zone_names.get(self.zone_id):
            echoed["AvailabilityZone"] = zone_name
            echoed["AvailabilityZoneId"] = self.zone_id
        return {
            "LaunchTemplateSpecification": {"LaunchTemplateId": template_id, "Version": version},
            "Overrides": echoed,
        }

    def pool(self, answer: dict[str, Any]) -> Pool:
        """The pool, or an ApiError for this pool alone."""
        spec = self.source.overridden(self.override)
        if self.zone_id and self.zone_id not in self.account.zone_names:
            raise invalid(f"Invalid availability zone: [{self.zone_id}]")
        if self.subnet is None:
            raise ApiError("InvalidSubnetID.NotFound", f"The subnet ID '{self._subnet_id}' does not exist")
        if self.subnet.zone_id != self.zone_id:
            raise invalid(f"The subnet '{self.subnet.id}' is not in the Availability Zone that was asked for")
        spec = specs.in_network(self.region, spec, self.subnet)
        check_type(self.region, self.instance_type, self.zone_id, spec, self.market)
        return Pool(
            instance_type=self.instance_type,
            zone_id=self.zone_id,
            subnet_id=self.subnet.id,
            spec=spec,
            price=self._price(),
            priority=self.override.get("Priority", float("inf")),
            answer=answer,
        )

    def _price(self) -> int:
        setup = self.region.setup
        if self.market != "spot":
            price = prices.on_demand(setup, self.instance_type)
            return _DEAREST if price is None else price
        price = prices.spot(setup, self.instance_type, self.zone_id)
        most = self.override.get("MaxPrice")
        if most is not None and price is not None and price > float(most) * _USD:
            raise ApiError(
                "SpotMaxPriceTooLow", f"Your Spot request price of {most} is lower than the minimum required."
            )
        return _DEAREST if price is None else price

    @property
    def _subnet_id(self) -> str:
        interfaces = self.data.get("NetworkInterfaces", ())
        in_template = next((i["SubnetId"] for i in interfaces if "SubnetId" in i), "")
        return str(self.override.get("SubnetId", "") or in_template)

    def _subnet(self, requested_zone: str) -> Subnet | None:
        """The requested subnet, else the default subnet of the zone, else the first default subnet."""
        mine = self.account.id
        if self._subnet_id:
            named = self.region.subnets.get(self._subnet_id)
            return named if named and named.account == mine else None
        found = (s for s in self.region.setup.subnets if s.account == mine and s.default)
        return next((s for s in found if requested_zone in {"", s.zone_id}), None)


def check_type(region: RegionState, instance_type: str, zone_id: str, spec: Spec, market: str) -> None:
    info = region.types.get(instance_type)
    if info is None:
        raise invalid(f"Invalid value '{instance_type}' for InstanceType.")
    if zone_id not in region.offered[instance_type]:
        raise ApiError(
            "Unsupported",
            f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone.",
        )
    if market in {"spot", "capacity-block"} and market not in info.usage_classes:
        raise ApiError("Unsupported", f"The instance type {instance_type} is not offered as {market}.")
    if spec.architecture not in info.architectures:
        raise invalid(
            f"The architecture '{spec.architecture}' of the specified image does not match that of {instance_type}"
        )
