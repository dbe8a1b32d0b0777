"""Prints a page: for a terminal with colors and as wide as it is, else as plain text.

Called by `leader`, `reservations` and `report`.
"""

import os
import shutil
import sys
from typing import Final

import click

from holdfast.cli import page_plain
from holdfast.cli.page import Page

_WIDTH: Final = 80  # of a terminal that does not report it


def is_terminal() -> bool:
    return sys.stdout.isatty()


def write(built: Page, *, wide: bool) -> None:
    if not is_terminal():
        click.echo(page_plain.text(built), nl=False)
        click.echo(page_plain.notes(built), nl=False, err=True)
        return
    from holdfast.cli import page_terminal  # noqa: PLC0415 - rich is slow to import

    colors = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    click.echo(page_terminal.text(built, width=width, colors=colors, wide=wide), nl=False, color=colors)
