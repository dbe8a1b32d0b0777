"""Calls to AWS: rate limits, metrics, retries and paging.

A hook in botocore returns scripted HTTP responses; botocore itself serializes the request, parses the response
and raises the errors.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.loaders import create_loader

from holdfast import errors, fence
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import CALLS_TOTAL, Calls, Clients, Inline, Threads
from manual_ports import CollectingRecorder, ManualClock, SeededIds

Answer = Callable[[dict[str, list[str]]], tuple[int, str]]
LOADER = create_loader()  # loads each service's model once for all tests
EMPTY = "<DescribeSubnetsResponse/>"


class Wire:
    """Answers each request with the next response of a script, and repeats the last one."""

    def __init__(self, *script: str | Exception | tuple[int, str]) -> None:
        self.script = list(script)
        self.requests: list[dict[str, list[str]]] = []
        self.clock = ManualClock()
        self.records = CollectingRecorder()
        self.barrier: threading.Barrier | None = None  # a request waits until this many are sent

    def calls(
        self, executor: calls.Executor | None = None, may_write: Callable[[], bool] = fence.always
    ) -> Calls:
        return Calls(
            may_write=may_write,
            clients=Clients("us-west-2", self._session),
            executor=executor or Inline(),
            clock=self.clock,
            ids=SeededIds(),
            recorder=self.records,
        )

    def _session(self) -> Any:
        session = botocore.session.Session()
        session.register_component("data_loader", LOADER)
        session.set_credentials("key", "secret")
        session.register("before-send", self._answer)
        return session

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        self.requests.append(
            parse_qs(request.body.decode() if isinstance(request.body, bytes) else request.body)
        )
        if self.barrier is not None:
            self.barrier.wait(timeout=30)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return AWSResponse(request.url, status, {}, Raw(body.encode()))


class Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> list[bytes]:
        return [self._body]


def failing(code: str, status: int = 400) -> tuple[int, str]:
    error = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
    return status, f"<Response><Errors>{error}</Errors></Response>"


def page(*ids: str, next_page: str = "") -> str:
    items = "".join(f"<item><subnetId>{i}</subnetId></item>" for i in ids)
    return (
        f"<DescribeSubnetsResponse><subnetSet>{items}</subnetSet>"
        f"<nextToken>{next_page}</nextToken></DescribeSubnetsResponse>"
    )


def subnets(wire: Wire) -> list[str]:
    found: list[Any] = asyncio.run(wire.calls().pages("ec2", "DescribeSubnets", "Subnets", MaxResults=5))
    return [subnet["SubnetId"] for subnet in found]


def connection_closed() -> Any:
    return ConnectionClosedError(endpoint_url="https://ec2")


def test_listing_returns_all_pages() -> None:
    wire = Wire(page("a", "b", next_page="2"), page("c", next_page="3"), page("d"))
    assert subnets(wire) == ["a", "b", "c", "d"]
    assert [request.get("NextToken") for request in wire.requests] == [None, ["2"], ["3"]]
    assert wire.records.total(CALLS_TOTAL, operation="DescribeSubnets", outcome="ok") == 3


def test_error_on_a_later_page_fails_the_listing() -> None:
    wire = Wire(page("a", next_page="2"), failing("UnauthorizedOperation", 403))
    with pytest.raises(errors.Unauthorized, match="DescribeSubnets"):
        subnets(wire)


def test_listing_stops_at_the_page_limit() -> None:
    wire = Wire(*(page("a", next_page=str(n)) for n in range(2 * calls.PAGES_LONGEST)))
    with pytest.raises(errors.Unreachable, match="no end"):
        subnets(wire)
    assert len(wire.requests) == calls.PAGES_LONGEST


def test_repeated_next_token_stops_the_listing() -> None:
    wire = Wire(page("a", next_page="again"))
    with pytest.raises(errors.Unreachable, match="no end"):
        subnets(wire)
    assert len(wire.requests) == 2


@pytest.mark.parametrize(
    "failure",
    [
        failing("RequestLimitExceeded", 503),
        failing("InternalError", 500),
        connection_closed(),
        "<html>",
        "<Describe",
    ],
)
def test_read_is_retried_with_backoff(failure: Any) -> None:
    wire = Wire(failure, failure, failure, page("a"))
    assert subnets(wire) == ["a"]
    assert len(wire.clock.slept) == 3
    assert 0 < sum(wire.clock.slept) <= 0.4 + 0.8 + 1.6
    assert wire.records.total(CALLS_TOTAL, operation="DescribeSubnets") == 4


@pytest.mark.fact("aws-9.2.1")
def test_retries_are_limited() -> None:
    wire = Wire(failing("RequestLimitExceeded", 503))
    with pytest.raises(errors.Throttled):
        subnets(wire)
    assert len(wire.requests) == calls.ATTEMPTS


@pytest.mark.parametrize(
    ("failure", "attempts", "kind"),
    [
        (connection_closed(), 1, errors.Unreachable),  # the call may have had an effect
        (failing("InternalError", 500), 1, errors.Unreachable),
        (failing("a word of next year", 503), 1, errors.Unreachable),
        (failing("RequestLimitExceeded", 503), 4, errors.Throttled),  # the call had no effect
        (failing("a word of next year"), 1, errors.Retryable),
        (failing("InvalidParameterValue"), 1, errors.Rejected),
    ],
)
def test_write_is_retried_only_if_it_had_no_effect(
    failure: Any, attempts: int, kind: type[Exception]
) -> None:
    wire = Wire(failure)
    with pytest.raises(kind):
        asyncio.run(wire.calls().call("ec2", "DeleteLaunchTemplate", LaunchTemplateName="one"))
    assert len(wire.requests) == attempts


def test_call_with_an_unknown_parameter_is_not_sent() -> None:
    wire = Wire(EMPTY)
    with pytest.raises(errors.Rejected, match="Colour"):
        asyncio.run(wire.calls().call("ec2", "DescribeSubnets", Colour="red"))
    assert wire.requests == []


@pytest.mark.fact("aws-9.2.1")
def test_client_is_created_once_and_without_botocore_retries() -> None:
    wire = Wire(EMPTY)
    clients = Clients("us-west-2", wire._session)
    first = clients.get("ec2")
    assert clients.get("ec2") is first
    assert first.meta.config.retries["total_max_attempts"] == 1
    assert clients.get("pricing").meta.region_name == "us-east-1"


@pytest.mark.fact("aws-7.5.1")
@pytest.mark.parametrize(
    ("region", "pricing_region"),
    [
        ("us-west-2", "us-east-1"),
        ("ca-central-1", "us-east-1"),
        ("ap-northeast-1", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("eu-west-1", "eu-central-1"),
    ],
)
def test_pricing_api_is_called_in_a_region_that_serves_it(region: str, pricing_region: str) -> None:
    assert calls.pricing_region(region) == pricing_region


@pytest.mark.fact("aws-9.1.1")
def test_calls_above_the_burst_are_rate_limited() -> None:
    wire = Wire(EMPTY)

    async def call_repeatedly() -> None:
        aws_calls = wire.calls()
        for _ in range(200):
            await aws_calls.call("ec2", "DescribeSubnets")

    asyncio.run(call_repeatedly())
    assert len(wire.requests) == 200
    assert sum(wire.clock.slept) == pytest.approx(150 / 15, abs=0.5)  # a burst of 50, then 15 a second


@pytest.mark.fact("aws-9.1.1")
def test_as_many_calls_as_there_are_threads_run_at_once() -> None:
    wire = Wire(page("a"))
    wire.barrier = threading.Barrier(4)
    threads = Threads(4)

    async def call_concurrently() -> list[int]:
        aws_calls = wire.calls(threads)
        answers = await asyncio.gather(*(aws_calls.call("ec2", "DescribeSubnets") for _ in range(20)))
        return [len(answer["Subnets"]) for answer in answers]

    try:
        found = asyncio.run(call_concurrently())
    finally:
        threads.close()
    assert found == [1] * 20


def test_importing_calls_does_not_import_botocore() -> None:
    program = "import sys, holdfast.cloud.aws.client.calls; sys.exit('botocore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603


WRITES = [
    (calls.EC2, "TerminateInstances", {"InstanceIds": ["i-1"]}),
    (calls.EC2, "RebootInstances", {"InstanceIds": ["i-1"]}),
    (calls.EC2, "CreateTags", {"Resources": ["i-1"], "Tags": [{"Key": "a", "Value": "b"}]}),
    (calls.EC2, "DeleteLaunchTemplate", {"LaunchTemplateName": "a"}),
    (calls.IAM, "DeleteInstanceProfile", {"InstanceProfileName": "a"}),
    ("sqs", "DeleteMessage", {"QueueUrl": "https://sqs.example/1/q", "ReceiptHandle": "r"}),
]


@pytest.mark.parametrize(("service", "operation", "parameters"), WRITES)
def test_replica_without_the_lease_sends_no_writes(
    service: str, operation: str, parameters: dict[str, Any]
) -> None:
    wire = Wire(EMPTY)
    with pytest.raises(errors.NotReady):
        asyncio.run(wire.calls(may_write=lambda: False).call(service, operation, **parameters))
    assert not wire.requests


def test_replica_without_the_lease_sends_reads() -> None:
    wire = Wire(EMPTY)
    asyncio.run(wire.calls(may_write=lambda: False).call(calls.EC2, "DescribeSubnets"))
    assert len(wire.requests) == 1


def test_write_is_not_sent_if_the_lease_expires_while_it_waits_for_a_thread() -> None:
    wire, is_leader = Wire(EMPTY), True

    class LeaseExpiresWhileWaiting(Inline):
        async def run(self, call: Callable[[], Any]) -> Any:
            nonlocal is_leader
            is_leader = False
            return call()

    with pytest.raises(errors.NotReady):
        asyncio.run(
            wire.calls(LeaseExpiresWhileWaiting(), may_write=lambda: is_leader).call(
                calls.EC2, "TerminateInstances", InstanceIds=["i-1"]
            )
        )
    assert not wire.requests


def test_write_is_not_sent_if_the_lease_expires_while_it_is_signed() -> None:
    """Signing may fetch credentials over the network, which takes time."""
    wire, is_leader = Wire(EMPTY), True
    aws_calls = wire.calls(may_write=lambda: is_leader)

    def expire_lease(**_: Any) -> None:
        nonlocal is_leader
        is_leader = False

    aws_calls._clients.get(calls.EC2).meta.events.register("before-sign", expire_lease)
    with pytest.raises(errors.NotReady):
        asyncio.run(aws_calls.call(calls.EC2, "TerminateInstances", InstanceIds=["i-1"]))
    assert not wire.requests
