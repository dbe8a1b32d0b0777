"""`holdfast run`: runs the controllers on a cluster and an AWS account."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Final

import click
import structlog

from holdfast import errors
from holdfast.app import production, settings
from holdfast.app.karpenter import KarpenterRunsError
from holdfast.app.settings import Program
from holdfast.cli import run_options
from holdfast.runtime import logs, process
from holdfast.runtime.clock import RealClock
from holdfast.runtime.threads import DaemonExecutor

_THREADS: Final = 8
_FAILED: Final = 1
_WRONG_SETTINGS: Final = 2
_KARPENTER_RUNS: Final = 3


def _run(**written: str | None) -> None:
    try:
        process.refuse_without_asserts()
        program = settings.read(run_options.flags(written), os.environ)
    except errors.InvalidInput as error:
        click.echo(f"holdfast run: {error}", err=True)
        sys.exit(_WRONG_SETTINGS)
    formats: Mapping[str, bool | None] = {"auto": None, "json": True, "text": False}
    logs.configure(clock=RealClock(), level=program.log_level, as_json=formats[program.log_format])
    process.raise_gc_threshold()
    code = asyncio.run(_main(program))
    sys.stdout.flush()
    sys.stderr.flush()
    # A normal exit would destroy the interpreter while the planner's thread still runs in it.
    os._exit(code)


async def _main(program: Program) -> int:
    stop, loop, log = asyncio.Event(), asyncio.get_running_loop(), structlog.get_logger()
    loop.set_default_executor(DaemonExecutor(_THREADS, "asyncio"))  # a DNS lookup does not delay the exit

    def on_signal(number: signal.Signals) -> None:
        log.info("stopping", signal=number.name)
        stop.set()
        loop.remove_signal_handler(number)  # a second signal ends the process at once

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    log.info("starting", version=metadata.version("holdfast"), cluster=program.app.cluster_name)
    try:
        await production.run(program, environ=os.environ, stop=stop)
    except errors.HoldfastError as error:
        log.critical("exiting on an error", error=str(error), kind=type(error).__name__)
        if isinstance(error, errors.InvalidInput):  # a kubeconfig, a port or an AWS profile
            return _WRONG_SETTINGS
        return _KARPENTER_RUNS if isinstance(error, KarpenterRunsError) else _FAILED
    return 0


command: Final = click.Command(
    "run",
    callback=_run,
    params=run_options.parameters(),
    help="""Run the controllers until SIGTERM.

    Every setting is a flag and an environment variable; a flag takes precedence. Exit codes: 0 after SIGTERM, 2 for a
    wrong setting, 3 if Karpenter runs in the cluster, 1 for other errors.""",
)
