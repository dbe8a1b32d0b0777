"""The controllers of node classes and NodePools as they run: on the embedded API server and a simulated AWS, under
virtual time. A test writes objects, lets time pass, and looks at what the API server has.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from aws_environment import ACCOUNT, few
from builders import ec2nodeclass_document, nodepool_document
from holdfast import errors
from holdfast.api import conditions, kinds
from holdfast.api.cluster import Event
from holdfast.api.conditions import Condition
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.cloud.aws.catalog.type_listing import TypeListing
from holdfast.controllers.nodeclass import hash as class_hash
from holdfast.controllers.nodeclass import status as class_status
from holdfast.controllers.nodepool import counter
from holdfast.controllers.nodepool import hash as pool_hash
from holdfast.controllers.nodepool import status as pool_status
from holdfast.controllers.reservations import availability
from holdfast.kube.client import Client
from holdfast.kube.transport import Answer, Transport
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.manager import Manager
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.recorder import LiveRecorder
from holdfast.runtime.supervision import Supervisor, Unexpected
from holdfast.runtime.writes import Writer
from holdfast.sim import time
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2.setup import CLUSTER
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock
from kube_servers import SETTINGS, START, install_crds
from launch_environment import LaunchEnvironment

K = TypeVar("K", bound=Object)

TERMS = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
SETTLE_S = 2.0  # long enough for everything that needs no timer
KINDS: tuple[type[Object], ...] = (EC2NodeClass, NodePool, NodeClaim, Node)


class Killable:
    """The program's way to the API server, which can be cut after some number of writes: the program has died.

    What the server refused, because somebody else wrote in between, was no write.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.writes: list[str] = []
        self.lives_for: int | None = None

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        if self.lives_for is not None and len(self.writes) >= self.lives_for:
            raise OSError("the program is dead")
        answer = await self._transport.request(method, path, query, headers, body)
        if method != "GET" and not path.endswith("/events") and answer.status < HTTPStatus.BAD_REQUEST:
            self.writes.append(f"{method} {path}")
        return answer


