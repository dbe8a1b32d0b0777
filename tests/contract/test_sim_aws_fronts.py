"""What the three fronts have in common: equal answers, strict validation, faults and time. Called with botocore."""

import asyncio
import datetime as dt
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ParamValidationError
from botocore.parsers import ResponseParserError

import sim_aws
from holdfast.sim.aws.codec.shapes import WrongShape
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.errors import ApiError, LostResponse
from holdfast.sim.aws.faults import Fault
from holdfast.sim.aws.service import Caller
from holdfast.sim.aws.waiting import Timed

IN_PROCESS = ("before_call", "before_send")
NOON = dt.datetime(2027, 1, 15, 12, 0, 0, 123456, tzinfo=dt.UTC)


class StubEc2:
    """An EC2 that returns the answers of a test and records the calls."""

    def __init__(self, **answers: Mapping[str, Any] | Exception) -> None:
        self._answers = answers
        self.asked: list[Mapping[str, Any]] = []
        self.callers: list[Caller] = []

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        self.asked.append(params)
        self.callers.append(caller)
        answer = self._answers[operation]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


@pytest.fixture(params=sim_aws.FRONTS)
def front(request: pytest.FixtureRequest) -> str:
    return str(request.param)


FLEET = {
    "Type": "instant",
    "ClientToken": "token",
    "LaunchTemplateConfigs": [
        {
            "LaunchTemplateSpecification": {
                "LaunchTemplateName": "karpenter.k8s.aws/1",
                "Version": "$Latest",
            },
            "Overrides": [
                {"InstanceType": "m5.xlarge", "SubnetId": "subnet-1", "Priority": 1.9223e-08},
                {"InstanceType": "m5.large", "SubnetId": "subnet-1", "Priority": 2.0},
            ],
        }
    ],
    "TargetCapacitySpecification": {"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "on-demand"},
    "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a b", "Value": "ü&="}]}],
    "ValidUntil": NOON,
    "ReplaceUnhealthyInstances": False,
}


def test_parameters_arrive_the_same_through_every_front(front: str) -> None:
    stub = StubEc2(CreateFleet={})
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": stub})) as aws:
        aws["ec2"].create_fleet(**FLEET)
    (asked,) = stub.asked
    assert asked == {**FLEET, "ValidUntil": NOON.replace(microsecond=123000)}
    assert stub.callers[0].account_id == "111122223333"
    assert stub.callers[0].access_key == "AKIATEST"
    assert "Botocore" in stub.callers[0].user_agent


def test_user_data_arrives_base64_encoded(front: str) -> None:
    stub = StubEc2(RunInstances={})
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": stub})) as aws:
        aws["ec2"].run_instances(MinCount=1, MaxCount=1, UserData="hello", ClientToken="t")
    assert stub.asked == [{"MinCount": 1, "MaxCount": 1, "UserData": "aGVsbG8=", "ClientToken": "t"}]


RESERVATIONS = {
    "CapacityReservations": [
        {
            "CapacityReservationId": "cr-1",
            "TotalInstanceCount": 3,
            "EbsOptimized": True,
            "EphemeralStorage": False,
            "StartDate": NOON,
            "Tags": [{"Key": "<&>", "Value": ""}],
            "CapacityAllocations": [],
        }
    ],
    "NextToken": "more",
}


def test_results_arrive_the_same_through_every_front(front: str) -> None:
    with sim_aws.clients(
        front, sim_aws.endpoint({"ec2": StubEc2(DescribeCapacityReservations=RESERVATIONS)})
    ) as aws:
        answer = aws["ec2"].describe_capacity_reservations()
    assert answer["ResponseMetadata"]["RequestId"] == "00000000-0000-4000-8000-000000000001"
    (found,) = sim_aws.without_metadata(answer)["CapacityReservations"]
    as_sent = RESERVATIONS["CapacityReservations"][0]
    assert isinstance(as_sent, dict)
    assert found == {**as_sent, "StartDate": NOON.replace(microsecond=123000)}
    assert answer["NextToken"] == "more"


