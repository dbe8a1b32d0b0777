"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.state import times

F = TypeVar("F", bound=Callable[..., Any])


def manifests(function: F) -> F:
    """`-f` and what goes with it: the manifests that a command reads."""
    unknown = click.option(
        "--ignore-unknown-kinds",
        is_flag=True,
        help="Pass over objects of kinds that Holdfast does not read instead of reporting them.",
    )
    paths = click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        required=True,
        metavar="FILE",
        help="A file or a folder of YAML or JSON manifests, or - for standard input. May be given several times.",
    )
    return paths(unknown(function))


def seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """A callback for durations."""
    if value is None:
        return None
    found = times.duration_s(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a duration such as 30s or 1h30m")
    return found
