"""Runs the controllers against a real cluster and AWS, and serves probes and metrics.

The start checks the settings and the connection, reads the cluster's version, refuses to run beside a Karpenter that
holds its Lease, and checks the AWS credentials; then it builds the `App`. On `stop` the controllers stop and the Lease
is released. On an error the process exits and the kubelet restarts it.
"""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import structlog

from holdfast import errors
from holdfast.api.cluster import Service
from holdfast.app import explaining, optional_kinds, rights
from holdfast.app.karpenter import Detector
from holdfast.app.program import Adapters, App
from holdfast.app.settings import Program, Settings
from holdfast.cloud.aws import metrics as aws_metrics
from holdfast.cloud.aws.client import credentials
from holdfast.cloud.aws.client.calls import Calls, Clients, Threads
from holdfast.cloud.aws.nodeclass import identity
from holdfast.core.scheduling.kernel import compiled
from holdfast.kube import cluster_access
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
from holdfast.runtime.recorder import KubeRecorder

_VERSION_EVERY_S: Final = 900


async def run(program: Program, *, environ: Mapping[str, str], stop: asyncio.Event) -> None:
    """Runs until `stop` is set; raises the error that ends it earlier."""
    clock, log = RealClock(), structlog.get_logger()
    connection = connect(program, environ, clock)
    async with adapters_of(program, connection, clock) as adapters:
        kube = Client(
            transport=adapters.transport, clock=clock, ids=adapters.ids, settings=program.app.client
        )
        version = await kube.version()
        karpenter = None
        if not program.beside_karpenter:
            karpenter = Detector(kube, await _server_clock(kube, clock))
            await karpenter.check()
        await credentials.check(_calls(adapters, kube))
        settings = await completed(program.app, kube, connection, version)
        app = App(settings, adapters, after_sync=process.freeze)
        app.metrics.add_process()
        async with _serve(program, app) as ports:
            log.info(
                "started",
                cluster=settings.cluster_name,
                kubernetes=version,
                region=adapters.aws.region,
                **ports,
            )
            if reason := compiled.why_plain():
                log.warning("plans take longer: the kernel runs as plain Python", reason=reason)
            for name in program.without_effect:
                log.warning("ignoring a setting that has no effect", setting=name)
            await _run_until(stop, app, kube, clock, karpenter)
            log.info("stopped")


# --- The adapters -------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def adapters_of(program: Program, connection: Connection, clock: Clock) -> AsyncIterator[Adapters]:
    """The adapters of the process; they are closed at the end."""
    transport, threads, compute = HttpTransport(connection), Threads(), ThreadCompute()
    try:
        clients = await threads.run(functools.partial(aws_clients, program.region))
        try:
            yield Adapters(
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


def connect(program: Program, environ: Mapping[str, str], clock: Clock) -> Connection:
    """From --kubeconfig, else from the pod's service account, else from the file that kubectl would read."""
    return cluster_access.connection(
        file=program.kubeconfig,
        context=program.context,
        environ=environ,
        clock=clock,
        namespace=rights.SYSTEM_NAMESPACE,
    )


def aws_clients(region: str) -> Clients:
    """Blocks: the region may come from the instance metadata service. Creating the first client makes botocore read
    AWS's variables and files, so a mistake in them stops the start."""
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
        raise errors.InvalidInput("--aws-region: no region found; set it, or AWS_REGION")
    return str(found)


# --- The cluster --------------------------------------------------------------------------------------


async def _server_clock(kube: Client, clock: Clock) -> Clock:
    """The API server's clock if it can be read: by a wrong local clock, Karpenter's Lease would look expired."""
    program_clock = ProgramClock(clock)
    await ServerTime(kube, program_clock).read()
    return program_clock


async def completed(settings: Settings, kube: Client, connection: Connection, version: str) -> Settings:
    """The settings, with defaults from the connection and the cluster."""
    election = settings.election
    if election is not None and not election.namespace:
        election = dataclasses.replace(election, namespace=connection.namespace)
    return dataclasses.replace(
        settings,
        election=election,
        kubernetes_version=version,
        api_server_ca_bundle=identity.encoded(connection.server.ca_pem),
        dns_ip=settings.dns_ip or await _dns_ip(kube),
        optional_kinds=await optional_kinds.readable(kube),
    )


async def _dns_ip(kube: Client) -> str | None:
    try:
        return (await kube.get(Service, rights.DNS_SERVICE, rights.SYSTEM_NAMESPACE)).spec.cluster_ip or None
    except (errors.NotFound, errors.Unauthorized):
        return None  # the bootstrap of the images has a default


def _calls(adapters: Adapters, kube: Client) -> Calls:
    """For calls before the `App` with its metrics exists."""
    metrics = Metrics(aws_metrics.METRICS, strict=False)
    recorder = KubeRecorder(kube=kube, metrics=metrics, clock=adapters.clock, ids=adapters.ids)
    return Calls(
        adapters.aws, executor=adapters.executor, clock=adapters.clock, ids=adapters.ids, recorder=recorder
    )


# --- Serving ------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _serve(program: Program, app: App) -> AsyncIterator[dict[str, int]]:
    probes = health.probes(
        liveness={"controllers": app.manager.stuck}, readiness={"caches": app.manager.unready}
    )
    page = health.metrics_page(app.metrics, refresh=app.refresh_metrics)
    host = program.bind_address
    try:
        async with (
            health.serve(probes, host=host, port=program.health_probe_port) as health_port,
            health.serve(page, host=host, port=program.metrics_port) as metrics_port,
            explaining.serving(
                explaining.explain(app),
                app,
                host=program.api_bind_address,
                port=program.api_port,
                page=program.dashboard,
            ) as api_port,
        ):
            yield {"health_probe_port": health_port, "metrics_port": metrics_port, "api_port": api_port}
    except OSError as error:
        raise errors.InvalidInput(
            f"--metrics-port, --health-probe-port, --api-port: cannot listen: {error.strerror}"
        ) from error


async def _run_until(
    stop: asyncio.Event, app: App, kube: Client, clock: Clock, karpenter: Detector | None
) -> None:
    app_task = asyncio.create_task(app.run())
    version_task = app.supervisor.start("version", lambda: _follow_version(app, kube, clock))
    served = optional_kinds.until_changed(kube, clock, read=app.settings.optional_kinds)
    others = [asyncio.create_task(stop.wait()), version_task, asyncio.create_task(served)]
    if karpenter is not None:
        others.append(asyncio.create_task(karpenter.run(app.caches)))
    try:
        ended, _ = await asyncio.wait({app_task, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in ended - {app_task}:
            task.result()
    finally:
        for task in others:
            task.cancel()
        app.request_stop()
        await app_task


async def _follow_version(app: App, kube: Client, clock: Clock) -> None:
    """Rereads the cluster's version: after an upgrade, new nodes get images of the new version."""
    while True:
        await clock.sleep(_VERSION_EVERY_S)
        with contextlib.suppress(errors.HoldfastError):
            app.kubernetes_version = await kube.version()
