"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

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