def test_changing_an_answer_does_not_change_the_service(front: str) -> None:
    with sim_aws.clients(
        front, sim_aws.endpoint({"ec2": StubEc2(DescribeCapacityReservations=RESERVATIONS)})
    ) as aws:
        answer = aws["ec2"].describe_capacity_reservations()
        answer["CapacityReservations"][0]["Tags"].clear()
        again = aws["ec2"].describe_capacity_reservations()
    assert again["CapacityReservations"][0]["Tags"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"Fleeets": []}, r"CreateFleet\.Fleeets: the service model has no such member"),
        (
            {"Instances": [{"InstanceIds": [1]}]},
            r"CreateFleet\.Instances\.\[\]\.InstanceIds\.\[\]: 1 is not a string",
        ),
        ({"Instances": [{"InstanceTypo": "m5"}]}, r"InstanceTypo: the service model has no such member"),
        ({"FleetId": None}, r"FleetId: None is not a string"),
        (
            {"Instances": [{"Lifecycle": "reserved"}]},
            r"Lifecycle: 'reserved' is not one of InstanceLifecycle",
        ),
    ],
)
@pytest.mark.parametrize("front", IN_PROCESS)
def test_answer_that_does_not_match_the_service_model_is_an_error(
    front: str, answer: dict[str, Any], problem: str
) -> None:
    env = sim_aws.endpoint({"ec2": StubEc2(CreateFleet=answer)})
    with sim_aws.clients(front, env) as aws, pytest.raises(WrongShape, match=problem):
        aws["ec2"].create_fleet(**FLEET)


def test_over_http_a_bug_of_the_simulator_is_an_internal_error() -> None:
    with sim_aws.served(sim_aws.endpoint({"ec2": StubEc2(DescribeInstances={"Typo": 1})})) as url:
        status, text = post(url, "ec2", "Action=DescribeInstances")
    assert status == 500
    assert "Typo" not in text


def test_botocore_checks_parameters_before_any_front(front: str) -> None:
    stub = StubEc2(CreateFleet={})
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": stub})) as aws, pytest.raises(ParamValidationError):
        aws["ec2"].create_fleet(**FLEET, Typo="x")
    assert not stub.asked


def test_unknown_enum_value_is_refused(front: str) -> None:
    stub = StubEc2(CreateFleet={})
    with (
        sim_aws.clients(front, sim_aws.endpoint({"ec2": stub})) as aws,
        pytest.raises(ClientError) as refused,
    ):
        aws["ec2"].create_fleet(**{**FLEET, "Type": "instantly"})
    assert refused.value.response["Error"] == {
        "Code": "InvalidParameterValue",
        "Message": "Value (instantly) for parameter Type is invalid.",
    }
    assert not stub.asked


def test_errors_are_the_same_through_every_front(front: str) -> None:
    error = ApiError("InvalidCapacityReservationId.NotFound", "The ID 'cr-<1>' does not exist")
    with (
        sim_aws.clients(front, sim_aws.endpoint({"ec2": StubEc2(DescribeCapacityReservations=error)})) as aws,
        pytest.raises(ClientError) as refused,
    ):
        aws["ec2"].describe_capacity_reservations(CapacityReservationIds=["cr-<1>"])
    assert refused.value.response["Error"] == {"Code": error.code, "Message": error.message}
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert refused.value.response["ResponseMetadata"]["RequestId"]


def test_action_that_is_not_simulated_is_refused_and_counted(front: str) -> None:
    env = sim_aws.endpoint()
    with sim_aws.clients(front, env) as aws:
        for service, method, params, code in (
            ("ec2", "describe_vpcs", {}, "InvalidAction"),
            ("iam", "list_users", {}, "InvalidAction"),
            ("sqs", "list_queues", {}, "UnknownOperationException"),
            ("eks", "list_addons", {"clusterName": "demo"}, "UnknownOperationException"),
        ):
            with pytest.raises(ClientError) as refused:
                getattr(aws[service], method)(**params)
            assert refused.value.response["Error"]["Code"] == code
    assert env.unknown_actions() == {
        ("ec2", "DescribeVpcs"): 1,
        ("iam", "ListUsers"): 1,
        ("sqs", "ListQueues"): 1,
        ("eks", "ListAddons"): 1,
    }


