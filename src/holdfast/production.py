"""The program in production: a real cluster and a real cloud behind the doors, real time, ports for probes and metrics.

Callers: `holdfast run`. The order of a start: the settings and the connection are checked, the cluster says its version,
Karpenter is looked for, EC2 accepts the credentials; only then is there a program. It ends when it is told to, in
order, with its Lease given back; or with an error, and is started anew by whoever started it.
"""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import structlog

from holdfast import errors
from holdfast.api.cluster import Lease, Service
from holdfast.app import App, World
from holdfast.cloud.aws import credentials, identity
from holdfast.cloud.aws import metrics as aws_metrics
from holdfast.cloud.aws.calls import Calls, Clients, Threads
from holdfast.kube import incluster, kubeconfig
from holdfast.kube.client import Client
from holdfast.kube.connection import Connection
from holdfast.kube.http import HttpTransport
from holdfast.kube.server_time import ServerTime
from holdfast.ports import Clock
from holdfast.runtime import health, process
from holdfast.runtime.clock import ProgramClock, RealClock
from holdfast.runtime.compute import ThreadCompute
from holdfast.runtime.ids import RealIds
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.recorder import LiveRecorder
from holdfast.settings import Program, Settings
from holdfast.state import times

KARPENTER_LEASE: Final = "karpenter-leader-election"

_NAMESPACE: Final = "kube-system"  # of the Lease, outside of a pod; and of the cluster's DNS
_DNS: Final = "kube-dns"
_LEASE_S: Final = 15  # where a Lease does not say how long it lasts
_VERSION_EVERY_S: Final = 900


class KarpenterLeadsError(errors.Terminal):
    """Two autoscalers would launch nodes for the same pods, and end each other's."""


async def run(program: Program, *, environ: Mapping[str, str], stop: asyncio.Event) -> None:
    """Until `stop` is set; what it raises before that is why it ended."""
    clock, log = RealClock(), structlog.get_logger()
    connection = _connection(program, environ, clock)
    async with _world(program, connection, clock) as world:
        kube = Client(transport=world.transport, clock=clock, ids=world.ids, settings=program.app.client)
        version = await kube.version()
        if not program.beside_karpenter:
            await _refuse_beside_karpenter(kube, await _server_clock(kube, clock))
        await credentials.check(_calls(world, kube))
        settings = await _completed(program.app, kube, connection, version)
        app = App(settings, world, after_sync=process.freeze)
        app.metrics.add_process()
        async with _served(program, app) as ports:
            log.info(
                "started", cluster=settings.cluster_name, kubernetes=version, region=world.aws.region, **ports
            )
            for name in program.not_acted_on:
                log.warning("a setting that nothing acts on", setting=name)
            await _until_told(app, kube, clock, stop)
            log.info("stopped")


# --- The doors ----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _world(program: Program, connection: Connection, clock: Clock) -> AsyncIterator[World]:
    transport, threads, compute = HttpTransport(connection), Threads(), ThreadCompute()
    try:
        clients = await threads.run(functools.partial(_clients, program.region))
        try:
            yield World(
                transport=transport,
                aws=clients,
                executor=threads,
                clock=clock,
                ids=RealIds(),
                compute=compute,
            )
        finally:
            clients.close()
    finally:
        compute.close()
        threads.close()
        await transport.aclose()


def _connection(program: Program, environ: Mapping[str, str], clock: Clock) -> Connection:
    """A kubeconfig that was named, else the pod's own service account, else the one kubectl would take."""
    if not program.kubeconfig and not program.context and incluster.is_inside(environ):
        return incluster.load(environ=environ, clock=clock)
    files = kubeconfig.files(environ, program.kubeconfig)
    found = kubeconfig.load(files, environ=environ, clock=clock, context=program.context)
    return dataclasses.replace(found, namespace=_NAMESPACE)


def _clients(region: str) -> Clients:
    """Blocks: it may ask the instance it runs on. The first client reads everything that AWS's variables and files
    say, so what is wrong there stops the start."""
    import botocore.exceptions  # noqa: PLC0415 - slow to import

    try:
        clients = Clients(region or _region())
        clients.get("ec2")
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise errors.InvalidInput(f"the AWS configuration cannot be used: {error}") from error
    return clients


