"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.state.conversion import times

F = TypeVar("F", bound=Callable[..., Any])


def manifests(function: F) -> F:
    """Adds `-f`, which is required, and `--ignore-unknown-kinds` to a command."""
    return _manifests(function, required=True)


def optional_manifests(function: F) -> F:
    """Adds `-f` and `--ignore-unknown-kinds` to a command that has other input as well."""
    return _manifests(function, required=False)


def _manifests(function: F, *, required: bool) -> F:
    unknown = click.option(
        "--ignore-unknown-kinds",
        is_flag=True,
        help="Skip objects of kinds that Holdfast does not read.",
    )
    paths = click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        required=required,
        metavar="FILE",
        help="File or folder with YAML or JSON manifests; - is standard input. Repeatable.",
    )
    return paths(unknown(function))


def seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Click callback: a duration in seconds."""
    if value is None:
        return None
    found = times.duration_s(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a duration such as 30s or 1h30m")
    return found
