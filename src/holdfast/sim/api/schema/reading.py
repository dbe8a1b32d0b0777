"""Converts a decoded body to an object to store: checks types, drops and reports unknown fields.

Built-in kinds are decoded as in Go: a wrong type is an error, times and quantities get their canonical form, null means
unset. Custom resources are only pruned here; `custom` validates them.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.sim.api.schema import quantities
from holdfast.sim.api.schema.shapes import NOTHING, Shape

_SECONDS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_BITS: Final = {"int32": 31, "int64": 63}
_WORDS: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


class WrongType(Exception):
    """A value has the wrong type for its field."""


def built_in(value: Any, shape: Shape, unknown: list[str], stored: Mapping[str, Any] | None = None) -> Any:
    """The object of a built-in kind; the paths of unknown fields go into `unknown`. Raises WrongType.

    Parts of the value that are the same objects as in `stored` were read before, and are not read again."""
    return _Reader(unknown, typed=True).read(value, shape, "", stored)


def custom(value: Any, shape: Shape, unknown: list[str], stored: Mapping[str, Any] | None = None) -> Any:
    """The custom resource without fields that its CRD does not have; metadata is decoded as in built-in kinds. Parts
    that are the same objects as in `stored` are not read again."""
    reader = _Reader(unknown, typed=False)
    pruned = reader.read(value, shape, "", stored)
    if isinstance(pruned, dict) and "metadata" in pruned:
        meta, before = shape.properties["metadata"], (stored or {}).get("metadata")
        pruned["metadata"] = _Reader([], typed=True).read(pruned["metadata"] or {}, meta, ".metadata", before)
    return pruned


class _Reader:
    def __init__(self, unknown: list[str], *, typed: bool) -> None:
        self._unknown = unknown
        self._typed = typed

    def read(self, value: Any, shape: Shape, path: str, stored: Any = None) -> Any:
        match value:
            case dict():
                return self._object(value, shape, path, stored if isinstance(stored, dict) else {})
            case list():
                if self._typed and shape.type not in ("array", "any"):
                    raise _wrong(value, shape, path)
                items = shape.items if shape.type == "array" or shape.open else NOTHING
                if self._typed:  # null in a list is the zero value of the item type
                    value = [_ZEROS.get(items.type) if item is None else item for item in value]
                return [self.read(item, items, f"{path}[{i}]") for i, item in enumerate(value)]
        return self._scalar(value, shape, path) if self._typed else value

    def _object(self, value: dict[str, Any], shape: Shape, path: str, stored: dict[str, Any]) -> Any:
        if self._typed and shape.type not in ("object", "any"):
            raise _wrong(value, shape, path)
        known_fields: dict[str, Any] = {}
        properties, values = shape.properties, shape.values
        for name, child in value.items():
            was = stored.get(name)
            if was is not None and child is was:
                known_fields[name] = child
                continue
            known = properties.get(name) or values
            if known is not None and known.plain is type(child):
                known_fields[name] = child
            elif known is None and not shape.open:
                self._unknown.append(f"{path}.{name}"[1:])
            elif child is not None or not self._typed:
                known_fields[name] = (
                    child if known is None else self.read(child, known, f"{path}.{name}", was)
                )
        return known_fields

    @staticmethod
    def _scalar(value: Any, shape: Shape, path: str) -> Any:
        fits = _FITS.get(shape.type)
        if value is None or fits is None:
            return value
        if type(value) not in fits:
            raise _wrong(value, shape, path)
        match shape.type:
            case "quantity":
                return _quantity(value, path)
            case "time" | "microtime":
                return _time(value, shape.type, path)
            case "integer" if abs(value) >> _BITS.get(shape.format, 63):
                raise _wrong(value, shape, path)
        return value


_FITS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "quantity": (str, int, float),
    "int-or-string": (int, str),
    "time": (str,),
    "microtime": (str,),
}


_ZEROS: Final[Mapping[str, Any]] = {
    "object": {},
    "array": [],
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "quantity": "0",
    "int-or-string": 0,
}


def _quantity(value: str | float, path: str) -> str:
    text = quantities.canonical(value.strip() if isinstance(value, str) else repr(value))
    if text is None:
        raise WrongType(
            f"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            f" (at {path})"
        )
    return text


def _time(value: str, type_: str, path: str) -> str:
    if type_ == "time" and _SECONDS.fullmatch(value):
        return value
    try:
        moment = msgspec.convert(value, datetime)
    except msgspec.ValidationError as error:
        raise WrongType(f'parsing time "{value[:64]}" as "2006-01-02T15:04:05Z07:00" (at {path})') from error
    if moment.tzinfo is None:
        raise WrongType(f'parsing time "{value[:64]}" as "2006-01-02T15:04:05Z07:00" (at {path})')
    try:
        utc = moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError as error:
        raise WrongType(f'parsing time "{value[:64]}": out of range (at {path})') from error
    return utc.isoformat(timespec="seconds" if type_ == "time" else "microseconds") + "Z"


def _wrong(value: Any, shape: Shape, path: str) -> WrongType:
    number = (
        f" {value}"
        if isinstance(value, int) and not isinstance(value, bool) and shape.type == "integer"
        else ""
    )
    wanted = shape.format if shape.type == "integer" and shape.format else shape.type
    given = f"{_WORDS[type(value)]}{number[:40]}"
    return WrongType(f"json: cannot unmarshal {given} into Go struct field {path} of type {wanted}")
