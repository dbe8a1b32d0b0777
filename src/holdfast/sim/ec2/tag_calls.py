"""CreateTags and DeleteTags. Called by `service`.

The rule: every resource is looked up before the first is changed, so an unknown one leaves all as they were.
"""

from dataclasses import replace
from typing import Any

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2.requests import Request, invalid
from holdfast.sim.ec2.world import World


def create(world: World, request: Request) -> dict[str, Any]:
    tags = {tag["Key"]: tag.get("Value", "") for tag in request.need("Tags")}
    if any(key.startswith("aws:") for key in tags):
        raise invalid("Tag keys starting with 'aws:' are reserved for internal use")
    resources = request.need("Resources")
    for resource in resources:
        _taggable(world, request.account, resource)
    request.proceed()
    for resource in resources:
        _retag(world, resource, tags, ())
    return {}


def delete(world: World, request: Request) -> dict[str, Any]:
    keys = tuple(tag["Key"] for tag in request.need("Tags"))
    resources = request.need("Resources")
    for resource in resources:
        _taggable(world, request.account, resource)
    request.proceed()
    for resource in resources:
        _retag(world, resource, {}, keys)
    return {}


def _taggable(world: World, account: str, resource: str) -> None:
    kinds: dict[str, tuple[Any, str]] = {
        "i": (world.instances, "InvalidInstanceID.NotFound"),
        "cr": (world.reservations, "InvalidCapacityReservationId.NotFound"),
        "lt": (world.templates, "InvalidLaunchTemplateId.NotFound"),
        "fleet": (world.fleets, "InvalidFleetId.NotFound"),
    }
    table, code = kinds.get(resource.partition("-")[0], (None, "InvalidID"))
    found = table.get(resource) if table is not None else None
    if found is None or getattr(found, "account", getattr(found, "owner", "")) != account:
        raise ApiError(code, f"The ID '{resource}' does not exist")


def _retag(world: World, resource: str, added: dict[str, str], removed: tuple[str, ...]) -> None:
    def of(tags: dict[str, str]) -> dict[str, str]:
        return {key: value for key, value in tags.items() if key not in removed} | added

    if resource in world.instances:
        world.put_instance(world.instances[resource], tags=of(world.instances[resource].tags))
    elif resource in world.reservations:
        world.put_reservation(world.reservations[resource], tags=of(world.reservations[resource].tags))
    elif resource in world.templates:
        world.templates.put(replace(world.templates[resource], tags=of(world.templates[resource].tags)))
    else:
        world.fleets.put(replace(world.fleets[resource], tags=of(world.fleets[resource].tags)))
