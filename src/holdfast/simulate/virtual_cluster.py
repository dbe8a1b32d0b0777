"""Holdfast's program, a simulated cluster and a simulated AWS in virtual time: one process, no sockets, no threads.

Run it on the event loop of `sim.time`. The same setup and seed give the same run.
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from holdfast.api import crds
from holdfast.api.workloads import JobTimes
from holdfast.app import sandbox
from holdfast.app.program import Adapters, App
from holdfast.app.sandbox_program import SERVICE_CIDR
from holdfast.app.settings import Settings
from holdfast.cloud.aws.client.calls import Clients
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.transport import Answer, Transport
from holdfast.ports import Clock
from holdfast.runtime.compute import InlineCompute
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.fronts import before_call
from holdfast.sim.aws.waiting import Timed
from holdfast.sim.cloud import Cloud
from holdfast.sim.cloud_setup import CloudSetup, access_key
from holdfast.sim.cluster import Cluster
from holdfast.sim.cluster.kubelet_starter import Joined
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock

_UNLIMITED: Final = ClientSettings(per_second=1e6, burst=1_000_000)
# A simulation of weeks must not need more memory than one of a day. A change takes about 4 KB.
_CHANGES_KEPT: Final = 2_000  # of each resource, for watches, which are all in this process
_HISTORY_S: Final = 300.0  # as long as etcd keeps changes
_CALLS_KEPT: Final = 1_000  # nothing reads them but a debugger
_EVICTION: Final = "/eviction"


@dataclass(slots=True)
class Counts:
    """The requests of the program to the API server."""

    by_method: Counter[str] = field(default_factory=Counter)
    evictions: int = 0  # that were accepted


class Counting:
    """A transport that counts requests."""

    def __init__(self, transport: Transport, counts: Counts) -> None:
        self._transport = transport
        self._counts = counts

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        self._counts.by_method[method] += 1
        answer = await self._transport.request(method, path, query, headers, body)
        if path.endswith(_EVICTION) and answer.status == HTTPStatus.CREATED:
            self._counts.evictions += 1
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualCluster:
    clock: Clock  # `VirtualClock`; a comparison with real time has another one (tests/support/real_time_study.py)
    cloud: Cloud
    cluster: Cluster
    transport: Transport  # to the API server, as its administrator
    kube: Client  # the same
    counts: Counts
    app: App

    def check(self) -> None:
        """Raises an error of the program or of the simulation."""
        self.cluster.check()
        self.app.check()
        if self.cloud.endpoint.broken is not None:
            raise self.cloud.endpoint.broken

    async def create(self, document: Mapping[str, Any]) -> None:
        await sandbox.create(document, self.transport)


@contextlib.asynccontextmanager
async def running(
    setup: CloudSetup, timings: Timings, planning: PlanSettings, *, begins_s: int, seed: int
) -> AsyncIterator[VirtualCluster]:
    """The cluster with the CRDs and without any other object. The program starts with `start`."""
    clock = VirtualClock(datetime.fromtimestamp(begins_s, UTC))
    server_ids = SeededIds(f"server {seed}")
    server = ApiServer(clock=clock, ids=server_ids, window=_CHANGES_KEPT, history_s=_HISTORY_S)
    transport, counts = InProcess(server), Counts()
    ids = SeededIds(f"cluster {seed}")
    kube = Client(transport=transport, clock=clock, ids=ids, settings=_UNLIMITED)
    await sandbox.install(crds.all_crds(), transport, clock)
    cloud = Cloud(setup, clock=clock, ids=SeededIds(f"aws {seed}"), log_max=_CALLS_KEPT)
    joined = Joined(name=setup.cluster, endpoint=setup.kube_endpoint, ca_bundle=setup.certificate_authority)
    cluster = Cluster(api=kube, cloud=cloud.ec2, clock=clock, ids=ids, timings=timings, joined=joined)
    clients = Clients(setup.region, lambda: _session(cloud.endpoint, access_key(setup.account)))
    adapters = Adapters(
        transport=Counting(InProcess(server), counts),
        aws=clients,
        executor=Timed(cloud.endpoint),
        clock=clock,
        ids=SeededIds(f"program {seed}"),
        compute=InlineCompute(),
    )
    app = App(_settings(setup, planning), adapters)
    async with cloud.running():
        await cluster.start()
        app.start()
        try:
            yield VirtualCluster(
                clock=clock,
                cloud=cloud,
                cluster=cluster,
                transport=transport,
                kube=kube,
                counts=counts,
                app=app,
            )
        finally:
            await asyncio.gather(app.kill(), cluster.stop())
            clients.close()


def _settings(setup: CloudSetup, planning: PlanSettings) -> Settings:
    return Settings(
        cluster_name=setup.cluster,
        cluster_endpoint=setup.kube_endpoint,
        cluster_ca_bundle=setup.certificate_authority,
        service_cidr=SERVICE_CIDR,
        kubernetes_version=setup.kubernetes,
        interruption_queue=setup.cluster,
        optional_kinds=(JobTimes,),
        planning=planning,
        strict=True,
    )


def _session(endpoint: Endpoint, key: str) -> Any:
    """A session of botocore whose calls reach the simulated AWS. It reads no configuration of the user."""
    import botocore.session  # noqa: PLC0415 - slow to import

    unset = {
        name: (None, None, default, None)
        for name, default in (
            ("profile", None),
            ("config_file", os.devnull),
            ("credentials_file", os.devnull),
        )
    }
    session: Any = botocore.session.Session(session_vars=unset)
    session.set_credentials(key, "any")
    before_call.install(session.get_component("event_emitter"), endpoint)
    return session
