"""Runs the controllers for a while on a copy of the cluster. Nothing is written to the cluster or to AWS.

The controllers are those of `holdfast run` with its settings, except: no leader election, because no other replica acts
on the copy; no interruption queue, because a message that is read is hidden from the program that runs now.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import Final

from holdfast.app import production
from holdfast.app.adoption import cluster_copy
from holdfast.app.adoption.cluster_copy import ClusterCopy
from holdfast.app.adoption.recorded_writes import AwsWrite, RecordingClients
from holdfast.app.program import Adapters, App, watched_kinds
from holdfast.app.settings import Program
from holdfast.cloud.aws.client.calls import Threads
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.http import HttpTransport
from holdfast.model.instances import Instance
from holdfast.runtime.clock import RealClock
from holdfast.runtime.compute import ThreadCompute
from holdfast.runtime.ids import RealIds

_CLIENT: Final = ClientSettings(attempts=2)


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """The copy after the run, the calls to AWS that were not sent, and the instances of the cluster."""

    copy: ClusterCopy
    writes: tuple[AwsWrite, ...]
    instances: tuple[Instance, ...]


async def run(program: Program, *, environ: Mapping[str, str], seconds: float) -> DryRun:
    """Copies the cluster and runs the controllers on the copy. Raises what prevents it."""
    clock, ids = RealClock(), RealIds()
    connection = production.connect(program, environ, clock)
    async with contextlib.AsyncExitStack() as stack:
        transport = HttpTransport(connection)
        stack.push_async_callback(transport.aclose)
        kube = Client(transport=transport, clock=clock, ids=ids, settings=_CLIENT)
        completed = await production.completed(program.app, kube, connection, await kube.version())
        settings = dataclasses.replace(completed, election=None, interruption_queue="")
        threads, compute = Threads(), ThreadCompute()
        stack.callback(threads.close)
        stack.callback(compute.close)
        clients = await threads.run(functools.partial(production.aws_clients, program.region))
        stack.callback(clients.close)
        writes: list[AwsWrite] = []
        copy = await cluster_copy.copied(kube, watched_kinds(settings), clock=clock, ids=ids)
        app = App(
            settings,
            Adapters(
                transport=copy.transport,
                aws=RecordingClients(clients, writes.append),
                executor=threads,
                clock=clock,
                ids=ids,
                compute=compute,
            ),
        )
        app.start()
        try:
            await clock.sleep(seconds)
            app.check()
            instances = await app.cloud.instances()
        finally:
            await app.stop()
        return DryRun(copy, tuple(writes), instances)
