"""Builders of resolved classes, NodeClaims and launch requests: a test sets only the fields that it checks."""

import base64
import functools
import json
from dataclasses import replace
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from aws_builders import build_catalog, real, supply
from builders import ec2nodeclass, requirement
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog.labels import CLOUD_LABELS
from holdfast.cloud.aws.launch import choice, fleets, templates
from holdfast.cloud.aws.launch.choice import Choice
from holdfast.cloud.aws.launch.fleets import Order
from holdfast.cloud.aws.launch.templates import LaunchContext, Template
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.model.offerings import InstanceType
from holdfast.model.resources import NOTHING
from holdfast.state.conversion import claims
from objects import nodeclaim

DOLLAR = 10**9
TOKEN = "token-1"
CLUSTER = Cluster(
    name="blue",
    endpoint="https://example",
    ca_bundle="Y2E=",
    service_cidr="10.96.0.0/16",
    dns_ip="10.96.0.10",
)
AROUND = LaunchContext(cluster=CLUSTER, region="us-west-2")
SELECTS_ALL = [{"ownerID": "111122223333"}]
STATUS: dict[str, Any] = {
    "subnets": [
        {"id": "subnet-a", "zone": "us-west-2a", "zoneID": "usw2-az2"},
        {"id": "subnet-b", "zone": "us-west-2b", "zoneID": "usw2-az1"},
        {"id": "subnet-a2", "zone": "us-west-2a", "zoneID": "usw2-az2"},
    ],
    "securityGroups": [{"id": "sg-2", "name": "nodes"}, {"id": "sg-1", "name": "more"}],
    "amis": [
        {"id": "ami-arm", "requirements": [requirement("kubernetes.io/arch", "In", "arm64")]},
        {"id": "ami-x86", "requirements": [requirement("kubernetes.io/arch", "In", "amd64")]},
    ],
    "instanceProfile": "profile-1",
}


def resolved(status: dict[str, Any] | None = None, **spec: Any) -> EC2NodeClass:
    """A class with a status that a launch can use."""
    return ec2nodeclass(status=STATUS | (status or {}), **spec)


def selecting(**spec: Any) -> EC2NodeClass:
    return resolved(capacityReservationSelectorTerms=SELECTS_ALL, **spec)


def claim(*requirements: dict[str, Any], name: str = "claim-1", **fields: Any) -> NodeClaim:
    meta = {"labels": {"karpenter.sh/nodepool": "default"}, **fields.pop("meta", {})}
    return nodeclaim(name, meta, requirements=list(requirements), **fields)


def capacity_type(*values: str) -> dict[str, Any]:
    return requirement("karpenter.sh/capacity-type", "In", *values)


def types(
    node_class: EC2NodeClass,
    *reservations: CapacityReservation,
    names: tuple[str, ...] = ("m5.large", "m5.xlarge"),
    **fields: Any,
) -> tuple[InstanceType, ...]:
    """A catalog with on-demand prices of one dollar, two dollars and so on; spot costs half."""
    prices = {name: DOLLAR * (1 + index) for index, name in enumerate(names)}
    spot = {(n, zone): p // 2 for n, p in prices.items() for zone in ("us-west-2a", "us-west-2b")}
    inputs = supply(*map(real, names), **({"on_demand": prices, "spot": spot} | fields))
    return build_catalog(inputs, node_class, reservations, now_s=1000)


def chosen(
    node_claim: NodeClaim,
    node_class: EC2NodeClass,
    *reservations: CapacityReservation,
    slot: str | None = None,
) -> Choice:
    view = replace(claims.view(node_claim, CLOUD_LABELS), requests=NOTHING, reservation_id=slot)
    return choice.choose(types(node_class, *reservations), view)


def launch_templates(
    node_claim: NodeClaim,
    node_class: EC2NodeClass,
    *reservations: CapacityReservation,
    around: LaunchContext = AROUND,
    slot: str | None = None,
) -> tuple[Template, ...]:
    """The launch templates of a launch. Each is valid by botocore's model of EC2."""
    found = templates.templates(
        chosen(node_claim, node_class, *reservations, slot=slot), node_claim, node_class, around
    )
    for template in found:
        assert_valid("CreateLaunchTemplate", template.creation())
    return found


def fleet(
    node_claim: NodeClaim,
    node_class: EC2NodeClass,
    *reservations: CapacityReservation,
    slot: str | None = None,
) -> dict[str, Any]:
    """The CreateFleet request of a launch. It is valid by botocore's model of EC2."""
    request = fleets.request(
        chosen(node_claim, node_class, *reservations, slot=slot),
        launch_templates(node_claim, node_class, *reservations, slot=slot),
        fleets.zonal_subnets(node_class),
        Order(count=1, client_token=TOKEN, tags=templates.object_tags(node_claim, node_class, CLUSTER)),
    )
    assert_valid("CreateFleet", request)
    return request


def user_data(template: Template) -> str:
    return base64.b64decode(template.data["UserData"]).decode()


def node_config(template: Template) -> dict[str, Any]:
    """The spec of the nodeadm NodeConfig in an AL2023 template."""
    text = user_data(template)
    spec: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])["spec"]
    return spec


def assert_valid(operation: str, request: dict[str, Any]) -> None:
    """Checks names and types of all members against botocore's model of EC2."""
    report = ParamValidator().validate(request, _ec2().operation_model(operation).input_shape)
    assert not report.has_errors(), report.generate_report()


@functools.cache
def _ec2() -> Any:
    return botocore.session.get_session().get_service_model("ec2")