def _region() -> str:
    import botocore.session  # noqa: PLC0415 - slow to import
    import botocore.utils  # noqa: PLC0415 - slow to import

    session: Any = botocore.session.Session()
    found = session.get_config_variable("region") or botocore.utils.IMDSRegionProvider(session).provide()
    if not found:
        raise errors.InvalidInput("--aws-region: none was found; name one, or set AWS_REGION")
    return str(found)


# --- What the cluster says ----------------------------------------------------------------------------


async def _server_clock(kube: Client, clock: Clock) -> Clock:
    """The API server's time, if it can be read: with a wrong clock of ours a Lease would look expired."""
    program_clock = ProgramClock(clock)
    await ServerTime(kube, program_clock).read()
    return program_clock


async def _refuse_beside_karpenter(kube: Client, clock: Clock) -> None:
    for lease in (await kube.list(Lease, field_selector=f"metadata.name={KARPENTER_LEASE}")).items:
        spec = lease.spec
        lasts_s = 2 * (spec.lease_duration_seconds or _LEASE_S)  # clocks differ
        renewed_s = times.epoch_s(spec.renew_time) if spec.renew_time else 0
        if spec.holder_identity and clock.now_s() < renewed_s + lasts_s:
            raise KarpenterLeadsError(
                f"Karpenter leads in this cluster: {spec.holder_identity} holds the Lease "
                f"{lease.metadata.namespace}/{KARPENTER_LEASE}. Scale it to zero first, or start with "
                "--beside-karpenter if their NodePools are apart"
            )


async def _completed(settings: Settings, kube: Client, connection: Connection, version: str) -> Settings:
    """The settings, with what the connection and the cluster say where they are not set."""
    election = settings.election
    if election is not None and not election.namespace:
        election = dataclasses.replace(election, namespace=connection.namespace)
    return dataclasses.replace(
        settings,
        election=election,
        kubernetes_version=version,
        api_server_ca_bundle=identity.encoded(connection.server.ca_pem),
        dns_ip=settings.dns_ip or await _dns_ip(kube),
    )


async def _dns_ip(kube: Client) -> str | None:
    try:
        return (await kube.get(Service, _DNS, _NAMESPACE)).spec.cluster_ip or None
    except (errors.NotFound, errors.Unauthorized):
        return None  # the images know what it usually is


def _calls(world: World, kube: Client) -> Calls:
    """For what is asked before there is a program that counts."""
    metrics = Metrics(aws_metrics.METRICS, strict=False)
    recorder = LiveRecorder(kube=kube, metrics=metrics, clock=world.clock, ids=world.ids)
    return Calls(world.aws, executor=world.executor, clock=world.clock, ids=world.ids, recorder=recorder)


# --- While it runs ------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _served(program: Program, app: App) -> AsyncIterator[dict[str, int]]:
    probes = health.probes(live={"controllers": app.manager.stuck}, ready={"caches": app.manager.unready})
    page = health.metrics_page(app.metrics, refresh=app.refresh_gauges)
    host = program.bind_address
    try:
        async with (
            health.served(probes, host=host, port=program.health_probe_port) as health_port,
            health.served(page, host=host, port=program.metrics_port) as metrics_port,
        ):
            yield {"health_probe_port": health_port, "metrics_port": metrics_port}
    except OSError as error:
        raise errors.InvalidInput(
            f"--metrics-port, --health-probe-port: a port cannot be opened: {error.strerror}"
        ) from error


async def _until_told(app: App, kube: Client, clock: Clock, stop: asyncio.Event) -> None:
    running = asyncio.create_task(app.run())
    following = app.supervisor.start("version", lambda: _follow_version(app, kube, clock))
    beside = [asyncio.create_task(stop.wait()), following]
    try:
        await asyncio.wait({running, *beside}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in beside:
            task.cancel()
        app.tell_to_stop()
        await running


async def _follow_version(app: App, kube: Client, clock: Clock) -> None:
    """A cluster is upgraded while we run; its nodes then get images of the new version."""
    while True:
        await clock.sleep(_VERSION_EVERY_S)
        with contextlib.suppress(errors.HoldfastError):
            app.kubernetes_version = await kube.version()
