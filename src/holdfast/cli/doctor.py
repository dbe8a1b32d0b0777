"""`holdfast doctor`: reports what is missing or wrong before `holdfast run` starts."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Final

import click

from holdfast import errors
from holdfast.app import settings
from holdfast.app.doctor import diagnosis
from holdfast.cli import run_options
from holdfast.model import check_results
from holdfast.model.check_results import CheckResult, Level
from holdfast.runtime import logs, process
from holdfast.runtime.clock import RealClock

_PROBLEMS: Final = 1
_WRONG_SETTINGS: Final = 2
_COLORS: Final = {Level.OK: "green", Level.INFO: "cyan", Level.WARNING: "yellow", Level.ERROR: "red"}
_WIDTH: Final = max(map(len, Level))


def _run(output: str, service_account: str, **written: str | None) -> None:
    try:
        process.refuse_without_asserts()
        program = settings.read(run_options.flags(written), os.environ)
    except errors.InvalidInput as error:
        click.echo(f"holdfast doctor: {error}", err=True)
        sys.exit(_WRONG_SETTINGS)
    logs.configure(clock=RealClock(), level="error")  # what is wrong is in the results
    results = asyncio.run(diagnosis.diagnose(program, environ=os.environ, service_account=service_account))
    if output == "json":
        click.echo(json.dumps(_document(results), indent=2))
    else:
        for one in results:
            click.echo(_line(one))
        click.echo(_summary(results), err=True)
    sys.exit(_PROBLEMS if check_results.has_errors(results) else 0)


def _service_account(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if value and not all(value.partition("/")):
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME")
    return value


def _line(one: CheckResult) -> str:
    """One line; a message of a server may have several."""
    level = click.style(f"{one.level:<{_WIDTH}}", fg=_COLORS[one.level])
    fix = f" | fix: {one.fix}" if one.fix else ""
    return f"{level} {' '.join(f'{one.object}: {one.found}{fix}'.split())}"


def _document(results: Sequence[CheckResult]) -> Mapping[str, Any]:
    counts = Counter(one.level for one in results)
    return {
        "version": metadata.version("holdfast"),
        "summary": {level.value: counts[level] for level in Level},
        "results": [
            {
                "check": one.check,
                "level": one.level.value,
                "object": one.object,
                "found": one.found,
                "fix": one.fix,
            }
            for one in results
        ],
    }


def _summary(results: Sequence[CheckResult]) -> str:
    counts = Counter(one.level for one in results)
    return ", ".join(f"{counts[level]} {level.value}" for level in Level)


command: Final = click.Command(
    "doctor",
    callback=_run,
    params=[
        click.Option(
            ["-o", "--output"],
            type=click.Choice(["text", "json"]),
            default="text",
            help="Form of the results.",
        ),
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
