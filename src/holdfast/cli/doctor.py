"""`holdfast doctor`: reports what is missing or wrong before `holdfast run` starts."""

import asyncio
import os
import sys
from typing import Final

import click

from holdfast import errors
from holdfast.app import settings
from holdfast.app.doctor import diagnosis
from holdfast.cli import check_results, run_options
from holdfast.runtime import logs, process
from holdfast.runtime.clock import RealClock

_WRONG_SETTINGS: Final = 2


def _run(output: str, service_account: str, **written: str | None) -> None:
    try:
        process.refuse_without_asserts()
        program = settings.read(run_options.flags(written), os.environ)
    except errors.InvalidInput as error:
        click.echo(f"holdfast doctor: {error}", err=True)
        sys.exit(_WRONG_SETTINGS)
    logs.configure(clock=RealClock(), level="error")  # what is wrong is in the results
    results = asyncio.run(diagnosis.diagnose(program, environ=os.environ, service_account=service_account))
    check_results.print_and_exit(results, output)


def _service_account(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if value and not all(value.partition("/")):
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME")
    return value


command: Final = click.Command(
    "doctor",
    callback=_run,
    params=[
        check_results.option(),
        click.Option(
            ["--service-account"],
            default="",
            callback=_service_account,
            metavar="NAMESPACE/NAME",
            help="Check the Kubernetes rights of this ServiceAccount. Default: of the caller if it is one, else of the Deployment of Holdfast, else of the caller.",
        ),
        *run_options.parameters(),
    ],
    help="""Report what is missing or wrong in the cluster and the account before `holdfast run` starts.

    Reads only; nothing is changed. Takes the settings of `holdfast run`, as flags and as environment variables. Prints
    one line per result: its level (ok, info, warning or error), the object, what was found, and the fix. Exit codes: 0 without an error,
    1 with errors, 2 for a wrong setting.""",
)
