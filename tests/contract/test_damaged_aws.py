"""Whatever AWS answers, the Cloud port raises only errors of `holdfast.errors`.

Each operation that the source names is called through the port. botocore reads real answers of the simulated AWS, each
with one damage; all other answers of the run are intact.
"""

import functools
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree import ElementTree as ET

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse

import damage
from aws_calls import GROUP, diagnose, named_operations, send_notice
from aws_environment import REGION, run
from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog import type_listing
from holdfast.cloud.aws.catalog.type_listing import TypeListing
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.instances.queue import Queue
from holdfast.cloud.aws.nodeclass.identity import Given, Identity
from holdfast.model.instances import Instance
from holdfast.sim.aws import eks, events, sqs, sts
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.fronts import before_send
from holdfast.sim.ec2 import control
from launch_environment import SMALL, LaunchEnvironment, capacity_type
from objects import nodeclaim
from sim_aws import CLUSTER, QUEUE, RULE

Answer = tuple[int, dict[str, str], bytes]  # status, headers, body
LONG = ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "GetProducts")


@dataclass
class Wire:
    """Answers with the damaged one, a recorded one, or one of the simulated AWS."""

    endpoint: Endpoint | None = None
    target: str = ""
    answer: Answer | None = None
    recordings: dict[str, list[Answer]] = field(default_factory=dict)
    call_counts: Counter[str] = field(default_factory=Counter)
    short: bool = False

    def respond(self, request: Any, event_name: str, **_: object) -> AWSResponse:
        operation = event_name.rpartition(".")[2]
        if operation == self.target and self.answer is not None:
            status, headers, body = self.answer
        elif self.target and operation in self.recordings and self.answer is not None:
            recordings = self.recordings[operation]
            status, headers, body = recordings[min(self.call_counts[operation], len(recordings) - 1)]
        else:
            status, headers, body = self._ask(request, operation)
        self.call_counts[operation] += 1
        return AWSResponse(request.url, status, headers, _Raw(body))

    def _ask(self, request: Any, operation: str) -> Answer:
        assert self.endpoint is not None
        real = before_send.BeforeSend(self.endpoint).answer(request)
        body = _short(real.content) if self.short and operation in LONG else real.content
        self.recordings.setdefault(operation, []).append((real.status_code, dict(real.headers), body))
        return self.recordings[operation][-1]


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> list[bytes]:
        return [self._body]


def _short(body: bytes) -> bytes:
    if body.lstrip().startswith(b"<"):
        root = ET.fromstring(body)  # noqa: S314 - of the simulated AWS
        damage.shortened_xml(root)
        return ET.tostring(root)
    return json.dumps(damage.shortened_json(json.loads(body))).encode()


class DamagedEnvironment(LaunchEnvironment):
    def __init__(self) -> None:
        self.wire = Wire()
        super().__init__(clients=self._clients, placement_groups=(GROUP,))
        self.endpoint.services = {
            **self.endpoint.services,
            "eks": eks.Eks([CLUSTER]),
            "events": events.Events([RULE]),
            "sqs": sqs.Sqs([QUEUE], self.clock),
            "sts": sts.Sts(),
        }
        self.wire.endpoint = self.endpoint
        self.restart()
        self.reserve(tags={"team": "ml"})
        self.used = self.selecting({"tags": {"team": "ml"}})
        self.reserved, self.on_demand = (
            self.one(self.used, capacity_type(kind)) for kind in ("reserved", "on-demand")
        )
        self.clock.advance(60)
        self.ec2.advance()
        instance_id = self.reserved.provider_id.rpartition("/")[2]
        control.impair(self.ec2.region, instance_id)
        send_notice(self, self.on_demand.provider_id)
        self.requested = self.requests(self.used, capacity_type("on-demand"))
        self.wire.short = True

    def restart(self) -> None:
        queue = Queue(self.calls, QUEUE, recorder=self.records)
        self.cloud = self.new_process(queue=queue)

    async def _listing(self) -> TypeListing:
        if self.wire.target in LONG[:2]:
            return await type_listing.read(self.calls)
        listing = await super()._listing()
        return replace(listing, types=tuple(one for one in listing.types if one.name in SMALL))

    def _clients(self, _: Endpoint) -> calls.Clients:
        def session() -> Any:
            made = botocore.session.Session()
            made.set_credentials("AKIATEST", "secret")
            made.register("before-send", self.wire.respond)
            return made

        return calls.Clients(REGION, session)

    @property
    def claim_of_reserved(self) -> NodeClaim:
        reserved = self.reserved
        return nodeclaim(
            reserved.claim or "",
            {"labels": dict(reserved.labels)},
            {"providerID": reserved.provider_id, "nodeName": "node-1", "imageID": reserved.image_id},
        )


@functools.cache
def env() -> DamagedEnvironment:
    return DamagedEnvironment()


# --- Functions that make the program call each operation ----------------------------------------------


async def resolve(aws: DamagedEnvironment) -> EC2NodeClass:
    plain = aws.node_class(
        f"class-{aws.ids.token()[:8]}",
        role="OtherRole",
        placementGroupSelector={"name": "tight"},
        capacityReservationSelectorTerms=[{"tags": {"team": "ml"}}, {"id": "cr-0123456789abcdef0"}],
    )
    await aws.cloud.resolve(plain)
    return plain


