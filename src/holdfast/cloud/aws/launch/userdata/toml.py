"""Writes TOML from plain values; the standard library can only read it. tomllib reads back equal values.

Called by `bottlerocket`. Tables are sorted, so that equal values give equal texts.
"""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def text(table: Mapping[str, Any]) -> str:
    return "\n".join(_lines(table, ()))


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """A table's values come first: everything after a heading belongs to that table."""
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (values or not tables):
        yield f"[{'.'.join(map(_key, path))}]"
    for key in sorted(values):
        yield f"{_key(key)} = {_value(values[key])}"
    if values:
        yield ""
    for key in sorted(tables):
        yield from _lines(tables[key], (*path, key))


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            inside = ", ".join(f"{_key(key)} = {_value(value[key])}" for key in sorted(value))
            return f"{{{inside}}}"
        case _:
            return _string(str(value))


def _string(value: str) -> str:
    """TOML has JSON's escapes, except for surrogate pairs and DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
