"""Reads the settings of `holdfast run` for commands that look at a running cluster, and runs a command on what was read.

`plan` has the few options that say which cluster; other settings come from the environment variables of `holdfast run`.
It has names and texts of its own, because the settings import the controllers, which takes half a second.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from holdfast import errors
from holdfast.model import wording

if TYPE_CHECKING:
    from holdfast.app.live import LiveCluster

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_FAILED: Final = 3
_WRONG_SETTINGS: Final = 2
OPTIONS: Final = {
    "cluster-name": "Name of the EKS cluster.",
    "aws-region": "AWS region. Default: from the AWS profile.",
    "kubeconfig": "Path of the kubeconfig. Default: as kubectl.",
    "context": "Context of the kubeconfig. Default: the current context.",
    "feature-gates": "Feature gates of `holdfast run`.",
    "scheduler-config": "Default topology spread constraints of kube-scheduler, as for `holdfast run`.",
    "beside-karpenter": "As for `holdfast run`: only NodePools whose nodeClassRef has the group holdfast.dev.",
}


def which_cluster(function: F) -> F:
    """Adds the options that say which cluster."""
    for name, text in reversed(OPTIONS.items()):
        note = f"{text}  [{name.upper().replace('-', '_')}]"
        function = click.option(f"--{name}", is_flag=False, metavar="VALUE", help=f"With --live: {note}")(
            function
        )
    return function


def run(command: str, flags: Mapping[str, str], action: Callable[["LiveCluster"], Awaitable[R]]) -> R:
    """Reads the cluster and AWS, and returns the result of `action`. Exits with 2 for a wrong setting, with 3 if the
    cluster or the account cannot be read."""
    from holdfast.app import live, settings  # noqa: PLC0415 - slow to import
    from holdfast.runtime import logs  # noqa: PLC0415
    from holdfast.runtime.clock import RealClock  # noqa: PLC0415

    async def main() -> R:
        async with live.reading(program, environ=os.environ) as cluster:
            return await action(cluster)

    try:
        program = settings.read(flags, os.environ)
    except errors.InvalidInput as error:
        click.echo(f"{command}: {error}", err=True)
        sys.exit(_WRONG_SETTINGS)
    logs.configure(clock=RealClock(), level="error")  # what matters is in the notes
    try:
        return asyncio.run(main())
    except errors.HoldfastError as error:
        click.echo(f"{command}: {error}", err=True)
        sys.exit(_WRONG_SETTINGS if isinstance(error, errors.InvalidInput) else _FAILED)


def report(cluster: "LiveCluster") -> None:
    """Prints to standard error what was read, and what could not be."""
    from holdfast.api.nodeclaim import NodeClaim  # noqa: PLC0415 - the planner alone does not need them
    from holdfast.api.nodepool import NodePool  # noqa: PLC0415
    from holdfast.api.nodes import Node  # noqa: PLC0415
    from holdfast.api.pods import Pod  # noqa: PLC0415
    from holdfast.state.conversion import times  # noqa: PLC0415

    counts = ((Node, "node"), (NodeClaim, "NodeClaim"), (NodePool, "NodePool"), (Pod, "pod"))
    found = ", ".join(wording.count(len(cluster.caches.of(kind)), word) for kind, word in counts)
    click.echo(
        f"Read cluster {cluster.settings.cluster_name} at {times.text(cluster.read_s)}: {found}. Nothing was changed.",
        err=True,
    )
    for note in cluster.notes:
        click.echo(f"note: {note}", err=True)
