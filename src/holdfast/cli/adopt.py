"""`holdfast adopt --check`: shows what Holdfast would do in a cluster that Karpenter runs now."""

import asyncio
import os
import sys
from typing import Final

import click

from holdfast import errors
from holdfast.app import settings
from holdfast.app.adoption import check
from holdfast.cli import check_results, run_options
from holdfast.runtime import logs, process
from holdfast.runtime.clock import RealClock

_FAILED: Final = 3
_WRONG_SETTINGS: Final = 2
_SECONDS: Final = 60
_SECONDS_MAX: Final = 3600


def _run(*, check_only: bool, seconds: int, output: str, **written: str | None) -> None:
    if not check_only:
        raise click.UsageError(
            "holdfast adopt only checks, with --check. To take over: stop Karpenter, apply the CRDs, start Holdfast"
        )
    try:
        process.refuse_without_asserts()
        program = settings.read(run_options.flags(written), os.environ)
    except errors.InvalidInput as error:
        click.echo(f"holdfast adopt: {error}", err=True)
        sys.exit(_WRONG_SETTINGS)
    logs.configure(clock=RealClock(), level="error")  # what matters is in the results
    click.echo(
        f"Running Holdfast on a copy of the cluster for {seconds} s. Nothing is written to the cluster or to AWS.",
        err=True,
    )
    try:
        results = asyncio.run(check.check(program, environ=os.environ, seconds=seconds))
    except errors.HoldfastError as error:
        click.echo(f"holdfast adopt: {error}", err=True)
        sys.exit(_FAILED)
    check_results.print_and_exit(results, output)


command: Final = click.Command(
    "adopt",
    callback=_run,
    params=[
        click.Option(["check_only", "--check"], is_flag=True, help="Check, and change nothing. Required."),
        click.Option(
            ["--seconds"],
            type=click.IntRange(1, _SECONDS_MAX),
            default=_SECONDS,
            show_default=True,
            help="How long the controllers run on the copy.",
        ),
        check_results.option(),
        *run_options.parameters(),
    ],
    help="""Show what Holdfast would do to each NodePool, EC2NodeClass and NodeClaim of a cluster.

    Copies the objects of the cluster into memory and runs the controllers of `holdfast run` on the copy. They read the
    AWS account; calls that change something are recorded and not sent. Karpenter can run meanwhile. Takes the settings
    of `holdfast run`. Prints one line per result. Exit codes: 0 if every node is kept, 1 if one would be replaced or
    terminated, or a NodePool or EC2NodeClass would not be Ready; 2 for a wrong setting; 3 if the cluster or the account
    cannot be read.""",
)
