"""Builds RunInstances requests, and parses the responses. Pure.

CreateFleet launches a part of what a request asks for, and has a minimum for on-demand and spot capacity only. So the
NodeClaims of a gang in a capacity block or an interruptible reservation are launched with RunInstances, which launches
MinCount instances or none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast import errors
from holdfast.cloud.aws.client import answers
from holdfast.cloud.aws.launch import template_data
from holdfast.cloud.aws.launch.choice import Choice, Market
from holdfast.cloud.aws.launch.fleets import Answer, Failure, Launched, Order
from holdfast.cloud.aws.launch.templates import Template

MARKETS: Final = (Market.BLOCK, Market.INTERRUPTIBLE)
_TAGGED: Final = ("instance", "network-interface", "volume")


def request(
    choice: Choice, templates: Sequence[Template], subnets: Mapping[str, str], order: Order
) -> dict[str, Any]:
    """A request for the first offering. Raises InsufficientCapacity if its zone has no usable subnet."""
    option = choice.options[0]
    template = next(one for one in templates if option in one.options)
    if option.offering.zone not in subnets:
        raise errors.InsufficientCapacity(f"no subnet is left in zone {option.offering.zone}")
    subnet = {"SubnetId": subnets[option.offering.zone]}
    return {
        "LaunchTemplate": {"LaunchTemplateName": template.name, "Version": "$Latest"},
        "ClientToken": order.client_token,
        "ImageId": template.image_id,
        "InstanceType": option.instance_type.name,
        # EC2 refuses a subnet beside network interfaces, and the template has those.
        "NetworkInterfaces": [one | subnet for one in template.data["NetworkInterfaces"]],
        "MinCount": order.count,
        "MaxCount": order.count,
        "TagSpecifications": template_data.tag_specifications(_TAGGED, order.tags),
    }


def read(answer: Mapping[str, Any]) -> Answer:
    """Parses a response. Raises KeyError or ValueError if an instance has no id, type or zone."""
    return Answer(
        tuple(
            Launched(
                answers.instance_id(one["InstanceId"]),
                one["InstanceType"],
                one["Placement"]["AvailabilityZone"],
                one.get("SubnetId", ""),
            )
            for one in answer["Instances"]
        ),
        (),
    )


def refused(choice: Choice, error: errors.InsufficientCapacity) -> Answer:
    """The response to a request that EC2 refused for want of capacity. The text of the error begins with EC2's code."""
    code, _, message = str(error).partition(": ")
    option = choice.options[0]
    return Answer((), (Failure(code, message, option.instance_type.name, option.offering.zone),))