class NodeClassEnvironment:
    def __init__(self, **aws: Any) -> None:
        self.clock = VirtualClock(START)
        self.ids = SeededIds(1)
        self.transport = InProcess(ApiServer(clock=self.clock, ids=SeededIds(2)))
        self.kube = self._client(self.transport)
        self.wire = Killable(self.transport)
        program = self._client(self.wire)
        self.metrics = Metrics(counter.METRICS, strict=False)  # AWS has metrics of its own
        self.recorder = LiveRecorder(kube=program, metrics=self.metrics, clock=self.clock, ids=self.ids)
        self.aws = LaunchEnvironment(clock=self.clock, recorder=self.recorder, **aws)
        self._program = program
        self._running: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()

    def _client(self, transport: Transport) -> Client:
        return Client(transport=transport, clock=self.clock, ids=self.ids, settings=SETTINGS)

    # --- The program ----------------------------------------------------------------------------------

    async def start(self, *, without: str = "") -> None:
        """A new process with an empty memory; `without` one of its reconcilers, which is slow, or stuck."""
        caches = Caches(KINDS, clock=self.clock)
        self.aws.caches = caches
        cloud = self.aws.new_process()
        cloud.discovery._types._read = self._few_types
        for prices in (cloud.discovery._on_demand, cloud.discovery._spot):
            prices.wanted = False  # they take longest to read, and nothing here depends on them
        kube = Writer(self._program, caches)
        whole: dict[str, Any] = {
            "kube": kube,
            "cloud": cloud,
            "caches": caches,
            "clock": self.clock,
            "recorder": self.recorder,
        }
        few: dict[str, Any] = {"kube": kube, "cloud": cloud, "caches": caches}
        reconcilers = (
            class_status.Status(**whole),
            class_hash.Hash(**few),
            pool_status.Status(**whole),
            pool_hash.Hash(**few),
            counter.Counter(**whole),
            availability.Availability(**whole),
        )
        controllers = []
        for reconciler in reconcilers:
            if reconciler.name == without:
                continue
            controller = Controller(
                reconciler, clock=self.clock, ids=self.ids, recorder=self.recorder, strict=True
            )
            reconciler.watch(controller)
            controllers.append(controller)
        manager = Manager(
            kube=self._program,
            caches=caches,
            controllers=controllers,
            recorder=self.recorder,
            election=None,
            clock=self.clock,
            ids=self.ids,
            supervisor=Supervisor(
                Unexpected(clock=self.clock, recorder=self.recorder),
                clock=self.clock,
                ids=self.ids,
                strict=True,
            ),
        )
        self._stop = asyncio.Event()
        self._running = [
            asyncio.create_task(manager.run(self._stop)),
            asyncio.create_task(cloud.discovery.schedule.run()),
        ]
        await self.settle()

    async def _few_types(self) -> TypeListing:
        return few(await self.aws._listing())

    async def stop(self) -> None:
        self._stop.set()
        (program, schedule), self._running = self._running, []
        await program
        schedule.cancel()
        await asyncio.gather(schedule, return_exceptions=True)

    async def settle(self, seconds: float = SETTLE_S) -> None:
        """Lets time pass. A bug in the program ends the test."""
        await self.clock.sleep(seconds)
        for task in self._running:
            if task.done():
                task.result()

    # --- What a user does -----------------------------------------------------------------------------

    async def write(self, document: Mapping[str, Any], kind: type[K]) -> K:
        made = kinds.from_plain(dict(document), kind)
        assert isinstance(made, kind)
        return await self.create(made)

    async def create(self, obj: K) -> K:
        """With its status, which the API server takes from nobody who creates."""
        made = await self.kube.create(obj)
        status = to_wire(obj).get("status")
        if status:
            made = await self.kube.patch(made, {"status": status}, status=True, only_if_unchanged=True)
        return made

    async def node_class(self, name: str = "default", **spec: Any) -> EC2NodeClass:
        found = {"subnetSelectorTerms": TERMS, "securityGroupSelectorTerms": TERMS}
        document = ec2nodeclass_document(name, **(found | spec))
        return await self.write(document, EC2NodeClass)

    async def pool(self, name: str = "default", **template: Any) -> NodePool:
        return await self.write(nodepool_document(name, **template), NodePool)

    async def change(self, obj: Object, change: Mapping[str, Any], *, status: bool = False) -> None:
        newest = await self.kube.get(type(obj), obj.metadata.name)
        await self.kube.patch(newest, change, status=status, only_if_unchanged=True)
        await self.settle()

    # --- What the API server has ----------------------------------------------------------------------

    async def read(self, obj: K) -> K:
        return await self.kube.get(type(obj), obj.metadata.name)

    async def is_gone(self, obj: Object) -> bool:
        try:
            found = await self.read(obj)
        except errors.NotFound:
            return True
        return found.metadata.uid != obj.metadata.uid

    async def verdict(self, obj: Object, condition: str) -> tuple[str, str] | None:
        """Status and reason; None where the condition is not there."""
        found = await self.condition(obj, condition)
        return None if found is None else (found.status, found.reason or "")

    async def condition(self, obj: Object, condition: str) -> Condition | None:
        return conditions.find(conditions.of(await self.read(obj)), condition)

    def profiles(self) -> set[str]:
        """The instance profiles that IAM has."""
        answer = self.aws.iam.call("ListInstanceProfiles", {"PathPrefix": "/karpenter/"}, Caller(ACCOUNT))
        return {raw["InstanceProfileName"] for raw in answer["InstanceProfiles"]}

    async def events(self, obj: Object) -> list[tuple[str, str]]:
        """Reasons and messages, sorted."""
        listed = (await self.kube.list(Event)).items
        return sorted(
            (e.reason or "", e.message or "") for e in listed if e.involved_object.uid == obj.metadata.uid
        )


Test = Callable[[NodeClassEnvironment], Awaitable[None]]


def run(test: Test, **aws: Any) -> None:
    """A test, from an environment in which the program has just started."""

    async def main() -> None:
        env = NodeClassEnvironment(**aws)
        await install_crds(env.transport, env.clock)
        await env.start()
        await test(env)
        await env.stop()

    time.run(main())


def listed(node_class: EC2NodeClass) -> Sequence[str]:
    return [entry.id for entry in node_class.status.capacity_reservations]
