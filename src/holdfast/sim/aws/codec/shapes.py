"""Checks results of the simulated services against the shapes of botocore's service model.

A member that AWS does not have, or a number instead of a string, is a bug of the simulator and raises `WrongShape`; it
is never returned. The checked result is a copy, so that no caller can change a service's state. Of a structure that the
service never changes there is one copy, which is read-only. Times have the precision of the wire.
"""

import datetime as dt
import io
from collections.abc import Callable, Mapping
from typing import Any, Final

from botocore.model import Shape

from holdfast.sim.aws.codec.read_only import ReadOnlyDict, read_only

Convert = Callable[[Any], Any]

GROWING_ENUMS: Final = ("InstanceType",)  # AWS has more values of these than any released model


class WrongShape(Exception):
    """A simulated service returned a result that AWS cannot return."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path

    def inside(self, name: str) -> "WrongShape":
        return WrongShape(self.problem, f"{name}.{self.path}" if self.path else name)


class Unchanging(dict[str, Any]):
    """A structure that its service never changes. It is checked and copied once for each shape; all callers share the
    copy, and recognise an unchanged structure by its identity."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.copies: dict[str, ReadOnlyDict] = {}  # by the name of the shape


def strict_copy(shape: Shape) -> Convert:
    """A function that copies a value of this shape, or raises WrongShape."""
    return _compile(shape, _STRICT, _one_of)


def wire_copy(shape: Shape) -> Convert:
    """A function that copies parameters that botocore has validated, as they would arrive over the wire: a string for a
    blob becomes bytes, a number for a time a datetime."""
    return _compile(shape, _LENIENT, lambda _: _as_it_is)


class Members(dict[str, Any]):
    """Functions compiled for each member of a structure at its first use, because shapes can be recursive."""

    def __init__(self, shape: Shape, compiled: Callable[[str, Shape], Any]) -> None:
        super().__init__()
        self._shape = shape
        self._compiled = compiled

    def __missing__(self, name: str) -> Any:
        member = self._shape.members.get(name)
        if member is None:
            raise WrongShape("the service model has no such member")
        self[name] = self._compiled(name, member)
        return self[name]


def utc_millis(value: dt.datetime) -> dt.datetime:
    """The time with the precision of the wire."""
    value = value.astimezone(dt.UTC)
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _compile(shape: Shape, scalars: Mapping[str, Convert], enum: Callable[[Shape], Convert]) -> Convert:
    match shape.type_name:
        case "structure":
            return _structure(shape, lambda member: _compile(member, scalars, enum))
        case "list":
            return _list(_compile(shape.member, scalars, enum))
        case "map":
            return _map(_compile(shape.key, scalars, enum), _compile(shape.value, scalars, enum))
        case "string" if shape.enum and shape.name not in GROWING_ENUMS:
            return enum(shape)
        case kind:
            return scalars[kind]


def _structure(shape: Shape, compiled: Callable[[Shape], Convert]) -> Convert:
    members = Members(shape, lambda _, member: compiled(member))

    def convert(value: Any) -> dict[str, Any]:
        if isinstance(value, Unchanging) and shape.name in value.copies:
            return value.copies[shape.name]
        if not isinstance(value, Mapping):
            raise WrongShape(f"{value!r} is not a structure")
        found: dict[str, Any] = {}
        for name, item in value.items():
            try:
                found[name] = members[name](item)
            except WrongShape as wrong:
                raise wrong.inside(name) from None
        if isinstance(value, Unchanging):
            found = value.copies[shape.name] = read_only(found)
        return found

    return convert


def _list(of_item: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise WrongShape(f"{value!r} is not a list")
        try:
            return [of_item(item) for item in value]
        except WrongShape as wrong:
            raise wrong.inside("[]") from None

    return convert


def _map(of_key: Convert, of_value: Convert) -> Convert:
    def convert(value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise WrongShape(f"{value!r} is not a map")
        try:
            return {of_key(key): of_value(item) for key, item in value.items()}
        except WrongShape as wrong:
            raise wrong.inside("{}") from None

    return convert


def _one_of(shape: Shape) -> Convert:
    allowed = frozenset(shape.enum)

    def convert(value: Any) -> str:
        if value not in allowed:
            raise WrongShape(f"{value!r} is not one of {shape.name}")
        return str(value)

    return convert


def _as_it_is(value: Any) -> Any:
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongShape(f"{value!r} is not a string")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongShape(f"{value!r} is not an integer")
    return value


def _float(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise WrongShape(f"{value!r} is not a number")
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongShape(f"{value!r} is not a boolean")
    return value


def _timestamp(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        raise WrongShape(f"{value!r} is not a datetime with a time zone")
    return utc_millis(value)


def _blob(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise WrongShape(f"{value!r} is not bytes")
    return value


def _any_timestamp(value: Any) -> dt.datetime:
    """botocore accepts datetimes with and without a zone (then UTC), numbers and strings."""
    if isinstance(value, int | float):
        return utc_millis(dt.datetime.fromtimestamp(value, dt.UTC))
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    return utc_millis(value if value.tzinfo else value.replace(tzinfo=dt.UTC))


def _any_blob(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value.read() if isinstance(value, io.IOBase) else bytes(value)


_STRICT: Final[Mapping[str, Convert]] = {
    "string": _string,
    "character": _string,
    "integer": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "boolean": _boolean,
    "timestamp": _timestamp,
    "blob": _blob,
}
_LENIENT: Final[Mapping[str, Convert]] = {
    **dict.fromkeys(_STRICT, _as_it_is),
    "float": float,
    "double": float,
    "timestamp": _any_timestamp,
    "blob": _any_blob,
}
