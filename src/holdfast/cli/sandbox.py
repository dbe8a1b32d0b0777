"""`holdfast sandbox`: a simulated cluster and a simulated AWS, without an autoscaler."""

import asyncio
import contextlib
import shlex
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from holdfast import errors
from holdfast.api.findings import Finding
from holdfast.api.scenario import Catalog
from holdfast.api.world import World
from holdfast.app import sandbox
from holdfast.app.sandbox import ControlPlane, Plan, Sandbox
from holdfast.cli import manifests, signals
from holdfast.cli.manifests import Loaded, Located, Raw
from holdfast.cli.work_folder import work_folder
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim import world_reading
from holdfast.sim.cloud_setup import CloudSetup
from holdfast.sim.cluster.timings import Timings

_WORLD: Final = (World.api_version, World.kind)
_CATALOG: Final = (Catalog.api_version, Catalog.kind)
_FIRST: Final = {"CustomResourceDefinition": 0, "Namespace": 1}  # other objects may need these
_CHECK_S: Final = 1.0


@click.command
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@click.option(
    "--control-plane",
    type=click.Choice([each.value for each in ControlPlane]),
    default=ControlPlane.EMBEDDED.value,
    show_default=True,
    help="Parts that are real Kubernetes programs: none, scheduler and controller manager, or all.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the kubeconfig and the logs; must be empty or absent.  [default: a new folder]",
)
@click.option(
    "--kube-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the API server; 0 is any free port.",
)
@click.option(
    "--aws-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the AWS endpoint; 0 is any free port.",
)
@click.option(
    "--dashboard",
    is_flag=True,
    help="Serve the page of Holdfast: reservations, nodes, pending pods. It only reads.",
)
def command(
    *,
    paths: tuple[str, ...],
    control_plane: str,
    folder: Path | None,
    kube_port: int,
    aws_port: int,
    dashboard: bool,
) -> None:
    """Run a simulated cluster and a simulated AWS on this computer, until Ctrl-C.

    FILEs hold a World (reservations, prices, faults) and Kubernetes objects, which are created in their order. The
    sandbox has no autoscaler: start your own. It uses real time, listens on loopback only, and removes its files when
    it stops.
    """
    read = _read(paths)
    if isinstance(read, tuple):
        _fail(*read)
    try:
        with work_folder(folder, "holdfast-sandbox-") as path:
            plan = Plan(
                folder=path,
                setup=read.setup,
                timings=read.timings,
                control_plane=ControlPlane(control_plane),
                kube_port=kube_port,
                aws_port=aws_port,
            )
            asyncio.run(_run_until_stopped(_serve(plan, read.objects, dashboard=dashboard)))
    except _Rejected as rejected:
        _fail(*rejected.args)
    except (errors.HoldfastError, OSError) as error:
        _fail(error)


# --- Files and folder -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scenario:
    setup: CloudSetup
    timings: Timings
    objects: tuple[Raw, ...]


def _read(paths: Sequence[str]) -> _Scenario | tuple[Located, ...]:
    objects, findings = manifests.read_raw(paths)
    if findings:
        return findings
    worlds = [raw for raw in objects if raw.gvk == _WORLD]
    if len(worlds) > 1:
        return (worlds[1].located(Finding(("kind",), "there is more than one World; remove one")),)
    rest = [raw for raw in objects if raw.gvk not in (_WORLD, _CATALOG)]
    rest.sort(key=lambda raw: _FIRST.get(raw.gvk[1], len(_FIRST)))
    if not worlds:
        return _Scenario(CloudSetup(), Timings(), tuple(rest))
    loaded = manifests.load(worlds[0], World)
    return loaded if isinstance(loaded, tuple) else _of_world(loaded, tuple(rest))


def _of_world(loaded: Loaded, rest: tuple[Raw, ...]) -> _Scenario | tuple[Located, ...]:
    world = loaded.obj
    assert isinstance(world, World)
    if world.spec.start is not None:
        return (loaded.located(Finding(("spec", "start"), "time is real in a sandbox: leave it out")),)
    setup = world_reading.read(world, RealClock().now_s())
    if isinstance(setup, tuple):
        return tuple(loaded.located(finding) for finding in setup)
    return _Scenario(setup, world_reading.cluster_timings(world), rest)


# --- Running ----------------------------------------------------------------------------------------


class _Rejected(Exception):
    """The API server rejected objects of the files; the arguments are its findings."""


async def _run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Cancels the work on the first signal. Ignores later ones, which would interrupt the cleanup."""
    task = asyncio.ensure_future(work)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            task.cancel()

    signals.on_stop(stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped:
            raise


async def _serve(plan: Plan, objects: Sequence[Raw], *, dashboard: bool) -> None:
    clock = RealClock()
    async with contextlib.AsyncExitStack() as stack:
        started = await stack.enter_async_context(sandbox.running(plan, clock=clock, ids=RealIds()))
        rejected = [finding async for finding in _create(started, objects)]
        if rejected:
            raise _Rejected(*rejected)
        url = ""
        if dashboard:
            from holdfast.app import sandbox_program  # noqa: PLC0415 - slow to import

            page = sandbox_program.page(started, clock=clock, ids=RealIds())
            url = await stack.enter_async_context(page)
        click.echo(_usage(started, started.write_env(url), len(objects), url))
        while True:
            await clock.sleep(_CHECK_S)
            started.check()


async def _create(started: Sandbox, objects: Sequence[Raw]) -> AsyncIterator[Located]:
    for raw in objects:
        try:
            await started.create(raw.document.value)
        except errors.HoldfastError as error:
            yield raw.located(Finding((), str(error)))


def _usage(started: Sandbox, env: Path, objects: int, url: str) -> str:
    about = started.cloud.about
    page = f"\n  page          {url}" if url else ""
    return f"""\
A simulated cluster and a simulated AWS are running, without an autoscaler. Press Ctrl-C to stop.

  kubeconfig    {started.kubeconfig}
  API server    {started.address.url}, Kubernetes {about.kubernetes}, {objects} objects created
  AWS endpoint  {started.aws_url}
                region {about.region}, account {about.account}; signatures are not checked
  cluster       {about.cluster}; also the name of the queue and the tag karpenter.sh/discovery of subnets and groups
  roles         {", ".join(about.roles)}{page}

In another terminal:

  source {shlex.quote(str(env))}
  kubectl get nodes,nodepools,nodeclaims,pods
  aws ec2 describe-capacity-reservations
  karpenter-aws     # or another autoscaler; its environment variables are set
"""


def _fail(*lines: object) -> NoReturn:
    for line in lines:
        click.echo(str(line), err=True)
    sys.exit(1)
