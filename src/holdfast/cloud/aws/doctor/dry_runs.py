"""Dry runs of the calls that launch an instance of a class. Nothing is launched and nothing is created.

Called by `account_reading`. The launch is the one that `probes` tries out before a class is Ready. `probes` creates the
launch template first; here its content is part of RunInstances, and CreateFleet is tried only if the template exists.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.launch import fleets, probes, template_data
from holdfast.cloud.aws.launch.choice import Choice, LaunchOption
from holdfast.cloud.aws.launch.fleets import Order
from holdfast.cloud.aws.launch.templates import LaunchContext, Template
from holdfast.model.offerings import InstanceType


@dataclass(frozen=True, slots=True)
class Refusal:
    """What EC2 answered to a dry run that would not succeed."""

    operation: str
    capacity_type: str
    error: errors.HoldfastError


class DryRuns:
    def __init__(self, aws: Calls, context: LaunchContext) -> None:
        self._aws = aws
        self._context = context

    async def refusal(
        self, node_class: EC2NodeClass, types: tuple[InstanceType, ...], *, has_profile: bool
    ) -> Refusal | None:
        """The first refusal; None: all calls would succeed, or there is nothing to try."""
        for capacity_type in probes.TRIED:
            try:
                tried = probes.trial(node_class, types, self._context, capacity_type)
            except errors.NotReady:
                return None  # the class lacks something, which its conditions name
            except errors.InvalidInput as error:
                return Refusal("RunInstances", capacity_type, error)
            if tried is None:
                continue
            for operation, request in await self._requests(node_class, *tried, has_profile=has_profile):
                refused = await self._error(operation, request)
                if refused is not None:
                    return Refusal(operation, capacity_type, refused)
        return None

    async def _requests(
        self, node_class: EC2NodeClass, choice: Choice, template: Template, *, has_profile: bool
    ) -> list[tuple[str, list[Mapping[str, Any]]]]:
        """Each operation with its requests, of which one has to succeed."""
        option = choice.options[0]
        subnets = [one.id for one in node_class.status.subnets if one.zone == option.offering.zone]
        runs: list[Mapping[str, Any]] = [
            _run_request(template, option, subnet, has_profile=has_profile) for subnet in subnets
        ]
        found: list[tuple[str, list[Mapping[str, Any]]]] = [
            ("CreateLaunchTemplate", [template.creation()]),
            ("RunInstances", runs),
        ]
        if await self._exists(template.name):
            order = Order(count=1, client_token="", tags=template.tags)
            request = fleets.request(choice, [template], fleets.zonal_subnets(node_class), order)
            del request["ClientToken"]
            found.append(("CreateFleet", [request]))
        return found

    async def _exists(self, template: str) -> bool:
        try:
            await self._aws.call(calls.EC2, "DescribeLaunchTemplates", LaunchTemplateNames=[template])
        except errors.HoldfastError:
            return False
        return True

    async def _error(self, operation: str, requests: list[Mapping[str, Any]]) -> errors.HoldfastError | None:
        error: errors.HoldfastError | None = None
        for request in requests:
            try:
                await self._aws.call(calls.EC2, operation, **{**request, "DryRun": True})
            except (errors.InsufficientCapacity, errors.AlreadyExists):
                return None  # the call is allowed
            except errors.HoldfastError as refused:
                error = refused
            else:
                return None
        return error


def _run_request(
    template: Template, option: LaunchOption, subnet: str, *, has_profile: bool
) -> dict[str, Any]:
    """RunInstances with the content of a launch template. A profile that Holdfast has not created yet is left out."""
    data = dict(template.data)
    if not has_profile:
        del data["IamInstanceProfile"]
    if "UserData" in data:  # botocore encodes it for this operation
        data["UserData"] = base64.b64decode(data["UserData"]).decode()
    return {
        **data,
        "NetworkInterfaces": [one | {"SubnetId": subnet} for one in data["NetworkInterfaces"]],
        "InstanceType": option.instance_type.name,
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": template_data.tag_specifications(probes.TAGGED, template.tags),
    }
