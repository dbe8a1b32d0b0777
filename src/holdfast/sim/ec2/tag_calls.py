"""CreateTags and DeleteTags. Called by `service`.

All resources are checked before the first is changed, so a call with an unknown one changes nothing.
"""

from dataclasses import replace
from typing import Any

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, invalid


def create(region: RegionState, request: Request) -> dict[str, Any]:
    tags = {tag["Key"]: tag.get("Value", "") for tag in request.need("Tags")}
    if any(key.startswith("aws:") for key in tags):
        raise invalid("Tag keys starting with 'aws:' are reserved for internal use")
    resources = request.need("Resources")
    for resource in resources:
        _taggable(region, request.account, resource)
    request.proceed()
    for resource in resources:
        _retag(region, resource, tags, ())
    return {}


def delete(region: RegionState, request: Request) -> dict[str, Any]:
    keys = tuple(tag["Key"] for tag in request.need("Tags"))
    resources = request.need("Resources")
    for resource in resources:
        _taggable(region, request.account, resource)
    request.proceed()
    for resource in resources:
        _retag(region, resource, {}, keys)
    return {}


def _taggable(region: RegionState, account: str, resource: str) -> None:
    kinds: dict[str, tuple[Any, str]] = {
        "i": (region.instances, "InvalidInstanceID.NotFound"),
        "cr": (region.reservations, "InvalidCapacityReservationId.NotFound"),
        "lt": (region.templates, "InvalidLaunchTemplateId.NotFound"),
        "fleet": (region.fleets, "InvalidFleetId.NotFound"),
    }
    table, code = kinds.get(resource.partition("-")[0], (None, "InvalidID"))
    found = table.get(resource) if table is not None else None
    if found is None or getattr(found, "account", getattr(found, "owner", "")) != account:
        raise ApiError(code, f"The ID '{resource}' does not exist")


def _retag(region: RegionState, resource: str, added: dict[str, str], removed: tuple[str, ...]) -> None:
    def of(tags: dict[str, str]) -> dict[str, str]:
        return {key: value for key, value in tags.items() if key not in removed} | added

    if resource in region.instances:
        region.put_instance(region.instances[resource], tags=of(region.instances[resource].tags))
    elif resource in region.reservations:
        region.put_reservation(region.reservations[resource], tags=of(region.reservations[resource].tags))
    elif resource in region.templates:
        region.templates.put(replace(region.templates[resource], tags=of(region.templates[resource].tags)))
    else:
        region.fleets.put(replace(region.fleets[resource], tags=of(region.fleets[resource].tags)))
