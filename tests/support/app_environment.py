"""The whole program in virtual time: the real app on the embedded API server and the simulated AWS, with the simulated
rest of a cluster around it.

A test is a program that gets an `AppEnvironment`. The checkers of the simulated EC2 run after every write of it.
"""

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

import aws_environment
import builders
import cluster_environment
import kube_servers
from api_lines import Line
from crashing import CrashingTransport
from holdfast import errors
from holdfast.api.cluster import Event
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.app.program import Adapters, App
from holdfast.app.settings import Settings
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.kube.client import Client, ClientSettings
from holdfast.runtime.compute import InlineCompute
from holdfast.sim import time
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.aws import eks, iam, sqs, ssm
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.service import Caller
from holdfast.sim.cluster import Cluster
from holdfast.sim.cluster.kubelet_starter import Joined
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import control, entities, faults
from holdfast.sim.ec2 import setup as ec2_setup
from holdfast.sim.ec2.service import Ec2
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock

K = TypeVar("K", bound=Object)

NAME = ec2_setup.CLUSTER
QUEUE = "interruptions"
FAST = Timings(boot_s=5, ready_s=2, devices_s=1, startup_taints=())
CLIENT = ClientSettings(per_second=1e6, burst=1_000_000)
SETTINGS = Settings(
    cluster_name=NAME,
    cluster_endpoint=aws_environment.CLUSTER_ENDPOINT,
    cluster_ca_bundle=aws_environment.CA_BUNDLE,
    service_cidr="10.96.0.0/16",
    kubernetes_version=aws_environment.KUBERNETES,
    client=CLIENT,
    planning=PlanSettings(packing_candidates=4),
    strict=True,
)

A = TypeVar("A")
R = TypeVar("R")

READ: dict[str, Any] = {}
Program = Callable[["AppEnvironment"], Awaitable[None]]