def test_every_call_is_in_the_log(front: str) -> None:
    env = sim_aws.endpoint()
    with sim_aws.clients(front, env) as aws:
        aws["sts"].get_caller_identity()
        with pytest.raises(ClientError):
            aws["iam"].get_instance_profile(InstanceProfileName="x")
    assert [(c.at_s, c.service, c.operation, c.params, c.error) for c in env.log] == [
        (sim_aws.NOW_S, "sts", "GetCallerIdentity", {}, None),
        (sim_aws.NOW_S, "iam", "GetInstanceProfile", {"InstanceProfileName": "x"}, "NoSuchEntity"),
    ]


@pytest.mark.parametrize(
    ("fault", "error", "profiles"),
    [
        (Fault.UNREACHED, ConnectionClosedError, []),
        (Fault.LOST, ConnectionClosedError, ["p"]),
        (Fault.HALF, ResponseParserError, ["p"]),
    ],
)
def test_a_connection_breaks_before_or_after_the_effect(
    front: str, fault: Fault, error: type[Exception], profiles: list[str]
) -> None:
    env = sim_aws.endpoint(faults=sim_aws.On("CreateInstanceProfile", fault))
    with sim_aws.clients(front, env) as aws:
        with pytest.raises(error):
            aws["iam"].create_instance_profile(InstanceProfileName="p")
        found = aws["iam"].list_instance_profiles()["InstanceProfiles"]
    assert [profile["InstanceProfileName"] for profile in found] == profiles


def test_botocore_reads_half_of_a_json_answer_as_an_empty_one(front: str) -> None:
    """It does the same with the real AWS, so a caller must check that the answer is complete."""
    env = sim_aws.endpoint(faults=sim_aws.Always(Fault.HALF))
    with sim_aws.clients(front, env) as aws:
        assert "cluster" not in aws["eks"].describe_cluster(name="demo")


def test_service_may_lose_its_own_answer(front: str) -> None:
    stub = StubEc2(CreateFleet=LostResponse())
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": stub})) as aws, pytest.raises(ConnectionClosedError):
        aws["ec2"].create_fleet(**FLEET)
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("service", "method", "params", "code", "status"),
    [
        ("ec2", "describe_instances", {}, "RequestLimitExceeded", 503),
        ("iam", "list_instance_profiles", {}, "Throttling", 400),
        ("ssm", "get_parameter", {"Name": "x"}, "ThrottlingException", 400),
        ("sqs", "get_queue_url", {"QueueName": "x"}, "RequestThrottled", 403),
        ("eks", "describe_cluster", {"name": "x"}, "ThrottlingException", 429),
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2"}, "ThrottlingException", 400),
    ],
)
def test_each_service_has_its_own_throttling_error(
    front: str, service: str, method: str, params: dict[str, str], code: str, status: int
) -> None:
    env = sim_aws.endpoint(faults=sim_aws.Always(Fault.THROTTLED))
    with sim_aws.clients(front, env) as aws:
        call = getattr(aws[service], method)
        with pytest.raises(ClientError) as refused:
            call(**params)
    assert refused.value.response["Error"]["Code"] == code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == status


def test_a_fault_may_be_any_error(front: str) -> None:
    denied = ApiError("UnauthorizedOperation", "You are not authorized.", 403)
    env = sim_aws.endpoint(faults=sim_aws.Always(denied))
    with sim_aws.clients(front, env) as aws, pytest.raises(ClientError) as refused:
        aws["ec2"].describe_instances()
    assert refused.value.response["Error"]["Code"] == "UnauthorizedOperation"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_access_key_decides_the_account_of_the_caller(front: str) -> None:
    env = sim_aws.endpoint(accounts={"AKIATEST": "210987654321"})
    with sim_aws.clients(front, env) as aws:
        assert aws["sts"].get_caller_identity()["Account"] == "210987654321"


