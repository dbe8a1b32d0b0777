"""`holdfast sandbox`: a simulated cluster and a simulated AWS, and no autoscaler. Bring your own."""

import asyncio
import contextlib
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from holdfast import errors, sandbox
from holdfast.api.findings import Finding
from holdfast.api.scenario import Catalog
from holdfast.api.world import World
from holdfast.cli import ending, manifests
from holdfast.cli.manifests import Loaded, Located, Raw
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sandbox import ControlPlane, Plan
from holdfast.sim import world_reading
from holdfast.sim.cloud_setup import CloudSetup
from holdfast.sim.cluster.timings import Timings

_WORLD: Final = (World.api_version, World.kind)
_CATALOG: Final = (Catalog.api_version, Catalog.kind)
_FIRST: Final = {"CustomResourceDefinition": 0, "Namespace": 1}  # what others may need; all else in its order
_CHECK_S: Final = 1.0


@click.command
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@click.option(
    "--control-plane",
    type=click.Choice([each.value for each in ControlPlane]),
    default=ControlPlane.EMBEDDED.value,
    show_default=True,
    help="What of it is Kubernetes' own: nothing, scheduler and controllers, or all of it.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the kubeconfig and the rest go; it must be empty or not be there.  [default: a new one]",
)
@click.option("--kube-port", type=click.IntRange(0, 65535), default=0, help="Port of the API server.")
@click.option("--aws-port", type=click.IntRange(0, 65535), default=0, help="Port of the AWS endpoint.")
def command(
    paths: tuple[str, ...], control_plane: str, folder: Path | None, kube_port: int, aws_port: int
) -> None:
    """Run a simulated cluster and a simulated AWS on this machine, until Ctrl-C.

    FILEs hold a World (what is reserved, what it costs, what goes wrong) and any Kubernetes objects, which are made in
    the order they stand. Nothing scales the cluster: that is for the autoscaler you bring. Time is real, everything
    listens on loopback alone, and nothing is left behind.
    """
    read = _read(paths)
    if isinstance(read, tuple):
        _fail(*read)
    try:
        with _folder(folder) as made:
            plan = Plan(
                folder=made,
                setup=read.setup,
                timings=read.timings,
                control_plane=ControlPlane(control_plane),
                kube_port=kube_port,
                aws_port=aws_port,
            )
            asyncio.run(_until_told(_serve(plan, read.objects)))
    except _Refused as refused:
        _fail(*refused.args)
    except (errors.HoldfastError, OSError) as error:
        _fail(error)


# --- What was asked for -----------------------------------------------------------------------------


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
        return (worlds[1].located(Finding(("kind",), "there is a World already, and there can be one")),)
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


@contextlib.contextmanager
def _folder(asked: Path | None) -> Iterator[Path]:
    """A folder for the time being. It is kept when something goes wrong: the logs are in it."""
    if asked is None:
        made = Path(tempfile.mkdtemp(prefix="holdfast-sandbox-"))
    else:
        made = asked.absolute()
        made.mkdir(parents=True, exist_ok=True)
        if any(made.iterdir()):
            raise errors.InvalidInput(f"{asked} is not empty")
    keep = False
    try:
        yield made
    except errors.NotReady:  # its message names a log
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(made)


# --- While it runs ----------------------------------------------------------------------------------


class _Refused(Exception):
    """The API server did not take objects of the files; which ones, and why."""


async def _until_told(work: Coroutine[Any, Any, None]) -> None:
    """Until it is told to end; only the first time counts: what is being cleaned up is cleaned up."""
    task = asyncio.ensure_future(work)
    told = False

    def stop() -> None:
        nonlocal told
        if not told:
            told = True
            task.cancel()

    ending.when_told(stop)
    try:
        await task
    except asyncio.CancelledError:
        if not told:
            raise


async def _serve(plan: Plan, objects: Sequence[Raw]) -> None:
    clock = RealClock()
    async with sandbox.running(plan, clock=clock, ids=RealIds()) as world:
        refused = [finding async for finding in _make(world, objects)]
        if refused:
            raise _Refused(*refused)
        environ = world.environment()
        env = plan.folder / "env"
        env.write_text("".join(f"export {line}\n" for line in _lines(environ)), encoding="utf-8")
        click.echo(_told(world, env, len(objects)))
        while True:
            await clock.sleep(_CHECK_S)
            world.check()


async def _make(world: sandbox.World, objects: Sequence[Raw]) -> AsyncIterator[Located]:
    for raw in objects:
        try:
            await world.create(raw.document.value)
        except errors.HoldfastError as error:
            yield raw.located(Finding((), str(error)))


def _told(world: sandbox.World, env: Path, objects: int) -> str:
    about = world.cloud.about
    return f"""\
A simulated cluster and a simulated AWS are running, and nothing scales them. Ctrl-C ends both.

  kubeconfig    {world.kubeconfig}
  API server    {world.address.url}, Kubernetes {about.kubernetes}, with {objects} objects of yours
  AWS endpoint  {world.aws_url}
                region {about.region}, account {about.account}; signatures are not checked
  cluster       {about.cluster}: so are its queue, and the tag karpenter.sh/discovery of subnets and groups
  roles         {", ".join(about.roles)}

In another terminal:

  source {shlex.quote(str(env))}
  kubectl get nodes,nodepools,nodeclaims,pods
  aws ec2 describe-capacity-reservations
  karpenter-aws     # or whatever is to be tried; what it reads from the environment is set
"""


def _lines(environ: Mapping[str, str]) -> Iterator[str]:
    return (f"{name}={shlex.quote(value)}" for name, value in environ.items())


def _fail(*lines: object) -> NoReturn:
    for line in lines:
        click.echo(str(line), err=True)
    sys.exit(1)
