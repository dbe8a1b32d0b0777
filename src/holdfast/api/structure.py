"""Checks of the API server in addition to the schema: lists that are sets or maps, and the size of integers.

Called by `validation`, after defaults are filled in.
"""

import json
from collections.abc import Hashable, Iterator
from typing import Any, Final

from holdfast.api.findings import Finding, Path

_BITS: Final = {"int32": 32, "int64": 64}
_MOST_BITS: Final = 64


def findings(value: Any, schema: dict[str, Any], path: Path = ()) -> Iterator[Finding]:
    """Mistakes at and below a value; values of a wrong type are skipped."""
    if isinstance(value, dict):
        properties, fallback = schema.get("properties", {}), schema.get("additionalProperties", {})
        for name, child in value.items():
            yield from findings(child, properties.get(name, fallback), (*path, name))
    elif isinstance(value, list):
        yield from _repeated(value, schema, path)
        for index, item in enumerate(value):
            yield from findings(item, schema.get("items", {}), (*path, index))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from _too_big(value, schema, path)


def _repeated(items: list[Any], schema: dict[str, Any], path: Path) -> Iterator[Finding]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    keys = schema.get("x-kubernetes-list-map-keys", ())
    message = f"is there twice: another item has the same {' and '.join(keys)}" if keys else "is there twice"
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        known_by = [item.get(key) for key in keys] if keys and isinstance(item, dict) else item
        identity = _identity(known_by)
        if identity in seen:
            yield Finding((*path, index), message)
        seen.add(identity)


def _identity(known_by: Any) -> Hashable:
    """Equal for equal JSON values. Most lists are of texts, such as the types of conditions."""
    if isinstance(known_by, list) and all(isinstance(one, str) for one in known_by):
        return tuple(known_by)
    return json.dumps(known_by, sort_keys=True)


def _too_big(value: int, schema: dict[str, Any], path: Path) -> Iterator[Finding]:
    if schema.get("type") != "integer" and not schema.get("x-kubernetes-int-or-string"):
        return
    bits = _BITS.get(schema.get("format", ""), _MOST_BITS)
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if not least <= value <= most:
        yield Finding(path, f"must be a whole number from {least} to {most}")
