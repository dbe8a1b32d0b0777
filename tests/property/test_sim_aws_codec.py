"""The codec of the simulated AWS against botocore's: each reads what the other writes.

Values are generated from the shapes of the service models, from a seed, for every operation that Holdfast or Karpenter
calls.
"""

import datetime as dt
import random
from typing import Any
from urllib.parse import urlencode

import botocore.parsers
import botocore.serialize
import pytest
from botocore.model import OperationModel, Shape
from hypothesis import given, settings
from hypothesis import strategies as st

import sim_aws
from holdfast.sim.aws import dispatch
from holdfast.sim.aws.codec import protocols
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.wire import Request
from holdfast.sim.ec2.service import OPERATIONS as EC2_OPERATIONS

OPERATIONS = {
    "ec2": (*EC2_OPERATIONS, "DescribeVpcs"),
    "iam": (
        "CreateInstanceProfile",
        "ListInstanceProfiles",
        "TagInstanceProfile",
        "GetRole",
        "SimulateCustomPolicy",
    ),
    "sts": ("GetCallerIdentity", "AssumeRole"),
    "ssm": ("GetParameter", "GetParameters", "PutParameter", "DescribeInstanceInformation"),
    "sqs": ("SendMessage", "ReceiveMessage", "DeleteMessageBatch", "GetQueueAttributes"),
    "pricing": ("GetProducts",),
    "eks": ("DescribeCluster", "ListClusters", "CreateNodegroup", "DescribeAddonVersions"),
}
CASES = [(service, operation) for service, operations in OPERATIONS.items() for operation in operations]
SEEDS = range(15)
DEPTH = 6
TEXTS = ("", "a", "a b", "<&>\"'", "ü€😀", "x=1&y=2", "a+b%20", " edge ", "line\nline", "a.1")


