"""Whatever AWS answers, only errors of `holdfast.errors` come through the Cloud port.

Each operation that the program's source names has a test that makes the call through the port. botocore reads real answers
of the simulated AWS, each with one damage; every other answer of the run is intact.
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
from aws_calls import GROUP, named_operations, send_notice
from aws_launch_world import SMALL, LaunchWorld, capacity_type
from aws_world import REGION, run
from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog import type_listing
from holdfast.cloud.aws.catalog.type_listing import TypeListing
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.instances.queue import Queue
from holdfast.cloud.aws.nodeclass.identity import Given, Identity
from holdfast.model.instances import Instance
from holdfast.sim.aws import eks, sqs
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.fronts import before_send
from holdfast.sim.ec2 import control
from objects import nodeclaim
from sim_aws import CLUSTER, QUEUE

Answer = tuple[int, dict[str, str], bytes]  # status, headers, body
LONG = ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "GetProducts")


@dataclass
class Wire:
    """Answers as the simulated AWS gives them, or as it gave them before, with one damage."""

    endpoint: Endpoint | None = None
    target: str = ""
    answer: Answer | None = None
    kept: dict[str, list[Answer]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    short: bool = False

    def answered(self, request: Any, event_name: str, **_: object) -> AWSResponse:
        operation = event_name.rpartition(".")[2]
        if operation == self.target and self.answer is not None:
            status, headers, body = self.answer
        elif self.target and operation in self.kept and self.answer is not None:
            kept = self.kept[operation]
            status, headers, body = kept[min(self.seen[operation], len(kept) - 1)]
        else:
            status, headers, body = self._ask(request, operation)
        self.seen[operation] += 1
        return AWSResponse(request.url, status, headers, _Raw(body))

    def _ask(self, request: Any, operation: str) -> Answer:
        assert self.endpoint is not None
        real = before_send.BeforeSend(self.endpoint).answer(request)
        body = _short(real.content) if self.short and operation in LONG else real.content
        self.kept.setdefault(operation, []).append((real.status_code, dict(real.headers), body))
        return self.kept[operation][-1]


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> list[bytes]:
        return [self._body]


def _short(body: bytes) -> bytes:
    if body.lstrip().startswith(b"<"):
        root = ET.fromstring(body)  # noqa: S314 - our own
        damage.shortened_xml(root)
        return ET.tostring(root)
    return json.dumps(damage.shortened_json(json.loads(body))).encode()


class DamagedWorld(LaunchWorld):
    def __init__(self) -> None:
        self.wire = Wire()
        super().__init__(clients=self._clients, placement_groups=(GROUP,))
        self.endpoint.services = {
            **self.endpoint.services,
            "eks": eks.Eks([CLUSTER]),
            "sqs": sqs.Sqs([QUEUE], self.clock),
        }
        self.wire.endpoint = self.endpoint
        self.restart()
        self.reserve(tags={"team": "ml"})
        self.used = self.selecting({"tags": {"team": "ml"}})
        self.reserved, self.bought = (
            self.one(self.used, capacity_type(kind)) for kind in ("reserved", "on-demand")
        )
        self.clock.advance(60)
        self.ec2.advance()
        machine = self.reserved.provider_id.rpartition("/")[2]
        control.impair(self.ec2.world, machine)
        send_notice(self, self.bought.provider_id)
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
            made.register("before-send", self.wire.answered)
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
def world() -> DamagedWorld:
    return DamagedWorld()


# --- What makes the program call each operation -------------------------------------------------------


async def resolve(it: DamagedWorld) -> EC2NodeClass:
    plain = it.node_class(
        f"class-{it.ids.token()[:8]}",
        role="OtherRole",
        placementGroupSelector={"name": "tight"},
        capacityReservationSelectorTerms=[{"tags": {"team": "ml"}}, {"id": "cr-0123456789abcdef0"}],
    )
    await it.cloud.resolve(plain)
    return plain


async def probe(it: DamagedWorld) -> None:
    await it.cloud.resolve(it.used)


async def refresh(it: DamagedWorld) -> None:
    await it.discovery.schedule.step()
    await it.cloud.instance_types(it.used)
    await it.cloud.reservations()


async def launch(it: DamagedWorld) -> None:
    token = it.ids.token()
    outcomes = await it.cloud.launch([replace(request, token=token) for request in it.requested])
    assert all(isinstance(one, Instance | errors.HoldfastError) for one in outcomes), outcomes
    for one in outcomes:
        if isinstance(one, Instance):
            await it.cloud.instance(one.provider_id)


async def look(it: DamagedWorld) -> None:
    await it.cloud.instances()
    await it.cloud.instance(it.reserved.provider_id)
    await it.cloud.drift(it.claim_of_reserved, it.used)


async def terminate(it: DamagedWorld) -> None:
    await it.cloud.terminate(it.bought.provider_id)


async def tag(it: DamagedWorld) -> None:
    await it.cloud.tag(it.claim_of_reserved)


async def reboot(it: DamagedWorld) -> None:
    await it.cloud.reboot(it.reserved.provider_id, it.ids.token())


async def statuses(it: DamagedWorld) -> None:
    await it.cloud.instance_statuses()


async def notices(it: DamagedWorld) -> None:
    for one in await it.cloud.notices():
        await it.cloud.acknowledge(one)


async def release(it: DamagedWorld) -> None:
    await it.cloud.release(it.used)
    await it.cloud.collect([], [])


async def cluster(it: DamagedWorld) -> None:
    cluster = await Identity(it.calls, Given(name=CLUSTER.name), it.clock).read()
    if cluster.error is not None:
        raise cluster.error


Errand = Callable[[DamagedWorld], Awaitable[object]]
ERRANDS: dict[str, Errand] = {
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
    "RunInstances": probe,
    "CreateLaunchTemplate": launch,
    "CreateFleet": launch,
    "DescribeInstances": look,
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


def test_every_operation_has_its_damages() -> None:
    assert named_operations() == set(ERRANDS)


@pytest.mark.parametrize("operation", sorted(ERRANDS))
def test_no_answer_raises_anything_but_our_errors(operation: str) -> None:
    it, errand = world(), ERRANDS[operation]
    it.wire.kept = recorded(errand)
    real = it.wire.kept.get(operation)
    assert real, f"{errand.__name__} does not call {operation}"
    it.wire.target = operation
    for answer in _answers(operation, real):
        it.wire.answer = answer
        with damage.OnlyOurErrors(operation, answer[0], answer[1:]):
            _run(it, errand)


@functools.cache
def recorded(errand: Errand) -> dict[str, list[Answer]]:
    """The real answers to what an errand asks."""
    it = world()
    it.wire.target, it.wire.answer, it.wire.kept = LONG[0] if errand is refresh else "", None, {}
    _run(it, errand)
    return it.wire.kept


def _run(it: DamagedWorld, errand: Errand) -> None:
    it.restart()
    it.wire.seen.clear()

    async def main() -> None:
        await errand(it)

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
