"""How AWS is called: paced, counted, tried again by us alone, whole listings or none.

AWS here is a hook at botocore's wire that answers what a test scripts: botocore itself writes the request,
reads the answer and makes the errors.
"""

import asyncio
import subprocess
import sys
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
from manual_ports import KeptRecords, ManualClock, SeededIds

Answer = Callable[[dict[str, list[str]]], tuple[int, str]]
LOADER = create_loader()  # reads each service's model once for all tests
EMPTY = "<DescribeSubnetsResponse/>"


class Wire:
    """Answers each request with the next of a script; the last one for ever."""

    def __init__(self, *script: str | Exception | tuple[int, str]) -> None:
        self.script = list(script)
        self.asked: list[dict[str, list[str]]] = []
        self.clock = ManualClock()
        self.records = KeptRecords()

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
        self.asked.append(
            parse_qs(request.body.decode() if isinstance(request.body, bytes) else request.body)
        )
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


def page(*ids: str, following: str = "") -> str:
    items = "".join(f"<item><subnetId>{i}</subnetId></item>" for i in ids)
    return (
        f"<DescribeSubnetsResponse><subnetSet>{items}</subnetSet>"
        f"<nextToken>{following}</nextToken></DescribeSubnetsResponse>"
    )


def subnets(wire: Wire) -> list[str]:
    found: list[Any] = asyncio.run(wire.calls().pages("ec2", "DescribeSubnets", "Subnets", MaxResults=5))
    return [subnet["SubnetId"] for subnet in found]


def lost() -> Any:
    return ConnectionClosedError(endpoint_url="https://ec2")


def test_a_listing_is_all_its_pages() -> None:
    wire = Wire(page("a", "b", following="2"), page("c", following="3"), page("d"))
    assert subnets(wire) == ["a", "b", "c", "d"]
    assert [asked.get("NextToken") for asked in wire.asked] == [None, ["2"], ["3"]]
    assert wire.records.total(CALLS_TOTAL, operation="DescribeSubnets", outcome="ok") == 3


def test_half_a_listing_is_an_error() -> None:
    wire = Wire(page("a", following="2"), failing("UnauthorizedOperation", 403))
    with pytest.raises(errors.Unauthorized, match="DescribeSubnets"):
        subnets(wire)


def test_a_listing_without_end_is_given_up() -> None:
    wire = Wire(*(page("a", following=str(n)) for n in range(2 * calls.PAGES_LONGEST)))
    with pytest.raises(errors.Unreachable, match="no end"):
        subnets(wire)
    assert len(wire.asked) == calls.PAGES_LONGEST


def test_a_token_that_is_repeated_ends_a_listing_at_once() -> None:
    wire = Wire(page("a", following="again"))
    with pytest.raises(errors.Unreachable, match="no end"):
        subnets(wire)
    assert len(wire.asked) == 2


@pytest.mark.parametrize(
    "trouble",
    [failing("RequestLimitExceeded", 503), failing("InternalError", 500), lost(), "<html>", "<Describe"],
)
def test_a_read_is_tried_again_after_a_growing_wait(trouble: Any) -> None:
    wire = Wire(trouble, trouble, trouble, page("a"))
    assert subnets(wire) == ["a"]
    assert len(wire.clock.slept) == 3
    assert 0 < sum(wire.clock.slept) <= 0.4 + 0.8 + 1.6
    assert wire.records.total(CALLS_TOTAL, operation="DescribeSubnets") == 4


@pytest.mark.fact("aws-9.2.1")
def test_trying_again_has_an_end() -> None:
    wire = Wire(failing("RequestLimitExceeded", 503))
    with pytest.raises(errors.Throttled):
        subnets(wire)
    assert len(wire.asked) == calls.ATTEMPTS


@pytest.mark.parametrize(
    ("trouble", "asked", "kind"),
    [
        (lost(), 1, errors.Unreachable),  # it may have taken effect
        (failing("InternalError", 500), 1, errors.Unreachable),
        (failing("a word of next year", 503), 1, errors.Unreachable),
        (failing("RequestLimitExceeded", 503), 4, errors.Throttled),  # it did not
        (failing("a word of next year"), 1, errors.Retryable),
        (failing("InvalidParameterValue"), 1, errors.Rejected),
    ],
)
def test_a_write_is_tried_again_only_when_it_had_no_effect(
    trouble: Any, asked: int, kind: type[Exception]
) -> None:
    wire = Wire(trouble)
    with pytest.raises(kind):
        asyncio.run(wire.calls().call("ec2", "DeleteLaunchTemplate", LaunchTemplateName="one"))
    assert len(wire.asked) == asked


