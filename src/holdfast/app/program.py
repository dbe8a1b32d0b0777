"""Composition root: builds the controllers from the settings and the adapters, and runs them.

`production`, `demo` and the tests pass different adapters; only this module connects them to the ports. The order is
fixed: metrics and the event recorder, then the ports, then the state derived from the caches, then the controllers.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, Protocol

from holdfast import errors, fence
from holdfast.api.meta import Object
from holdfast.api.nodes import Node
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.api.storage import VolumeAttachment
from holdfast.app import declared_metrics
from holdfast.app.settings import Settings
from holdfast.cloud.aws.catalog import labels as aws_labels
from holdfast.cloud.aws.client.calls import Calls, Clients, Executor
from holdfast.cloud.aws.client.ec2_clock import Ec2Clock
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.cloud.aws.doctor.read_only_profiles import ReadOnlyProfiles
from holdfast.cloud.aws.instances.queue import Queue
from holdfast.cloud.aws.launch.templates import LaunchContext
from holdfast.cloud.aws.nodeclass.identity import Given, Identity
from holdfast.cloud.aws.provider import Aws
from holdfast.controllers.disruption import queue as disruption_queue
from holdfast.controllers.disruption.loop import Disruption
from holdfast.controllers.instance_status import InstanceStatuses
from holdfast.controllers.interruption import Interruption
from holdfast.controllers.metrics.exporters import Exporters
from holdfast.controllers.node import termination as node_termination
from holdfast.controllers.nodeclaim import disruption as claim_disruption
from holdfast.controllers.nodeclaim import termination as claim_termination
from holdfast.controllers.nodeclaim.class_versions import ClassVersions
from holdfast.controllers.nodeclaim.drift_checks import DriftChecks
from holdfast.controllers.nodeclaim.forming import Forming
from holdfast.controllers.nodeclaim.gang_launches import GangLaunches
from holdfast.controllers.nodeclaim.garbage import Garbage
from holdfast.controllers.nodeclaim.initialization import Consistency, Initialization
from holdfast.controllers.nodeclaim.launch import Launch
from holdfast.controllers.nodeclaim.launch_batch import LaunchBatcher
from holdfast.controllers.nodeclaim.lifecycle import Lifecycle
from holdfast.controllers.nodeclaim.liveness import Expiration, Liveness, MissingNode
from holdfast.controllers.nodeclaim.pod_events import PodEvents
from holdfast.controllers.nodeclaim.reboot import Reboot
from holdfast.controllers.nodeclaim.registration import Registration, Tagging
from holdfast.controllers.nodeclass import garbage as nodeclass_garbage
from holdfast.controllers.nodeclass import hash as nodeclass_hash
from holdfast.controllers.nodeclass import status as nodeclass_status
from holdfast.controllers.nodepool import counter
from holdfast.controllers.nodepool import hash as nodepool_hash
from holdfast.controllers.nodepool import status as nodepool_status
from holdfast.controllers.provisioning.provisioner import Provisioner
from holdfast.controllers.provisioning.requests import Requests
from holdfast.controllers.provisioning.slots import Slots
from holdfast.controllers.reservations.availability import Availability
from holdfast.controllers.reservations.capacity_type import CapacityType
from holdfast.controllers.reservations.expiration import Expiration as ReservationExpiration
from holdfast.controllers.reservations.slot_status import SlotStatus
from holdfast.controllers.slot_holds import SlotHolds
from holdfast.core.disruption.inputs import Settings as DisruptionSettings
from holdfast.core.scheduling.input.request import MinValuesPolicy, Packing
from holdfast.fence import MayWrite
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.server_time import ServerTime
from holdfast.kube.transport import Transport
from holdfast.ports import Clock, Compute, Ids, Ports
from holdfast.runtime import indexes, unreadable
from holdfast.runtime.cache import Caches
from holdfast.runtime.clock import ProgramClock
from holdfast.runtime.controller import Controller
from holdfast.runtime.lease import Election
from holdfast.runtime.manager import Manager
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.outages import Outage
from holdfast.runtime.recorder import KubeRecorder
from holdfast.runtime.results import Reconciler
from holdfast.runtime.supervision import Supervisor, Unexpected, until_first_ends
from holdfast.runtime.writes import Writer
from holdfast.state.cluster import cluster_state, watched_pod_context
from holdfast.state.cluster.cluster_state import ClusterState

_CLAIM_CONCURRENCY: Final = 1000
_NODE_CONCURRENCY: Final = 100
_COMMAND_CONCURRENCY: Final = 100
_NOTICE_CONCURRENCY: Final = 10


# --- The program --------------------------------------------------------------------------------------


class WatchingReconciler(Reconciler, Protocol):
    """A reconciler that registers its own watches."""

    def watch(self, controller: Controller) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """The implementations behind the ports: API server, AWS, clock, random ids, and where the planner runs."""

    transport: Transport
    aws: Clients
    executor: Executor
    clock: Clock
    ids: Ids
    compute: Compute


def cluster_identity(settings: Settings) -> Given:
    """The settings that identify the cluster; what is missing is read from EKS."""
    return Given(
        name=settings.cluster_name,
        endpoint=settings.cluster_endpoint,
        ca_bundle=settings.cluster_ca_bundle,
        connection_ca_bundle=settings.api_server_ca_bundle,
        service_cidr=settings.service_cidr,
        dns_ip=settings.dns_ip,
        ownership=settings.ownership,
    )


def watched_kinds(settings: Settings) -> tuple[type[Object], ...]:
    """The kinds whose objects the controllers read."""
    has_spreads = bool(settings.scheduler.pod_topology_spread.default_constraints)
    makers = watched_pod_context.MAKERS if has_spreads else ()
    return (
        *cluster_state.KINDS,
        *makers,
        *settings.optional_kinds,
        VolumeAttachment,
        settings.ownership.kind,
    )


class App:
    """One replica. `start` returns at once; `stop` returns when all tasks have ended.

    With `read_only`, no write is sent to the API server or to AWS. Then call `read_once` or `follow` instead of `start`.
    """

    def __init__(
        self,
        settings: Settings,
        adapters: Adapters,
        *,
        after_sync: Callable[[], None] = lambda: None,
        read_only: bool = False,
    ) -> None:
        self.settings = settings
        self._read_only = read_only
        self.kubernetes_version = settings.kubernetes_version  # changes when the cluster is upgraded
        self._after_sync = after_sync
        self.metrics = Metrics(declared_metrics.METRICS, strict=settings.strict)
        self._clock = clock = ProgramClock(adapters.clock)
        ids = adapters.ids
        self._ec2_clock = Ec2Clock(clock)
        outage = Outage("Kubernetes API server", clock)
        self._server_time = ServerTime(_unfenced(adapters, clock, outage), clock)
        self._election = _election(settings, adapters, outage)
        self.leads = leads = fence.never if read_only else _may_write(self._election)
        self._client = client = Client(
            transport=adapters.transport,
            clock=clock,
            ids=ids,
            settings=settings.client,
            may_write=leads,
            outage=outage,
        )
        self.recorder = KubeRecorder(kube=client, metrics=self.metrics, clock=clock, ids=ids)
        self.caches = Caches(watched_kinds(settings), clock=clock)
        unreadable.report(self.caches, self.recorder)
        self.discovery, self.cloud = self._cloud(adapters, leads)
        self.ports = Ports(
            kube=Writer(client, self.caches),
            cloud=self.cloud,
            compute=adapters.compute,
            clock=clock,
            ids=ids,
            recorder=self.recorder,
        )
        self.cluster_state = ClusterState(
            caches=self.caches,
            cloud=self.cloud,
            clock=clock,
            key_aliases=aws_labels.KEY_ALIASES,
            ledger_lag_s=settings.planning.ledger_lag_s,
            spreads=settings.scheduler.pod_topology_spread.default_constraints,
            provisioning_requests=settings.provisioning_requests,
            gangs_of=settings.planning.gangs_of,
        )
        unexpected = Unexpected(clock=clock, recorder=self.recorder)
        self.supervisor = Supervisor(unexpected, clock=clock, ids=ids, strict=settings.strict)
        self._interruption = Interruption(
            cluster_state=self.cluster_state, caches=self.caches, ports=self.ports, leads=leads
        )
        self._planning = self._provisioner()
        self.controllers = [self._controller(one, concurrency) for one, concurrency in self._reconcilers()]
        self.manager = Manager(
            kube=client,
            caches=self.caches,
            controllers=self.controllers,
            recorder=self.recorder,
            election=self._election,
            clock=clock,
            ids=ids,
            supervisor=self.supervisor,
        )
        self._exporters = self._make_exporters()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        assert self._task is None, "already started"
        self._task = asyncio.create_task(self.run())

    async def stop(self) -> None:
        """Stops the controllers, then releases the Lease. Raises the error of a run that had ended before."""
        assert self._task is not None, "never started"
        self.request_stop()
        await self._task

    def request_stop(self) -> None:
        """Makes `run` stop the controllers and return."""
        self._stop.set()

    async def kill(self) -> None:
        """Ends like a crash: running reconciles are cancelled and the Lease is not released."""
        assert self._task is not None, "never started"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def check(self) -> None:
        """Raises the error that ended the run, if there is one."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def run(self) -> None:
        """Runs until `request_stop`. Reads the API server's clock first: controllers compare ages of objects with it."""
        await self._server_time.read()
        tasks = [
            self.supervisor.start("server time", self._server_time.run),
            self.supervisor.start("discovery", self.discovery.schedule.run),
            asyncio.create_task(self.manager.run(self._stop, after_sync=self._after_sync)),
        ]
        if self.settings.interruption_queue:
            tasks.append(self.supervisor.start("interruption", self._interruption.listen))
        await until_first_ends(tasks)

    async def read_once(self) -> Mapping[str, errors.HoldfastError]:
        """Fills the caches by lists and reads AWS once, without controllers. Returns what could not be read from AWS,
        by source; raises what prevents a list. The API server's clock is not read: that is a write that is not stored."""
        for cache in self.caches:
            await cache.replace(self._client.pages(cache.kind))
        return await self.discovery.read_once()

    async def follow(self) -> None:
        """Keeps the caches and the readings of AWS current, without controllers. Until cancelled."""
        schedule = self.supervisor.start("discovery", self.discovery.schedule.run)
        await until_first_ends([schedule, asyncio.create_task(self.manager.follow())])

    def _cloud(self, adapters: Adapters, leads: MayWrite) -> tuple[Discovery, Aws]:
        settings, recorder = self.settings, self.recorder
        clock, ids = self._clock, adapters.ids
        calls = Calls(
            adapters.aws,
            executor=adapters.executor,
            clock=clock,
            ids=ids,
            recorder=recorder,
            ec2_clock=self._ec2_clock,
            may_write=leads,
        )
        identity = Identity(calls, cluster_identity(settings), clock)
        cluster = identity.cluster
        profiles = ReadOnlyProfiles(calls, clock, cluster, isolated_vpc=settings.isolated_vpc)
        setup = Setup(
            cluster=cluster,
            kubernetes=lambda: self.kubernetes_version,
            settings=settings.capacity,
            isolated_vpc=settings.isolated_vpc,
            offering_metrics=settings.offering_metrics,
            identity=identity,
            profiles=profiles if self._read_only else None,
        )
        discovery = Discovery(calls, setup, caches=self.caches, clock=clock, recorder=recorder)
        context = LaunchContext(
            cluster=cluster,
            identity=identity,
            region=adapters.aws.region,
            reserved_capacity=settings.planning.reserved_capacity,
            min_values_best_effort=settings.planning.min_values_policy is MinValuesPolicy.BEST_EFFORT,
            dry_runs=settings.dry_runs,
        )
        name = settings.interruption_queue
        queue = Queue(calls, name, recorder=recorder) if name else None
        aws = Aws(calls, discovery, context, clock=clock, ids=ids, recorder=recorder, queue=queue)
        return discovery, aws

    async def refresh_metrics(self) -> None:
        """Sets everything that is computed for a scrape."""
        self.refresh_gauges()
        self.manager.measure()
        self._planning.measure()
        await self._exporters.export()

    def _make_exporters(self) -> Exporters:
        return Exporters(
            cluster_state=self.cluster_state,
            caches=self.caches,
            ports=self.ports,
            class_kind=self.settings.ownership.kind,
            classes=declared_metrics.CLASSES,
            leads=lambda: self.manager.is_controlling,
            undecided=lambda: self._planning.first_seen_s,
            per_object=self.settings.metrics_per_object,
        )

    def refresh_gauges(self) -> None:
        """Sets the gauges of the process."""
        none = dict.fromkeys(("goversion", "goarch", "commit"), "")
        self.recorder.gauge(declared_metrics.BUILD, none | {"version": metadata.version("holdfast")}, 1)
        self.recorder.gauge(declared_metrics.SYNCED, {}, float(not self.manager.unready()))
        self.recorder.gauge(declared_metrics.UNSYNCED, {}, self.manager.unsynced_s)
        self.recorder.gauge(declared_metrics.NODES, {}, len(self.caches.of(Node)))
        clock, ec2_clock = self._clock, self._ec2_clock
        for server, used_s, reported_s in (
            ("kubernetes", clock.offset_s, clock.api_server.reported_s),
            ("ec2", ec2_clock.offset_s, ec2_clock.reported_s),
        ):
            self.recorder.gauge(declared_metrics.CLOCK, {"server": server}, used_s)
            self.recorder.gauge(declared_metrics.CLOCK_REPORTED, {"server": server}, reported_s)

    def _controller(self, reconciler: WatchingReconciler, concurrency: int) -> Controller:
        controller = Controller(
            reconciler,
            clock=self.ports.clock,
            ids=self.ports.ids,
            recorder=self.recorder,
            concurrency=concurrency,
            strict=self.settings.strict,
        )
        reconciler.watch(controller)
        return controller

    def _reconcilers(self) -> list[tuple[WatchingReconciler, int]]:
        """Every reconciler with its concurrency."""
        ports, caches, planning, holds = self.ports, self.caches, self._planning, self._holds
        base: dict[str, Any] = {"kube": ports.kube, "cloud": ports.cloud, "caches": caches}
        reporting = base | {"clock": ports.clock, "recorder": ports.recorder}
        return [
            (planning, 1),
            *self._requests(),
            (self._slots(), 1),
            *self._lifecycle(planning),
            (Garbage(caches=caches, nodes=caches.of(Node).index(indexes.by_provider_id), ports=ports), 1),
            (PodEvents(caches=caches, ports=ports), _NODE_CONCURRENCY),
            (node_termination.NodeTermination(caches=caches, ports=ports, holds=holds), _NODE_CONCURRENCY),
            (nodeclass_status.Status(**reporting), 10),
            (nodeclass_hash.Hash(**base), 10),
            (nodeclass_garbage.Garbage(cloud=ports.cloud, caches=caches), 1),
            (nodepool_status.Status(**reporting), 10),
            (nodepool_hash.Hash(**base), 10),
            (counter.Counter(**reporting), 10),
            (Availability(**reporting), 10),
            (SlotStatus(cluster_state=self.cluster_state, caches=caches, ports=ports), 1),
            (self._interruption, _NOTICE_CONCURRENCY),
            (InstanceStatuses(cluster_state=self.cluster_state, caches=caches, ports=ports), 1),
            (CapacityType(cluster_state=self.cluster_state, caches=caches, ports=ports), 1),
            (ReservationExpiration(cluster_state=self.cluster_state, caches=caches, ports=ports), 1),
            *self._disruption(),
        ]

    def _requests(self) -> list[tuple[WatchingReconciler, int]]:
        if ProvisioningRequest not in self.settings.optional_kinds:
            return []
        requests = Requests(cluster_state=self.cluster_state, caches=self.caches, ports=self.ports)
        return [(requests, 1)]

    def _slots(self) -> Slots:
        return Slots(
            cluster_state=self.cluster_state,
            caches=self.caches,
            cloud=self.cloud,
            clock=self.ports.clock,
            trigger=self._planning.trigger,
        )

    def _provisioner(self) -> Provisioner:
        self._holds = SlotHolds(
            cluster_state=self.cluster_state,
            caches=self.caches,
            ports=self.ports,
            settings=self._disruption_settings(),
        )
        return Provisioner(
            cluster_state=self.cluster_state,
            caches=self.caches,
            ports=self.ports,
            settings=self.settings.planning,
            batching=self.settings.batching,
            holds=self._holds,
        )

    def _disruption(self) -> list[tuple[WatchingReconciler, int]]:
        ports, caches, cluster_state = self.ports, self.caches, self.cluster_state
        queue = disruption_queue.Queue(cluster_state=cluster_state, caches=caches, ports=ports)
        settings = self._disruption_settings()
        return [
            (queue, _COMMAND_CONCURRENCY),
            (Reboot(caches=caches, ports=ports), _NODE_CONCURRENCY),
            (
                Disruption(
                    cluster_state=cluster_state, caches=caches, ports=ports, queue=queue, settings=settings
                ),
                1,
            ),
        ]

    def _disruption_settings(self) -> DisruptionSettings:
        solving = dataclasses.replace(self.settings.planning, packing=Packing.KARPENTER)
        return dataclasses.replace(self.settings.disruption, solving=solving)

    def _lifecycle(self, planning: Provisioner) -> list[tuple[WatchingReconciler, int]]:
        ports, caches = self.ports, self.caches
        nodes = caches.of(Node).index(indexes.by_provider_id)
        launching = LaunchBatcher(ports=ports, caches=caches)
        class_versions = ClassVersions()
        drift_checks = DriftChecks(
            cluster_state=self.cluster_state, caches=caches, ports=ports, class_versions=class_versions
        )
        gangs = GangLaunches(cluster_state=self.cluster_state, caches=caches, launching=launching)
        lifecycle = Lifecycle(
            cluster_state=self.cluster_state,
            caches=caches,
            ports=ports,
            sub_reconcilers=(
                Launch(cluster_state=self.cluster_state, launching=launching, gangs=gangs, ports=ports),
                Registration(nodes=nodes, ports=ports),
                Forming(cluster_state=self.cluster_state, launching=gangs, nodes=nodes, ports=ports),
                Initialization(nodes=nodes, ports=ports),
                Consistency(nodes=nodes, ports=ports),
                Tagging(cluster_state=self.cluster_state, nodes=nodes, ports=ports),
                Liveness(ports.clock),
                MissingNode(nodes=nodes, ports=ports),
                Expiration(),
                claim_disruption.Disruption(
                    cluster_state=self.cluster_state, caches=caches, drift_checks=drift_checks
                ),
            ),
            termination=claim_termination.Termination(nodes=nodes, ports=ports),
            class_versions=class_versions,
            trigger=planning.trigger,
        )
        gangs.watch(lifecycle.add)
        drift_checks.reconcile_with(lifecycle.run_again)
        return [(lifecycle, _CLAIM_CONCURRENCY), (drift_checks, 1)]


def _may_write(election: Election | None) -> MayWrite:
    return fence.always if election is None else election.leads


def _unfenced(adapters: Adapters, clock: Clock, outage: Outage) -> Client:
    """Replicas without the Lease read the API server's clock too, which is a write that is not stored."""
    return Client(
        transport=adapters.transport,
        clock=clock,
        ids=adapters.ids,
        settings=ClientSettings(attempts=1),
        outage=outage,
    )


def _election(settings: Settings, adapters: Adapters, outage: Outage) -> Election | None:
    """Gives the election its own client: a Lease renewal must not wait behind a thousand evictions."""
    if settings.election is None:
        return None
    client = Client(
        transport=adapters.transport,
        clock=adapters.clock,
        ids=adapters.ids,
        settings=ClientSettings(attempts=1),
        outage=outage,
    )
    return Election(
        kube=client,
        clock=adapters.clock,
        ids=adapters.ids,
        settings=settings.election,
        identity="_".join(filter(None, (settings.replica, adapters.ids.token()))),
    )
