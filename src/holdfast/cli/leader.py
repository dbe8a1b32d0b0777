"""Options, errors and output of the commands that ask the leader: `explain`, `reservations` and `status`."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec
from click.core import ParameterSource

from holdfast import errors
from holdfast.app import answers
from holdfast.app.answers import Address, Answers
from holdfast.cli import page, page_output
from holdfast.cli.page import Page
from holdfast.kube.http import HttpLimits
from holdfast.runtime.clock import RealClock

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

EXIT_CODES: Final = "Without a leader, the command computes the answer itself, with the variables of `holdfast run` (CLUSTER_NAME and others). Exit codes: 0; 1 if the object does not exist; 2 for a wrong argument or kubeconfig; 3 if neither works."
_NOT_FOUND: Final = 1
_USAGE: Final = 2
_UNREADABLE: Final = 3
_LIMITS: Final = HttpLimits(answer_s=20, body_bytes=64 * 1024 * 1024)
_COMPLETION_LIMITS: Final = HttpLimits(answer_s=2, body_bytes=1024 * 1024)
_VARIABLE: Final = "HOLDFAST_SERVER"
_WHERE: Final = ("server", "kubeconfig", "context", "holdfast_namespace", "service")


def options(function: F) -> F:
    """Adds the options that find the leader, and `-o`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS: Final = (
    click.option(
        "-o",
        "--output",
        type=click.Choice(["wide", "json", "yaml"]),
        help="wide shows more; json and yaml print the document of the API.",
    ),
    click.option(
        "--server",
        envvar=_VARIABLE,
        metavar="URL",
        default="",
        help="Address of the JSON API, such as http://127.0.0.1:8082.  [HOLDFAST_SERVER; default: through the API server of the cluster]",
    ),
    click.option("--kubeconfig", metavar="FILE", default="", help="As with kubectl."),
    click.option("--context", metavar="NAME", default="", help="Context of the kubeconfig."),
    click.option(
        "--holdfast-namespace",
        envvar="HOLDFAST_NAMESPACE",
        metavar="NAME",
        default=answers.NAMESPACE,
        help=f"Namespace in which Holdfast runs.  [HOLDFAST_NAMESPACE; default: {answers.NAMESPACE}]",
    ),
    click.option(
        "--service",
        envvar="HOLDFAST_SERVICE",
        metavar="NAME",
        default=answers.SERVICE,
        help=f"Service of Holdfast.  [HOLDFAST_SERVICE; default: {answers.SERVICE}]",
    ),
)


def address(ctx: click.Context) -> Address:
    """Where the options say that the JSON API is. A cluster that is given by a flag overrides HOLDFAST_SERVER."""
    given = {option: ctx.params.get(option) or "" for option in _WHERE}
    cluster = [name for name in ("kubeconfig", "context") if given[name]]
    url, is_flag = given["server"], ctx.get_parameter_source("server") is ParameterSource.COMMANDLINE
    if url and cluster:
        if is_flag:
            raise click.UsageError(f"--server and --{cluster[0]} exclude each other", ctx)
        url = ""
    return Address(
        url=url,
        origin="--server" if is_flag else _VARIABLE,
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        namespace=given["holdfast_namespace"] or answers.NAMESPACE,
        service=given["service"] or answers.SERVICE,
    )


def ask(ctx: click.Context, question: Callable[[Answers], Awaitable[T]]) -> T:
    """The answer; an error ends the process with its exit code."""
    where = address(ctx)
    try:
        return asyncio.run(_ask_or_compute(where, question))
    except errors.NotFound as error:
        _fail(ctx, error, _NOT_FOUND)
    except errors.InvalidInput as error:
        _fail(ctx, error, _USAGE)
    except errors.HoldfastError as error:
        _fail(ctx, error, _UNREADABLE)
    except KeyboardInterrupt:
        raise click.Abort from None


def ask_for_completion(ctx: click.Context, question: Callable[[Answers], Awaitable[T]], otherwise: T) -> T:
    """The answer, in two seconds or not at all: the user waits at a prompt."""

    async def in_time() -> T:
        async with asyncio.timeout(_COMPLETION_LIMITS.answer_s):
            return await _ask(where, question, _COMPLETION_LIMITS)

    try:
        where = address(ctx)
        return asyncio.run(in_time())
    except (errors.HoldfastError, click.UsageError, TimeoutError):
        return otherwise


async def _ask_or_compute(where: Address, question: Callable[[Answers], Awaitable[T]]) -> T:
    """At a URL there is nothing to compute from: the kubeconfig may be that of another cluster."""
    try:
        return await _ask(where, question, _LIMITS)
    except answers.NO_LEADER as error:
        if where.url:
            raise
        no_leader = str(error)
    from holdfast.app import computed_answers  # noqa: PLC0415 - slow to import
    from holdfast.runtime import logs  # noqa: PLC0415 - only here

    program = computed_answers.program_of(where, environ=os.environ, no_leader=no_leader)
    logs.configure(clock=RealClock(), level="error")
    click.echo("No leader answers. Reading the cluster and the AWS account.", err=True)
    async with computed_answers.opened(program, environ=os.environ, no_leader=no_leader) as found:
        return await question(found)


async def _ask(where: Address, question: Callable[[Answers], Awaitable[T]], limits: HttpLimits) -> T:
    async with answers.opened(where, environ=os.environ, clock=RealClock(), limits=limits) as found:
        return await question(found)


def _fail(ctx: click.Context, error: errors.HoldfastError, code: int) -> NoReturn:
    lines = (page.clean(line) for line in str(error).splitlines())
    click.echo(f"{ctx.command_path}: " + "\n".join(lines), err=True)
    sys.exit(code)


# --- Output -----------------------------------------------------------------------------------------


def write(output: str | None, document: msgspec.Struct, build: Callable[[bool], Page]) -> None:
    """Prints the document, or the page that `build` makes of it; `build` gets whether it is wide."""
    if output == "json":
        # ASCII, so that no text of a user's object reaches the terminal unescaped.
        click.echo(json.dumps(msgspec.to_builtins(document), indent=2))
    elif output == "yaml":
        from holdfast.api import documents  # noqa: PLC0415 - slow to import

        click.echo(documents.text(msgspec.to_builtins(document)), nl=False)
    else:
        page_output.write(build(output == "wide"), wide=output == "wide")
