"""The controllers of EC2NodeClasses and NodePools with the embedded API server and a simulated AWS, in virtual time.

A test writes objects, advances the clock, and checks the objects in the API server.
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
from holdfast.runtime.recorder import KubeRecorder
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
SETTLE_S = 2.0  # long enough for all reconciles that wait for no timer
KINDS: tuple[type[Object], ...] = (EC2NodeClass, NodePool, NodeClaim, Node)


class WriteLimitedTransport:
    """The controller's connection to the API server. After `max_writes` writes every request fails, as after a crash.

    A write that the server refused, for example because of a conflict, does not count.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.writes: list[str] = []
        self.max_writes: int | None = None

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        if self.max_writes is not None and len(self.writes) >= self.max_writes:
            raise OSError("the program is dead")
        answer = await self._transport.request(method, path, query, headers, body)
        if method != "GET" and "/events" not in path and answer.status < HTTPStatus.BAD_REQUEST:
            self.writes.append(f"{method} {path}")
        return answer


class NodeClassEnvironment:
    def __init__(self, **aws: Any) -> None:
        self.clock = VirtualClock(START)
        self.ids = SeededIds(1)
        self.transport = InProcess(ApiServer(clock=self.clock, ids=SeededIds(2)))
        self.kube = self._client(self.transport)
        self.wire = WriteLimitedTransport(self.transport)
        program = self._client(self.wire)
        self.metrics = Metrics(
            counter.METRICS, strict=False
        )  # not strict: the AWS provider has further metrics
        self.recorder = KubeRecorder(kube=program, metrics=self.metrics, clock=self.clock, ids=self.ids)
        self.aws = LaunchEnvironment(clock=self.clock, recorder=self.recorder, **aws)
        self._program = program
        self._running: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()

    def _client(self, transport: Transport) -> Client:
        return Client(transport=transport, clock=self.clock, ids=self.ids, settings=SETTINGS)

    # --- The controllers ------------------------------------------------------------------------------

    async def start(self, *, without: str = "") -> None:
        """Starts a process with empty caches; `without` names a reconciler that does not run, as if it were stuck."""
        caches = Caches(KINDS, clock=self.clock)
        self.aws.caches = caches
        cloud = self.aws.new_process()
        cloud.discovery._types._read = self._few_types
        for prices in (cloud.discovery._on_demand, cloud.discovery._spot):
            prices.wanted = False  # slow to read, and no test here depends on prices
        kube = Writer(self._program, caches)
        all_ports: dict[str, Any] = {
            "kube": kube,
            "cloud": cloud,
            "caches": caches,
            "clock": self.clock,
            "recorder": self.recorder,
        }
        base_ports: dict[str, Any] = {"kube": kube, "cloud": cloud, "caches": caches}
        reconcilers = (
            class_status.Status(**all_ports),
            class_hash.Hash(**base_ports),
            pool_status.Status(**all_ports),
            pool_hash.Hash(**base_ports),
            counter.Counter(**all_ports),
            availability.Availability(**all_ports),
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
        """Advances the clock. An unexpected exception of a controller fails the test."""
        await self.clock.sleep(seconds)
        for task in self._running:
            if task.done():
                task.result()

    # --- Writes of a user -----------------------------------------------------------------------------

    async def write(self, document: Mapping[str, Any], kind: type[K]) -> K:
        parsed = kinds.from_plain(dict(document), kind)
        assert isinstance(parsed, kind)
        return await self.create(parsed)

    async def create(self, obj: K) -> K:
        """Creates an object and then patches its status, because the API server ignores the status of a new object."""
        created = await self.kube.create(obj)
        status = to_wire(obj).get("status")
        if status:
            created = await self.kube.patch(created, {"status": status}, status=True, only_if_unchanged=True)
        return created

    async def node_class(self, name: str = "default", **spec: Any) -> EC2NodeClass:
        selectors = {"subnetSelectorTerms": TERMS, "securityGroupSelectorTerms": TERMS}
        document = ec2nodeclass_document(name, **(selectors | spec))
        return await self.write(document, EC2NodeClass)

    async def pool(self, name: str = "default", **template: Any) -> NodePool:
        return await self.write(nodepool_document(name, **template), NodePool)

    async def change(self, obj: Object, change: Mapping[str, Any], *, status: bool = False) -> None:
        newest = await self.kube.get(type(obj), obj.metadata.name)
        await self.kube.patch(newest, change, status=status, only_if_unchanged=True)
        await self.settle()

    # --- State of the API server ----------------------------------------------------------------------

    async def read(self, obj: K) -> K:
        return await self.kube.get(type(obj), obj.metadata.name)

    async def is_deleted(self, obj: Object) -> bool:
        try:
            current = await self.read(obj)
        except errors.NotFound:
            return True
        return current.metadata.uid != obj.metadata.uid

    async def verdict(self, obj: Object, condition: str) -> tuple[str, str] | None:
        """Status and reason of a condition; None if the condition is missing."""
        current = await self.condition(obj, condition)
        return None if current is None else (current.status, current.reason or "")

    async def condition(self, obj: Object, condition: str) -> Condition | None:
        return conditions.find(conditions.of(await self.read(obj)), condition)

    def profiles(self) -> set[str]:
        """The instance profiles that IAM has."""
        answer = self.aws.iam.call("ListInstanceProfiles", {"PathPrefix": "/karpenter/"}, Caller(ACCOUNT))
        return {raw["InstanceProfileName"] for raw in answer["InstanceProfiles"]}

    async def events(self, obj: Object) -> list[tuple[str, str]]:
        """The reasons and messages of the events of an object, sorted."""
        all_events = (await self.kube.list(Event)).items
        return sorted(
            (e.reason or "", e.message or "") for e in all_events if e.involved_object.uid == obj.metadata.uid
        )


Test = Callable[[NodeClassEnvironment], Awaitable[None]]


def run(test: Test, **aws: Any) -> None:
    """Runs a test in an environment whose controllers have just started."""

    async def main() -> None:
        env = NodeClassEnvironment(**aws)
        await install_crds(env.transport, env.clock)
        await env.start()
        await test(env)
        await env.stop()

    time.run(main())


def listed(node_class: EC2NodeClass) -> Sequence[str]:
    return [entry.id for entry in node_class.status.capacity_reservations]
