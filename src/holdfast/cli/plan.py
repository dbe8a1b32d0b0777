"""`holdfast plan`: shows which nodes would be launched for a scenario or for a running cluster, and why."""

import dataclasses
import enum
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast import errors
from holdfast.cli import live_options, options, plan_table, scenarios
from holdfast.core.scheduling.input.request import MinValuesPolicy, Packing, PreferencePolicy, ReservedMode
from holdfast.model import prices
from holdfast.scenarios import plan_document, scenario
from holdfast.scenarios.scenario import Scenario
from holdfast.state.conversion import times

if TYPE_CHECKING:
    from holdfast.app.live import LiveCluster


def _moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else times.epoch_s(datetime.fromisoformat(value))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a time such as 2026-11-15T10:00:00Z") from None


def _duration(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and times.duration_s(value) is None:
        raise click.BadParameter(f"{value!r} is not a duration such as 30s or 1h30m")
    return value


def _price(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    try:
        prices.parse(value or "0")
    except errors.InvalidInput as error:
        raise click.BadParameter(str(error)) from error
    return value


def _words(choices: type[enum.StrEnum]) -> click.Choice[str]:
    return click.Choice([choice.value for choice in choices])


@click.command
@options.optional_manifests
@click.option(
    "--live", is_flag=True, help="Plan for the pending pods of a running cluster, and change nothing."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--now",
    callback=_moment,
    metavar="TIME",
    help="Time of the plan.  [default: the Catalog's time, else now]",
)
@click.option(
    "--packing", type=_words(Packing), help="Keep the cheapest of several packings, or first fit alone."
)
@click.option("--packing-candidates", type=click.IntRange(0, 1000), help="Alternative packings to try.")
@click.option("--gang-candidates", type=click.IntRange(0, 1000), help="Sets of gangs to try if not all fit.")
@click.option(
    "--gang-hold",
    callback=_duration,
    metavar="DURATION",
    help="How long slots are held for a gang that does not fit.",
)
@click.option(
    "--node-cost",
    callback=_price,
    metavar="USD",
    help="Cost of a node per hour, in addition to its instance.",
)
@click.option("--reserved-capacity/--no-reserved-capacity", default=None, help="Use capacity reservations.")
@click.option(
    "--reserved-before-weight/--no-reserved-before-weight",
    default=None,
    help="Prefer a free reserved slot to a NodePool with more weight.",
)
@click.option(
    "--reserved-mode",
    type=_words(ReservedMode),
    help="Whether a pod without a free slot falls back to other capacity or waits.",
)
@click.option(
    "--reservation-wait",
    callback=_duration,
    metavar="DURATION",
    help="How long a pod waits for a slot to become free.",
)
@click.option(
    "--preference-policy", type=_words(PreferencePolicy), help="Respect or ignore preferred constraints."
)
@click.option(
    "--min-values-policy",
    type=_words(MinValuesPolicy),
    help="Enforce minValues, or treat them as best effort.",
)
@click.option(
    "--max-instance-types", type=click.IntRange(1, 10000), help="Most instance types in one NodeClaim."
)
@click.option(
    "--start-estimate",
    callback=_duration,
    metavar="DURATION",
    help="How long until a pod that gets a new node runs.",
)
@click.option(
    "--ledger-lag",
    callback=_duration,
    metavar="DURATION",
    help="How long EC2's reservation counts may lag behind a launch.",
)
@live_options.which_cluster
def command(
    paths: tuple[str, ...],
    output: str,
    now: int | None,
    *,
    live: bool,
    ignore_unknown_kinds: bool,
    **flags: Any,
) -> None:
    """Show which nodes would be launched for a scenario: manifests, and a Catalog of offerings and reservations.

    Launches nothing. With -f it calls no API; flags override the settings of the Catalog, mistakes in the files are
    printed to standard error, one per line, and the exit code is 1.

    With --live it reads a running cluster and its AWS account, writes to neither, and plans for the pending pods. The
    other settings of `holdfast run` are taken from its environment variables. Exit codes: 2 for a wrong setting, 3 if
    the cluster or the account cannot be read.
    """
    which = {name: flags.pop(name.replace("-", "_")) for name in live_options.OPTIONS}
    if live == bool(paths):
        raise click.UsageError("one of -f FILE and --live is needed")
    if live:
        if now is not None:
            raise click.UsageError(
                "--now is for scenarios; with --live the plan is made for the current time"
            )
        _print(_live(which, flags), output)
        return
    if unused := [f"--{name}" for name, value in which.items() if value is not None]:
        raise click.UsageError(f"{', '.join(unused)}: only with --live")
    read = scenarios.read(
        paths, now_s=now, clock=time.time, flags=flags, ignore_unknown_kinds=ignore_unknown_kinds
    )
    if isinstance(read, scenarios.Broken):
        for finding in read.findings:
            click.echo(str(finding), err=True)
        sys.exit(1)
    for note in read.notes:
        click.echo(f"note: {note}", err=True)
    _print(_plan(read), output)


def _print(plan: dict[str, Any], output: str) -> None:
    if output == "json":
        click.echo(plan_document.text(plan), nl=False)
    else:
        for line in plan_table.lines(plan):
            click.echo(line)


def _live(which: Mapping[str, str | None], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The plan for a running cluster. Flags override the settings of the program, as they override a Catalog's."""

    async def planned(cluster: "LiveCluster") -> dict[str, Any]:
        live_options.report(cluster)
        found = await cluster.plan(scenario.overridden(cluster.settings.planning, flags))
        for pool, why in found.unserved:
            click.echo(f"note: NodePool {pool} opens no nodes: {why}", err=True)
        return plan_document.document_of_uids(found.plan, found.rejected, found.pod_names)

    given = {name: value for name, value in which.items() if value is not None}
    return live_options.run("holdfast plan", given, planned)


def plan_documents(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The plan for a scenario of plain documents, as `-o json` prints it."""
    read = scenarios.of_documents(documents)
    assert not isinstance(read, scenarios.Broken), [str(finding) for finding in read.findings]
    return _plan(read)


def _plan(found: Scenario) -> dict[str, Any]:
    # Imported here: the planner is slow to import, and a mistake in the scenario should be reported first.
    from holdfast.core.scheduling.gangs import solve  # noqa: PLC0415

    plan = solve(dataclasses.replace(found.request, explain_slots=True))
    return plan_document.document_of_uids(plan, found.rejected, found.pod_names)
