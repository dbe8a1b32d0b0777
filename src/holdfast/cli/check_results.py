"""Prints the results of checks, as lines or as JSON, for `holdfast doctor` and `holdfast adopt`."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Final, NoReturn

import click

from holdfast.model import check_results
from holdfast.model.check_results import CheckResult, Level

_PROBLEMS: Final = 1
_COLORS: Final = {Level.OK: "green", Level.INFO: "cyan", Level.WARNING: "yellow", Level.ERROR: "red"}
_WIDTH: Final = max(map(len, Level))


def option() -> click.Option:
    return click.Option(
        ["-o", "--output"], type=click.Choice(["text", "json"]), default="text", help="Form of the results."
    )


def print_and_exit(results: Sequence[CheckResult], output: str) -> NoReturn:
    """The exit code is 1 if a result is an error."""
    if output == "json":
        click.echo(json.dumps(_document(results), indent=2))
    else:
        for one in results:
            click.echo(_line(one))
        click.echo(_summary(results), err=True)
    sys.exit(_PROBLEMS if check_results.has_errors(results) else 0)


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