class ShapeValues:
    """Values of a shape, as a client or a service would write them."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def value(self, shape: Shape, depth: int = 0) -> Any:
        match shape.type_name:
            case "structure":
                return self._structure(shape, depth)
            case "list":
                return [self.value(shape.member, depth + 1) for _ in range(self._dice.randint(1, 2))]
            case "map":
                names = {self.value(shape.key) for _ in range(2)}
                return {name: self.value(shape.value, depth + 1) for name in sorted(names)}
            case "string":
                return self._dice.choice(shape.enum or TEXTS)
            case "integer" | "long":
                return self._dice.choice([0, 1, -1, 2**31 - 1])
            case "float" | "double":
                return self._dice.choice([0.0, 0.1, 1.9223000000000003e-08, -2.5e10])
            case "boolean":
                return self._dice.random() < 0.5
            case "timestamp":
                return dt.datetime.fromtimestamp(self._dice.randint(0, 2**31), dt.UTC)
            case "blob":
                return self._dice.randbytes(5)
            case kind:
                raise AssertionError(kind)

    def _structure(self, shape: Shape, depth: int) -> dict[str, Any]:
        """Some members, at least one: a form cannot express an empty structure."""
        if depth > DEPTH:
            scalars = [name for name, member in shape.members.items() if is_scalar(member)]
            chosen = scalars[:1]
        else:
            chosen = [name for name in shape.members if self._dice.random() < 4 / len(shape.members)]
            chosen = chosen or list(shape.members)[:1]
        return {name: self.value(shape.members[name], depth + 1) for name in chosen}


def is_scalar(shape: Shape) -> bool:
    return shape.type_name not in {"structure", "list", "map"}


def trimmed(shape: Shape, value: Any) -> Any:
    """Removes what a form cannot express: structures and lists without values."""
    match shape.type_name:
        case "structure":
            members = {name: trimmed(shape.members[name], item) for name, item in value.items()}
            return {name: item for name, item in members.items() if item not in ({}, [])}
        case "list":
            return [item for item in (trimmed(shape.member, item) for item in value) if item not in ({}, [])]
        case _:
            return value


def request_of(model: OperationModel, params: dict[str, Any]) -> Request:
    """The request that botocore builds from parameters, without validation, since the values are random."""
    service = model.service_model
    serializer = botocore.serialize.create_serializer(service.resolved_protocol, include_validation=False)
    serialized = serializer.serialize_to_request(params, model)
    body = serialized["body"]
    if isinstance(body, dict):
        body = urlencode(body).encode()
    headers = {name.lower(): value for name, value in serialized["headers"].items()}
    return Request(
        serialized["method"],
        serialized["url_path"],
        urlencode(serialized["query_string"], doseq=True),
        headers,
        body or b"",
    )


@pytest.mark.parametrize(("service", "operation"), CASES)
def test_codec_reads_parameters_that_botocore_writes(service: str, operation: str) -> None:
    codec = protocols.codec(service)
    model = codec.operation_model(operation)
    for seed in SEEDS:
        if model.input_shape is None:
            continue
        params = ShapeValues(seed).value(model.input_shape)
        for name, member in model.input_shape.members.items():
            if member.serialization.get("location") == "uri":
                params[name] = "a name/with"
        if service in {"ec2", "iam", "sts"}:
            params = trimmed(model.input_shape, params)
        request = request_of(model, params)
        assert codec.operation(request) == operation
        assert codec.params(model, request) == params, seed


@pytest.mark.parametrize(("service", "operation"), CASES)
def test_botocore_reads_results_that_the_codec_writes(service: str, operation: str) -> None:
    codec = protocols.codec(service)
    model = codec.operation_model(operation)
    parser = botocore.parsers.create_parser(codec.model.resolved_protocol)
    for seed in SEEDS:
        result = ShapeValues(seed).value(model.output_shape) if model.output_shape else {}
        answer = codec.answer(model, codec.strict_result(model, result), "an-id")
        parsed = parser.parse(
            {"body": answer.body, "headers": answer.headers, "status_code": answer.status}, model.output_shape
        )
        assert parsed.pop("ResponseMetadata")["RequestId"] == "an-id"
        assert parsed == result, seed


def keys() -> st.SearchStrategy[str]:
    parts = st.sampled_from(
        [
            "Filter",
            "1",
            "2",
            "x",
            "",
            "Value",
            "Name",
            "InstanceId",
            "member",
            "Tags",
            "Key",
            "MinCount",
            "DryRun",
        ]
    )
    return st.lists(parts, min_size=1, max_size=4).map(".".join)


def forms() -> st.SearchStrategy[bytes]:
    actions = st.sampled_from(
        ["DescribeInstances", "RunInstances", "CreateTags", "TagInstanceProfile", "AssumeRole", ""]
    )
    fields = st.lists(st.tuples(keys(), st.sampled_from(["", "1", "true", "x"])), max_size=6)
    forms = st.builds(lambda action, rest: urlencode([("Action", action), *rest]).encode(), actions, fields)
    return st.one_of(
        forms, st.binary(max_size=20), st.sampled_from([b"{}", b"[]", b'{"Name": []}', b"null", b"\xff"])
    )


@pytest.fixture(scope="module")
def endpoint() -> Endpoint:
    class Empty:
        def call(self, *_: Any) -> dict[str, Any]:
            return {}

    return sim_aws.endpoint({**sim_aws.small_services(sim_aws.JumpingClock()), "ec2": Empty()})


@settings(max_examples=300)
@given(
    service=st.sampled_from([*OPERATIONS, "nowhere", ""]),
    method=st.sampled_from(["GET", "POST"]),
    path=st.sampled_from(["/", "/clusters/a%20b", "/clusters", "//", "/clusters/a/addons"]),
    query=st.sampled_from(["", "Action=DescribeInstances", "maxResults=x", "maxResults=5"]),
    target=st.sampled_from(["", "AmazonSSM.GetParameter", "AmazonSQS.ReceiveMessage", "X.Y.Z"]),
    body=forms(),
)
def test_every_malformed_request_gets_a_response_below_500(
    endpoint: Endpoint, service: str, method: str, path: str, query: str, target: str, body: bytes
) -> None:
    scope = f"AWS4-HMAC-SHA256 Credential=A/20270101/us-west-2/{service}/aws4_request"
    request = Request(method, path, query, {"authorization": scope, "x-amz-target": target}, body)
    answer = dispatch.answer(endpoint, request)
    assert 200 <= answer.status < 500
    assert answer.headers["x-amzn-requestid"]
