"""The complete controller in virtual time, with the embedded API server, the simulated AWS and a simulated cluster.

A test is a coroutine that gets an `AppEnvironment`. The checkers of the simulated EC2 run after each of EC2's writes.
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
import kueue_workloads
import pod_groups
import provisioning_requests
from api_lines import Line
from crashing import CrashingTransport
from holdfast import errors
from holdfast.api.cluster import Event
from holdfast.api.kueue import Workload
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.api.scheduling import PodGroup
from holdfast.api.workloads import JobTimes
from holdfast.app import live
from holdfast.app.live import LiveCluster
from holdfast.app.program import Adapters, App
from holdfast.app.settings import Settings
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.kube.client import Client, ClientSettings
from holdfast.runtime.compute import InlineCompute
from holdfast.sim import optional_crds, time
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

_READS: dict[str, Any] = {}
Program = Callable[["AppEnvironment"], Awaitable[None]]


class SlowCompute:
    """A Compute port on which each decision takes `takes_s`. Other tasks run meanwhile."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s
        self._one_at_a_time = asyncio.Lock()

    async def run(self, decide: Callable[[A], R], value: A) -> R:
        async with self._one_at_a_time:
            await asyncio.sleep(self._takes_s)
            return decide(value)


class AppEnvironment(cluster_environment.Environment):
    """A cluster whose nodes the controller launches."""

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
        gangs: bool = False,
        requests: bool = False,
        kueue: bool = False,
    ) -> None:
        """`beside`: an environment with which this one shares the AWS account. `behind_s`: how far the controller's clock
        is behind the clocks of the API server and AWS. `ec2_ahead_s`: how far the clock of AWS is ahead of the API
        server's. `plans_take_s`: the time from a snapshot to its plan. `gangs`: the API server serves PodGroups. `requests`: it serves
        ProvisioningRequests. `kueue`: it serves Workloads of Kueue."""
        self.plans_take_s = plans_take_s
        self.seed = seed
        self.settings = dataclasses.replace(
            settings,
            optional_kinds=(
                JobTimes,
                *((PodGroup,) if gangs else ()),
                *((ProvisioningRequest, PodTemplate) if requests else ()),
                *((Workload,) if kueue else ()),
            ),
        )
        self.clock: VirtualClock = beside.clock if beside else VirtualClock(kube_servers.START)
        self.own_clock = VirtualClock(kube_servers.START - timedelta(seconds=behind_s))
        ahead = timedelta(seconds=ec2_ahead_s)
        self.ec2_clock: VirtualClock = (
            beside.ec2_clock if beside else VirtualClock(kube_servers.START + ahead)
        )
        self.server: ApiServer = ApiServer(clock=self.clock, ids=SeededIds(f"server {seed}"))
        self.transport = InProcess(self.server)
        self.line = Line(self.server, self.clock)  # used by the controller only
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
            pod_groups=gangs,
        )
        self._app_count = 0
        self._standbys: list[App] = []
        self._kill_tasks: list[asyncio.Future[None]] = []
        self._connections: dict[App, CrashingTransport] = {}
        self.crashing: CrashingTransport
        self.app = self.new_app()

    # --- The controller -------------------------------------------------------------------------------

    async def read_live(self) -> LiveCluster:
        """A read-only view of the cluster and the account. Fails if it sends a write."""
        leading = self.crashing
        app = self.new_app(read_only=True)
        connection = self._connections.pop(app)
        self.crashing = leading
        found = await live.read(app)
        assert connection.writes == []
        return found

    def new_app(self, *, read_only: bool = False) -> App:
        """A replica with empty caches and its own connections."""
        self._app_count += 1
        self.crashing = CrashingTransport(InProcess(self.line), self.endpoint)
        adapters = Adapters(
            transport=self.crashing,
            aws=aws_environment.SharedClients(self.endpoint),
            executor=self.crashing,
            clock=self.own_clock,
            ids=SeededIds(f"app {self.seed} {self._app_count}"),
            compute=SlowCompute(self.plans_take_s) if self.plans_take_s else InlineCompute(),
        )
        make = live.read_only_app if read_only else App
        app = make(self.settings, adapters)
        self._connections[app] = self.crashing
        read_few_types(app)
        return app

    async def restart(self, *, after_s: float = 0) -> None:
        """Crashes the leading replica and continues with a standby replica, or with a new one."""
        self.crash()
        if after_s:
            await super().sleep(after_s)
        self.stand_by()
        self.app = self._standbys.pop(0)

    def crash(self) -> None:
        """Stops all requests of the leading replica and cancels its tasks."""
        self._connections[self.app].stop()
        self._kill_tasks.append(asyncio.ensure_future(self.app.kill()))

    def recover(self) -> None:
        """Cancels the planned crashes of all replicas."""
        for crashing in self._connections.values():
            crashing.recover()

    def writes(self) -> list[str]:
        """The writes of all replicas."""
        return [write for crashing in self._connections.values() for write in crashing.writes]

    def stand_by(self) -> None:
        """Starts one more replica."""
        self._standbys.append(self.new_app())
        self._standbys[-1].start()

    def start_beside(self, settings: Settings) -> CrashingTransport:
        """Starts one more program with other settings, and returns its connections."""
        own, self.settings = self.settings, settings
        self.stand_by()
        self.settings = own
        return self.crashing

    async def start(self) -> None:
        await kube_servers.install_crds(self.transport, self.clock)
        if PodGroup in self.settings.optional_kinds:
            await self.create(pod_groups.CRDS, optional_crds.POD_GROUPS)
        if ProvisioningRequest in self.settings.optional_kinds:
            await self.create(provisioning_requests.CRDS, optional_crds.PROVISIONING_REQUESTS)
        if Workload in self.settings.optional_kinds:
            await self.create(kueue_workloads.CRDS, kueue_workloads.DEFINITION)
        await self.cluster.start()
        self.app.start()

    async def stop(self) -> None:
        self._check()
        await asyncio.gather(*self._kill_tasks)
        for app in (self.app, *self._standbys):
            await app.stop()
        await self.cluster.stop()

    def _check(self) -> None:
        """Fails the test on a bug of a replica. A replica that lost its lease exits, and a new one is started."""
        for app in (self.app, *self._standbys):
            try:
                app.check()
            except errors.Unreachable:
                assert self.settings.election is not None, "leader election is disabled"
                self.stand_by()
                if app is self.app:
                    self.app = self._standbys.pop(0)
                else:
                    self._standbys.remove(app)
            except asyncio.CancelledError:
                assert self._connections[app].crashed.is_set(), "the replica was cancelled without a crash"

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._check()

    def skip(self, seconds: float) -> None:
        """Advances all wall clocks alike, without running timers."""
        for clock in (self.clock, self.own_clock, self.ec2_clock):
            clock.jumped_s += seconds
        self.ec2.advance()

    # --- Objects and instances ------------------------------------------------------------------------

    async def node_class(self, name: str = "default", **spec: Any) -> None:
        terms = aws_environment.TERMS
        document = builders.ec2nodeclass_document(
            name, **{"subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms} | spec
        )
        await self.create("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", document)

    async def node_pool(self, name: str = "default", **template: Any) -> None:
        """Without `disruption` the defaults of the API apply: consolidation at once, a budget of 10%."""
        pool_fields = {
            key: template.pop(key) for key in ("limits", "weight", "disruption") if key in template
        }
        document = builders.nodepool_document(name, **template)
        document["spec"] |= pool_fields
        await self.create("/apis/karpenter.sh/v1/nodepools", document)

    async def one_node(self, *kinds: str, **spec: Any) -> tuple[NodeClaim, entities.Instance]:
        """One node with one pod, of one of these capacity types. `spec` is the spec of the class."""
        await self.node_class(**spec)
        await self.node_pool(requirements=[instance_types("m5.large"), capacity_types(*kinds)])
        await self.deploy("web", 1, cpu="1500m")
        await self.until_running(1)
        (claim,), (ec2_instance,) = await self.claims(), self.ec2_instances
        return claim, ec2_instance

    async def forbid_evictions(self, app: str = "web") -> None:
        """Creates a PodDisruptionBudget that allows no eviction."""
        document = {
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
        }
        await self.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", document)

    def reserve(self, instance_type: str = "m5.large", total: int = 2, **fields: Any) -> entities.Reservation:
        defaults = {
            "owner": aws_environment.ACCOUNT,
            "zone_id": aws_environment.ZONE_A,
            "criteria": "targeted",
        }
        return control.add_reservation(
            self.ec2.region, instance_type=instance_type, total=total, **(defaults | fields)
        )

    def cancel(self, reservation: entities.Reservation) -> None:
        parameters = {"CapacityReservationId": reservation.id}
        self.ec2.call("CancelCapacityReservation", parameters, Caller(aws_environment.ACCOUNT, "", ""))

    async def claims(self) -> list[NodeClaim]:
        return list((await self.kube.list(NodeClaim)).items)

    def ever(self, kind: type[K]) -> list[K]:
        """Every stored version of every object of a kind, oldest first."""
        group = kind.api_version.rpartition("/")[0]
        changes = self.server.registry.store.bucket(f"{group}/{kind.plural}").changes(0)
        return [msgspec.json.decode(change.after.body, type=kind) for change in changes]

    def claims_ever(self) -> set[str]:
        """The names of all NodeClaims, including deleted ones."""
        return {claim.metadata.name for claim in self.ever(NodeClaim)}

    async def nodes(self) -> list[Node]:
        return list((await self.kube.list(Node)).items)

    async def events(self, reason: str) -> list[Event]:
        return [event for event in (await self.kube.list(Event)).items if event.reason == reason]

    @property
    def ec2_instances(self) -> list[entities.Instance]:
        """The pending and running instances."""
        self.ec2.advance()
        return [one for one in self.ec2.region.instances if one.state in ("pending", "running")]

    def all_ec2_instances(self) -> list[entities.Instance]:
        """All instances that EC2 still lists, including terminated ones."""
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
    defaults = ec2_setup.plain(
        aws_environment.REGION, accounts=(aws_environment.ACCOUNT, aws_environment.OTHER)
    )
    return Ec2(
        clock=clock,
        ids=SeededIds(f"ec2 {seed}"),
        sink=queues.sink(QUEUE),
        setup=dataclasses.replace(defaults, images=aws_environment.images()),
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


def read_few_types(app: App) -> None:
    """Reads few instance types, and types and prices once for all tests."""
    discovery = app.discovery
    discovery._types._read = functools.partial(read_once, "types", few_types(discovery._types._read))
    for prices in (discovery._on_demand, discovery._spot):
        prices._read = functools.partial(read_once, prices.name, prices._read)


async def read_once(name: str, read: Callable[[], Awaitable[Any]]) -> Any:
    """Caches a read across tests: its result is the same in every environment, and the read takes longer than a test."""
    if name not in _READS:
        _READS[name] = await read()
    return _READS[name]


def few_types(read: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def read_few() -> Any:
        return aws_environment.few(await read())

    return read_few


def without_reserved(settings: Settings) -> Settings:
    """The settings with the feature gate ReservedCapacity off."""
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
    """Runs a program and returns the environment afterwards."""

    async def main() -> AppEnvironment:
        env = AppEnvironment(**fields)
        await env.start()
        await program(env)
        await env.stop()
        return env

    return time.run(main())
