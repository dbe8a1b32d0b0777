"""`holdfast plan`: shows which nodes would be launched for a scenario, and why."""

import dataclasses
import enum
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click

from holdfast import errors
from holdfast.cli import options, plan_table, scenarios
from holdfast.core.scheduling.input.request import MinValuesPolicy, Packing, PreferencePolicy, ReservedMode
from holdfast.model import prices
from holdfast.scenarios import plan_document
from holdfast.scenarios.scenario import Scenario
from holdfast.state.conversion import times


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
@options.manifests
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
    "--ledger-lag",
    callback=_duration,
    metavar="DURATION",
    help="How long EC2's reservation counts may lag behind a launch.",
)
def command(
    paths: tuple[str, ...], output: str, now: int | None, *, ignore_unknown_kinds: bool, **flags: Any
) -> None:
    """Show which nodes would be launched for a scenario: manifests, and a Catalog of offerings and reservations.

    Launches nothing and calls no API. Flags override the settings of the Catalog. Mistakes in the files are printed
    to standard error, one per line, and the exit code is 1.
    """
    read = scenarios.read(
        paths, now_s=now, clock=time.time, flags=flags, ignore_unknown_kinds=ignore_unknown_kinds
    )
    if isinstance(read, scenarios.Broken):
        for finding in read.findings:
            click.echo(str(finding), err=True)
        sys.exit(1)
    for note in read.notes:
        click.echo(f"note: {note}", err=True)
    plan = _plan(read)
    if output == "json":
        click.echo(plan_document.text(plan), nl=False)
    else:
        for line in plan_table.lines(plan):
            click.echo(line)


def plan_documents(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The plan for a scenario of plain documents, as `-o json` prints it."""
    read = scenarios.of_documents(documents)
    assert not isinstance(read, scenarios.Broken), [str(finding) for finding in read.findings]
    return _plan(read)


def _plan(scenario: Scenario) -> dict[str, Any]:
    # Imported here: the planner is slow to import, and a mistake in the scenario should be reported first.
    from holdfast.core.scheduling.solve import solve  # noqa: PLC0415

    plan = solve(dataclasses.replace(scenario.request, explain_slots=True))
    return plan_document.document(plan, rejected=scenario.rejected, not_reserved=plan.not_reserved)
