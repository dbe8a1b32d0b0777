"""`holdfast plan`: what would be launched for a scenario, where its pods would go, and why not elsewhere."""

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
from holdfast.state import plan_document, times
from holdfast.state.scenario import Scenario


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
    help="When the plan is made, instead of the Catalog's time or the clock's.",
)
@click.option("--packing", type=_words(Packing), help="How nodes are filled.")
@click.option("--packing-candidates", type=click.IntRange(0, 1000), help="How many other packings are tried.")
@click.option(
    "--node-cost", callback=_price, metavar="USD", help="What each node costs an hour beside its instance."
)
@click.option(
    "--reserved-capacity/--no-reserved-capacity", default=None, help="Whether reservations are used."
)
@click.option(
    "--reserved-before-weight/--no-reserved-before-weight",
    default=None,
    help="Whether a free slot comes before a NodePool with more weight.",
)
@click.option(
    "--reserved-mode",
    type=_words(ReservedMode),
    help="Whether a pod without a slot buys or waits.",
)
@click.option(
    "--reservation-wait", callback=_duration, metavar="DURATION", help="How long a pod waits for a slot."
)
@click.option("--preference-policy", type=_words(PreferencePolicy), help="What wishes of pods count.")
@click.option("--min-values-policy", type=_words(MinValuesPolicy), help="Whether minValues is kept.")
@click.option("--max-instance-types", type=click.IntRange(1, 10000), help="How many types one claim lists.")
@click.option(
    "--ledger-lag", callback=_duration, metavar="DURATION", help="How long a count may not show a launch."
)
def command(
    paths: tuple[str, ...], output: str, now: int | None, *, ignore_unknown_kinds: bool, **flags: Any
) -> None:
    """Plan a scenario: manifests and a Catalog of what could be bought and what is reserved.

    Nothing is launched and no cluster is asked. Settings that are not given as flags come from the Catalog.
    Mistakes are one line each on standard error, and the exit code is 1.
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
    """The plan for a scenario of plain documents: what the command prints with `-o json`, without files."""
    read = scenarios.of_documents(documents)
    assert not isinstance(read, scenarios.Broken), [str(finding) for finding in read.findings]
    return _plan(read)


def _plan(scenario: Scenario) -> dict[str, Any]:
    # Imported here: the planner is heavy, and a scenario with a mistake should be told so at once.
    from holdfast.core.scheduling.solve import solve  # noqa: PLC0415

    plan = solve(dataclasses.replace(scenario.request, explain_slots=True))
    return plan_document.document(plan, rejected=scenario.rejected, not_reserved=plan.not_reserved)