async def probe(aws: DamagedEnvironment) -> None:
    await aws.cloud.resolve(aws.used)


async def refresh(aws: DamagedEnvironment) -> None:
    await aws.discovery.schedule.step()
    await aws.cloud.instance_types(aws.used)
    await aws.cloud.reservations()


async def launch(aws: DamagedEnvironment) -> None:
    token = aws.ids.token()
    outcomes = await aws.cloud.launch([replace(request, token=token) for request in aws.requested])
    assert all(isinstance(one, Instance | errors.HoldfastError) for one in outcomes), outcomes
    for one in outcomes:
        if isinstance(one, Instance):
            await aws.cloud.instance(one.provider_id)


async def describe_instances(aws: DamagedEnvironment) -> None:
    await aws.cloud.instances()
    await aws.cloud.instance(aws.reserved.provider_id)
    await aws.cloud.drift(aws.claim_of_reserved, aws.used)


async def terminate(aws: DamagedEnvironment) -> None:
    await aws.cloud.terminate(aws.on_demand.provider_id)


async def tag(aws: DamagedEnvironment) -> None:
    await aws.cloud.tag(aws.claim_of_reserved)


async def reboot(aws: DamagedEnvironment) -> None:
    await aws.cloud.reboot(aws.reserved.provider_id, aws.ids.token())


async def statuses(aws: DamagedEnvironment) -> None:
    await aws.cloud.instance_statuses()


async def notices(aws: DamagedEnvironment) -> None:
    for one in await aws.cloud.notices():
        await aws.cloud.acknowledge(one)


async def release(aws: DamagedEnvironment) -> None:
    await aws.cloud.release(aws.used)
    await aws.cloud.collect([], [])


async def cluster(aws: DamagedEnvironment) -> None:
    cluster = await Identity(aws.calls, Given(name=CLUSTER.name), aws.clock).read()
    if cluster.error is not None:
        raise cluster.error


async def doctor(aws: DamagedEnvironment) -> None:
    await diagnose(aws, CLUSTER.name)


CallingFunction = Callable[[DamagedEnvironment], Awaitable[object]]
CALLING_FUNCTIONS: dict[str, CallingFunction] = {
    "DescribeCluster": cluster,
    **dict.fromkeys((*LONG, "DescribeCapacityReservations"), refresh),
    **dict.fromkeys(
        (
            "DescribeSubnets",
            "DescribeSecurityGroups",
            "GetParameter",
            "DescribeImages",
            "DescribePlacementGroups",
            "GetInstanceProfile",
            "CreateInstanceProfile",
            "AddRoleToInstanceProfile",
        ),
        resolve,
    ),
    **dict.fromkeys(("GetRole", "GetCallerIdentity", "ListRuleNamesByTarget", "DescribeRule"), doctor),
    "RunInstances": probe,
    "CreateLaunchTemplate": launch,
    "CreateFleet": launch,
    "DescribeInstances": describe_instances,
    "CreateTags": tag,
    "RebootInstances": reboot,
    "DescribeInstanceStatus": statuses,
    "TerminateInstances": terminate,
    **dict.fromkeys(("GetQueueUrl", "ReceiveMessage", "DeleteMessage"), notices),
    **dict.fromkeys(
        (
            "DescribeLaunchTemplates",
            "DeleteLaunchTemplate",
            "ListInstanceProfiles",
            "RemoveRoleFromInstanceProfile",
            "DeleteInstanceProfile",
        ),
        release,
    ),
}


def test_every_operation_has_a_calling_function() -> None:
    assert named_operations() == set(CALLING_FUNCTIONS)


@pytest.mark.parametrize("operation", sorted(CALLING_FUNCTIONS))
def test_damaged_answers_raise_only_errors_of_holdfast(operation: str) -> None:
    aws, function = env(), CALLING_FUNCTIONS[operation]
    aws.wire.recordings = recorded(function)
    real = aws.wire.recordings.get(operation)
    assert real, f"{function.__name__} does not call {operation}"
    aws.wire.target = operation
    for answer in _answers(operation, real):
        aws.wire.answer = answer
        with damage.OnlyOurErrors(operation, answer[0], answer[1:]):
            _run(aws, function)


@functools.cache
def recorded(function: CallingFunction) -> dict[str, list[Answer]]:
    """The real answers to the calls of the function."""
    aws = env()
    aws.wire.target, aws.wire.answer, aws.wire.recordings = LONG[0] if function is refresh else "", None, {}
    _run(aws, function)
    return aws.wire.recordings


def _run(aws: DamagedEnvironment, function: CallingFunction) -> None:
    aws.restart()
    aws.wire.call_counts.clear()

    async def main() -> None:
        await function(aws)

    run(main())


def _answers(operation: str, real: Sequence[Answer]) -> list[Answer]:
    status, headers, body = max(real, key=lambda one: len(one[2]))
    foreign = [(code, headers, text) for code in damage.STATUSES for text in damage.FOREIGN]
    dates = [
        (status, headers | {"Date": date}, body)
        for date in ("Fri, 31 Dec 9999 23:59:59 -9959", "Mon, 1 Jan 0001 00:00:00 +9959", "5", "\ud800", "")
    ]
    damaged = [(status, headers, make()) for make in damage.some(damage.bodies(body), operation)]
    return [*damaged, *damage.some(foreign, operation, damage.DAMAGES // 2), *dates]