class SlowCompute:
    """A Compute door behind which each decision takes so long. Others run meanwhile."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s
        self._one_at_a_time = asyncio.Lock()

    async def run(self, decide: Callable[[A], R], value: A) -> R:
        async with self._one_at_a_time:
            await asyncio.sleep(self._takes_s)
            return decide(value)


class AppEnvironment(cluster_environment.Environment):
    """A cluster whose nodes the app launches."""

    def __init__(
        self,
        *,
        seed: int = 1,
        settings: Settings = SETTINGS,
        rules: Sequence[faults.Fault] = (),
        timings: Timings = FAST,
        beside: "AppEnvironment | None" = None,
        behind_s: int = 0,
        ec2_ahead_s: int = 0,
        plans_take_s: float = 0,
    ) -> None:
        """`beside` another environment it is one more cluster in the same AWS account. `behind_s`: what the clock of the
        program's machine is behind everybody else's by. `ec2_ahead_s`: what AWS's clock is ahead of the API server's.
        `plans_take_s`: from the snapshot to the plan."""
        self.plans_take_s = plans_take_s
        self.seed = seed
        self.settings = settings
        self.clock: VirtualClock = beside.clock if beside else VirtualClock(kube_servers.START)
        self.own_clock = VirtualClock(kube_servers.START - timedelta(seconds=behind_s))
        ahead = timedelta(seconds=ec2_ahead_s)
        self.ec2_clock: VirtualClock = (
            beside.ec2_clock if beside else VirtualClock(kube_servers.START + ahead)
        )
        self.server: ApiServer = ApiServer(clock=self.clock, ids=SeededIds(f"server {seed}"))
        self.transport = InProcess(self.server)
        self.line = Line(self.server, self.clock)  # the program's own
        ids = SeededIds(f"cluster {seed}")
        self.kube = Client(transport=self.transport, clock=self.clock, ids=ids, settings=CLIENT)
        self.sqs: sqs.Sqs = (
            beside.sqs if beside else sqs.Sqs([QUEUE], self.ec2_clock, account=aws_environment.ACCOUNT)
        )
        self.ec2: Ec2 = beside.ec2 if beside else _ec2(self.ec2_clock, seed, rules, self.sqs)
        self.endpoint: Endpoint = beside.endpoint if beside else _endpoint(self.ec2_clock, self.ec2, self.sqs)
        self.cluster = Cluster(
            api=self.kube,
            cloud=self.ec2,
            clock=self.clock,
            ids=ids,
            timings=timings,
            joined=Joined(
                name=settings.cluster_name,
                endpoint=aws_environment.CLUSTER_ENDPOINT,
                ca_bundle=aws_environment.CA_BUNDLE,
            ),
        )
        self._lives = 0
        self._others: list[App] = []
        self._dying: list[asyncio.Future[None]] = []
        self._hands: dict[App, CrashingTransport] = {}
        self.app = self.new_app()

    # --- The program ----------------------------------------------------------------------------------

    def new_app(self) -> App:
        """A replica with nothing in its memory, and hands of its own."""
        self._lives += 1
        self.crashing = CrashingTransport(InProcess(self.line), self.endpoint)
        adapters = Adapters(
            transport=self.crashing,
            aws=aws_environment.SharedClients(self.endpoint),
            executor=self.crashing,
            clock=self.own_clock,
            ids=SeededIds(f"app {self.seed} {self._lives}"),
            compute=SlowCompute(self.plans_take_s) if self.plans_take_s else InlineCompute(),
        )
        app = App(self.settings, adapters)
        self._hands[app] = self.crashing
        known = app.discovery
        known._types._read = functools.partial(read_once, "types", few_types(known._types._read))
        for prices in (known._on_demand, known._spot):
            prices._read = functools.partial(read_once, prices.name, prices._read)
        return app

    async def restart(self, *, after_s: float = 0) -> None:
        """The program crashes, and another one takes its place: a replica that stood by, or a new one."""
        self.crash()
        if after_s:
            await super().sleep(after_s)
        self.stand_by()
        self.app = self._others.pop(0)

    def crash(self) -> None:
        """Nothing more comes from the program; what is left of it is cleared away."""
        self._hands[self.app].stop()
        self._dying.append(asyncio.ensure_future(self.app.kill()))

    def recover(self) -> None:
        """Nobody dies any more."""
        for crashing in self._hands.values():
            crashing.recover()

    def writes(self) -> list[str]:
        """What the program did, in all its lives."""
        return [write for crashing in self._hands.values() for write in crashing.writes]

    def stand_by(self) -> None:
        """One more replica."""
        self._others.append(self.new_app())
        self._others[-1].start()

    async def start(self) -> None:
        await kube_servers.install_crds(self.transport, self.clock)
        await self.cluster.start()
        self.app.start()

    async def stop(self) -> None:
        self._check()
        await asyncio.gather(*self._dying)
        for app in (self.app, *self._others):
            await app.stop()
        await self.cluster.stop()

    def _check(self) -> None:
        """A bug in the program ends the test. A replica that lost the lead ends by itself, and is started anew."""
        for app in (self.app, *self._others):
            try:
                app.check()
            except errors.Unreachable:
                assert self.settings.election is not None, "it has no lead to lose"
                self.stand_by()
                if app is self.app:
                    self.app = self._others.pop(0)
                else:
                    self._others.remove(app)
            except asyncio.CancelledError:
                assert self._hands[app].crashed.is_set(), "somebody else ended it"

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._check()

    def skip(self, seconds: float) -> None:
        """Days in which nothing happens: clocks on walls go on, everybody's alike."""
        for clock in (self.clock, self.own_clock, self.ec2_clock):
            clock.jumped_s += seconds
        self.ec2.advance()

    # --- What there is --------------------------------------------------------------------------------

    async def node_class(self, name: str = "default", **spec: Any) -> None:
        terms = aws_environment.TERMS
        document = builders.ec2nodeclass_document(
            name, **{"subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms} | spec
        )
        await self.create("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", document)

    async def node_pool(self, name: str = "default", **template: Any) -> None:
        """Disrupted as the API's defaults say, unless `disruption` says otherwise: consolidated at once, a tenth at a time."""
        outside = {key: template.pop(key) for key in ("limits", "weight", "disruption") if key in template}
        document = builders.nodepool_document(name, **template)
        document["spec"] |= outside
        await self.create("/apis/karpenter.sh/v1/nodepools", document)

    async def one_node(self, *kinds: str, **spec: Any) -> tuple[NodeClaim, entities.Instance]:
        """A pod, and the node that it is alone on, of one of these capacity types. `spec` is of the class."""
        await self.node_class(**spec)
        await self.node_pool(requirements=[instance_types("m5.large"), capacity_types(*kinds)])
        await self.deploy("web", 1, cpu="1500m")
        await self.until_running(1)
        (claim,), (ec2_instance,) = await self.claims(), self.ec2_instances
        return claim, ec2_instance

    async def forbid_evictions(self, app: str = "web") -> None:
        """By a disruption budget that never allows one."""
        document = {
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
        }
        await self.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", document)

    def reserve(self, instance_type: str = "m5.large", total: int = 2, **fields: Any) -> entities.Reservation:
        plain = {"owner": aws_environment.ACCOUNT, "zone_id": aws_environment.ZONE_A, "criteria": "targeted"}
        return control.add_reservation(
            self.ec2.region, instance_type=instance_type, total=total, **(plain | fields)
        )

    def cancel(self, reservation: entities.Reservation) -> None:
        called = {"CapacityReservationId": reservation.id}
        self.ec2.call("CancelCapacityReservation", called, Caller(aws_environment.ACCOUNT, "", ""))

    async def claims(self) -> list[NodeClaim]:
        return list((await self.kube.list(NodeClaim)).items)

    def ever(self, kind: type[K]) -> list[K]:
        """Every state that objects of a kind were ever in, oldest first."""
        group = kind.api_version.rpartition("/")[0]
        changes = self.server.registry.store.bucket(f"{group}/{kind.plural}").changes(0)
        return [msgspec.json.decode(change.after.body, type=kind) for change in changes]

    def claims_ever(self) -> set[str]:
        """The names of all that there ever were."""
        return {claim.metadata.name for claim in self.ever(NodeClaim)}

    async def nodes(self) -> list[Node]:
        return list((await self.kube.list(Node)).items)

    async def events(self, reason: str) -> list[Event]:
        return [event for event in (await self.kube.list(Event)).items if event.reason == reason]

    @property
    def ec2_instances(self) -> list[entities.Instance]:
        """Those that run, or will."""
        self.ec2.advance()
        return [one for one in self.ec2.region.instances if one.state in ("pending", "running")]

    def all_ec2_instances(self) -> list[entities.Instance]:
        """Those that ever were, for a while."""
        self.ec2.advance()
        return list(self.ec2.region.instances)

    def in_reservation(self, reservation: entities.Reservation) -> int:
        return sum(one.reservation_id == reservation.id for one in self.ec2_instances)

    def free(self, reservation: entities.Reservation) -> int:
        self.ec2.advance()
        return self.ec2.region.reservations[reservation.id].available

    def asked(self, operation: str) -> int:
        return sum(call.operation == operation for call in self.endpoint.log)


def _ec2(clock: VirtualClock, seed: int, rules: Sequence[faults.Fault], queues: sqs.Sqs) -> Ec2:
    plain = ec2_setup.plain(aws_environment.REGION, accounts=(aws_environment.ACCOUNT, aws_environment.OTHER))
    return Ec2(
        clock=clock,
        ids=SeededIds(f"ec2 {seed}"),
        sink=queues.sink(QUEUE),
        setup=dataclasses.replace(plain, images=aws_environment.images()),
        rules=rules,
        throttled=False,
    )


def _endpoint(clock: VirtualClock, ec2: Ec2, queues: sqs.Sqs) -> Endpoint:
    parameters = {
        path.path: f"ami-{n:017x}"
        for n, path in enumerate(ssm.ami_paths(aws_environment.KUBERNETES), start=1)
    }
    return Endpoint(
        {
            "ec2": ec2,
            "eks": eks.Eks([aws_environment.eks_cluster(NAME)]),
            "iam": iam.Iam([aws_environment.ROLE, "OtherRole"], clock),
            "pricing": aws_environment.price_list(),
            "sqs": queues,
            "ssm": ssm.Ssm(parameters, clock),
        },
        clock,
        accounts={"AKIATEST": aws_environment.ACCOUNT},
    )


async def read_once(name: str, read: Callable[[], Awaitable[Any]]) -> Any:
    """What is the same in every environment, and takes longer to read than a test runs."""
    if name not in READ:
        READ[name] = await read()
    return READ[name]


def few_types(read: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def few() -> Any:
        return aws_environment.few(await read())

    return few


def without_reserved(settings: Settings) -> Settings:
    """With the gate ReservedCapacity shut."""
    return dataclasses.replace(
        settings,
        planning=dataclasses.replace(settings.planning, reserved_capacity=False),
        capacity=dataclasses.replace(settings.capacity, reserved_capacity=False),
    )


def capacity_types(*values: str) -> dict[str, Any]:
    return builders.requirement("karpenter.sh/capacity-type", "In", *values)


def instance_types(*values: str) -> dict[str, Any]:
    return builders.requirement("node.kubernetes.io/instance-type", "In", *values)


def run(program: Program, **fields: Any) -> AppEnvironment:
    """The environment after the program has ended without an error."""

    async def main() -> AppEnvironment:
        env = AppEnvironment(**fields)
        await env.start()
        await program(env)
        await env.stop()
        return env

    return time.run(main())