def test_parameters_that_aws_does_not_know_never_leave() -> None:
    wire = Wire(EMPTY)
    with pytest.raises(errors.Rejected, match="Colour"):
        asyncio.run(wire.calls().call("ec2", "DescribeSubnets", Colour="red"))
    assert wire.asked == []


@pytest.mark.fact("aws-9.2.1")
def test_a_client_is_made_once_and_without_retries_of_its_own() -> None:
    wire = Wire(EMPTY)
    clients = Clients("us-west-2", wire._session)
    first = clients.get("ec2")
    assert clients.get("ec2") is first
    assert first.meta.config.retries["total_max_attempts"] == 1
    assert clients.get("pricing").meta.region_name == "us-east-1"


@pytest.mark.fact("aws-7.5.1")
@pytest.mark.parametrize(
    ("region", "asked"),
    [
        ("us-west-2", "us-east-1"),
        ("ca-central-1", "us-east-1"),
        ("ap-northeast-1", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("eu-west-1", "eu-central-1"),
    ],
)
def test_prices_are_asked_for_where_they_are_served(region: str, asked: str) -> None:
    assert calls.pricing_region(region) == asked


@pytest.mark.fact("aws-9.1.1")
def test_a_storm_of_calls_is_spread_out() -> None:
    wire = Wire(EMPTY)

    async def storm() -> None:
        door = wire.calls()
        for _ in range(200):
            await door.call("ec2", "DescribeSubnets")

    asyncio.run(storm())
    assert len(wire.asked) == 200
    assert sum(wire.clock.slept) == pytest.approx(150 / 15, abs=0.5)  # fifty at once, then fifteen a second


@pytest.mark.fact("aws-9.1.1")
def test_threads_make_many_calls_at_once() -> None:
    wire = Wire(page("a"))
    threads = Threads(4)

    async def many() -> list[int]:
        door = wire.calls(threads)
        answers = await asyncio.gather(*(door.call("ec2", "DescribeSubnets") for _ in range(20)))
        return [len(answer["Subnets"]) for answer in answers]

    try:
        found = asyncio.run(many())
    finally:
        threads.close()
    assert found == [1] * 20


def test_botocore_is_loaded_by_the_first_call_alone() -> None:
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
def test_a_replica_that_does_not_lead_changes_nothing_in_aws(
    service: str, operation: str, parameters: dict[str, Any]
) -> None:
    wire = Wire(EMPTY)
    with pytest.raises(errors.NotReady):
        asyncio.run(wire.calls(may_write=lambda: False).call(service, operation, **parameters))
    assert not wire.asked


def test_a_replica_that_does_not_lead_reads_from_aws() -> None:
    wire = Wire(EMPTY)
    asyncio.run(wire.calls(may_write=lambda: False).call(calls.EC2, "DescribeSubnets"))
    assert len(wire.asked) == 1


def test_a_call_that_waited_for_a_thread_while_the_lease_ran_out_is_not_sent() -> None:
    wire, leads = Wire(EMPTY), True

    class Late(Inline):
        async def run(self, call: Callable[[], Any]) -> Any:
            nonlocal leads
            leads = False
            return call()

    with pytest.raises(errors.NotReady):
        asyncio.run(
            wire.calls(Late(), may_write=lambda: leads).call(
                calls.EC2, "TerminateInstances", InstanceIds=["i-1"]
            )
        )
    assert not wire.asked


def test_a_call_is_not_sent_when_the_lease_ran_out_while_it_was_signed() -> None:
    """Signing may fetch credentials over the network first."""
    wire, leads = Wire(EMPTY), True
    made = wire.calls(may_write=lambda: leads)

    def signs(**_: Any) -> None:
        nonlocal leads
        leads = False

    made._clients.get(calls.EC2).meta.events.register("before-sign", signs)
    with pytest.raises(errors.NotReady):
        asyncio.run(made.call(calls.EC2, "TerminateInstances", InstanceIds=["i-1"]))
    assert not wire.asked