def receive(aws: sim_aws.Clients) -> list[str]:
    answer = aws["sqs"].receive_message(QueueUrl=f"http://x/1/{sim_aws.QUEUE}", WaitTimeSeconds=20)
    return [message["Body"] for message in answer.get("Messages", ())]


@pytest.mark.parametrize("front", IN_PROCESS)
def test_empty_long_poll_lasts_its_wait_time_on_the_clock(front: str) -> None:
    clock = sim_aws.JumpingClock()
    env = sim_aws.endpoint(clock=clock)
    with sim_aws.clients(front, env) as aws:
        assert asyncio.run(Timed(env).run(lambda: receive(aws))) == []
    assert clock.passed_s == 20
    assert [(call.operation, call.error) for call in env.log] == [("ReceiveMessage", None)]


@pytest.mark.parametrize("front", IN_PROCESS)
def test_long_poll_ends_when_a_message_arrives(front: str) -> None:
    clock = sim_aws.JumpingClock()
    services = sim_aws.small_services(clock)
    env = Endpoint(services, clock)
    sqs: Any = services["sqs"]

    async def scenario(aws: sim_aws.Clients) -> list[str]:
        polling = asyncio.create_task(Timed(env).run(lambda: receive(aws)))
        await asyncio.sleep(0)
        sqs.sink(sim_aws.QUEUE)({"detail-type": "EC2 Spot Instance Interruption Warning"})
        return await polling

    with sim_aws.clients(front, env) as aws:
        assert asyncio.run(scenario(aws)) == ['{"detail-type": "EC2 Spot Instance Interruption Warning"}']


@pytest.mark.parametrize("front", IN_PROCESS)
def test_long_poll_receives_a_message_after_its_visibility_timeout(front: str) -> None:
    clock = sim_aws.JumpingClock()
    env = sim_aws.endpoint(clock=clock)
    with sim_aws.clients(front, env) as aws:
        queue = {"QueueUrl": f"http://x/1/{sim_aws.QUEUE}"}
        aws["sqs"].send_message(**queue, MessageBody="hello")
        aws["sqs"].receive_message(**queue, VisibilityTimeout=7)
        assert asyncio.run(Timed(env).run(lambda: receive(aws))) == ["hello"]
    assert clock.passed_s == 7


@pytest.mark.parametrize("front", IN_PROCESS)
def test_half_of_a_calls_latency_passes_before_its_effect(front: str) -> None:
    clock = sim_aws.JumpingClock()
    env = sim_aws.endpoint(clock=clock, faults=sim_aws.Slow(3))
    with sim_aws.clients(front, env) as aws:
        asyncio.run(Timed(env).run(lambda: aws["iam"].create_instance_profile(InstanceProfileName="p")))
        made = aws["iam"].get_instance_profile(InstanceProfileName="p")["InstanceProfile"]
    assert made["CreateDate"].timestamp() == sim_aws.NOW_S + 1
    assert clock.passed_s == 3


def test_long_poll_over_http_ends_when_a_message_arrives() -> None:
    with sim_aws.clients("http", sim_aws.endpoint(clock=sim_aws.LoopClock())) as aws:
        assert aws["sqs"]  # creates the client before the measurement
        received: list[str] = []
        poll = threading.Thread(target=lambda: received.extend(receive(aws)))
        began = time.monotonic()
        poll.start()
        aws["sqs"].send_message(QueueUrl=f"http://x/1/{sim_aws.QUEUE}", MessageBody="hello")
        poll.join(15)
    assert received == ["hello"]
    assert time.monotonic() - began < 15


def test_long_poll_of_a_disconnected_client_takes_no_message() -> None:
    with sim_aws.served(sim_aws.endpoint(clock=sim_aws.LoopClock())) as url:
        asked = {"QueueUrl": f"http://x/1/{sim_aws.QUEUE}"}
        with pytest.raises(TimeoutError):
            sqs(url, "ReceiveMessage", {**asked, "WaitTimeSeconds": 20}, timeout_s=0.3)
        time.sleep(0.3)  # until the server has noticed the disconnect
        sqs(url, "SendMessage", {**asked, "MessageBody": "hello"})
        time.sleep(0.3)
        assert '"Body":"hello"' in sqs(url, "ReceiveMessage", asked)


