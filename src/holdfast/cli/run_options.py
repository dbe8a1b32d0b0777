"""The settings of `holdfast run` as options, for the commands that take them.

Not in `options`: the settings import the controllers, which other commands do not need.
"""

from collections.abc import Mapping

import click

from holdfast.app import settings
from holdfast.app.settings import Setting


def parameters() -> list[click.Parameter]:
    """The settings of `holdfast run` as options, with those of Karpenter that have no effect hidden."""
    hidden = (
        click.Option([f"--{name}"], hidden=True, is_flag=False, flag_value="true")
        for name in settings.WITHOUT_EFFECT
    )
    return [*map(_option, settings.TABLE), *hidden]


def flags(written: Mapping[str, str | None]) -> dict[str, str]:
    """The options that were written, by the names of their flags."""
    return {name.replace("_", "-"): value for name, value in written.items() if value is not None}


def _option(setting: Setting) -> click.Option:
    note = f"[{setting.variable}" + (f"; default: {setting.default}]" if setting.default else "]")
    return click.Option(
        [f"--{setting.name}"],
        is_flag=False,
        flag_value="true" if setting.is_switch else None,
        metavar="[true|false]" if setting.is_switch else "VALUE",
        help=f"{setting.help}  {note}",
    )