def sqs(url: str, operation: str, params: Mapping[str, Any], timeout_s: float = 20) -> str:
    target = {"X_Amz_Target": f"AmazonSQS.{operation}", "Content_Type": "application/x-amz-json-1.0"}
    status, text = post(url, "sqs", json.dumps(params), timeout_s, **target)
    assert status == 200, text
    return text.replace(": ", ":")


def test_latency_over_http_is_real() -> None:
    env = sim_aws.endpoint(clock=sim_aws.LoopClock(), faults=sim_aws.Slow(0.2))
    with sim_aws.clients("http", env) as aws:
        client = aws["sts"]
        began = time.monotonic()
        client.get_caller_identity()
    assert time.monotonic() - began >= 0.2


@pytest.fixture
def address() -> Iterator[str]:
    with sim_aws.served(
        sim_aws.endpoint({**sim_aws.small_services(sim_aws.JumpingClock()), "ec2": StubEc2()})
    ) as url:
        yield url


def post(url: str, service: str, body: str, timeout_s: float = 20, **headers: str) -> tuple[int, str]:
    scope = f"AWS4-HMAC-SHA256 Credential=AKIATEST/20270115/us-west-2/{service}/aws4_request, Signature=0"
    signed = {"Authorization": scope} if service else {}
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body.encode(), {**signed, **headers}, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("service", "body", "status", "words"),
    [
        ("ec2", "Action=CreateFleet&Typo.1=x", 400, "<Code>UnknownParameter</Code>.*Typo"),
        (
            "ec2",
            "Action=CreateFleet&LaunchTemplateConfigs.1.Typo=x",
            400,
            "LaunchTemplateConfigs.1.Typo is not",
        ),
        ("ec2", "Action=RunInstances&MinCount=many", 400, "<Code>InvalidParameterValue</Code>.*MinCount"),
        ("ec2", "Action=DescribeInstances&DryRun=maybe", 400, "<Code>InvalidParameterValue</Code>.*DryRun"),
        ("ec2", "Action=RunInstances", 400, "<Code>MissingParameter</Code>.*MaxCount"),
        ("ec2", "Action=Nonsense", 400, "<Code>InvalidAction</Code>.*Nonsense"),
        ("ec2", "", 400, "<Code>InvalidAction</Code>"),
        ("ec2", "Action=RunInstances&MinCount=1&MinCount.1=2", 400, "<Code>MalformedQueryString</Code>"),
        ("iam", "Action=CreateInstanceProfile", 400, "<Code>ValidationError</Code>.*InstanceProfileName"),
        ("iam", "Action=ListInstanceProfiles&Typo=1", 400, "<Code>ValidationError</Code>.*Typo"),
        ("nowhere", "Action=X", 400, "<Code>InvalidAction</Code>.*nowhere"),
        ("", "Action=DescribeInstances", 403, "<Code>MissingAuthenticationToken</Code>"),
    ],
)
def test_requests_that_no_sdk_sends_are_refused(
    address: str, service: str, body: str, status: int, words: str
) -> None:
    answer = post(address, service, body)
    assert answer[0] == status
    assert matches(words, answer[1])


@pytest.mark.parametrize(
    ("target", "body", "words"),
    [
        ("AmazonSSM.GetParameter", '{"Name": "x", "Typo": 1}', "ValidationException.*Typo"),
        ("AmazonSSM.GetParameter", '{"Name": 1}', "SerializationException.*Name"),
        ("AmazonSSM.GetParameter", "{}", "ValidationException.*Name"),
        ("AmazonSSM.GetParameter", "{", "SerializationException"),
        ("AmazonSSM.Nonsense", "{}", "UnknownOperationException"),
    ],
)
def test_json_that_no_sdk_sends_is_refused(address: str, target: str, body: str, words: str) -> None:
    status, text = post(address, "ssm", body, X_Amz_Target=target)
    assert status == 400
    assert matches(words, text)


def matches(words: str, text: str) -> bool:
    first, _, second = words.partition(".*")
    return first in text and second in text
