"""Validates the content of AWS responses: types, missing members, numbers and dates out of range.

Called by `calls` for every response, and by the modules that parse one. botocore does not guarantee the types of its
model: a proxy, a truncated body or a new version of a service returns others. Every problem with a response becomes
`errors.Unreachable` with the name of the operation, never another exception.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary
from xml.etree.ElementTree import ParseError

import structlog

from holdfast import errors

R = TypeVar("R")

COUNT_MAX: Final = 2**31 - 1
_INTEGER_MAX: Final = 2**63 - 1
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)  # date arithmetic does not overflow there
_POLICY: Final = "policyDocumentType"  # IAM: a string that botocore decodes
_LOGGED_MAX: Final = 200  # characters of a value in a message

# The exceptions of Python for a value of an unexpected type or range.
MALFORMED: Final = (
    ValueError,  # also UnicodeError, and JSON and msgspec errors
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    ParseError,
)


@contextlib.contextmanager
def reading(operation: str) -> Iterator[None]:
    """Maps every exception of MALFORMED inside the block to Unreachable."""
    try:
        yield
    except MALFORMED as error:
        raise errors.Unreachable(f"{operation}: the answer cannot be read: {_words(error)}") from error


def each(operation: str, items: Iterable[Any], parse: Callable[[Any], R]) -> Iterator[R]:
    """Parses a list that is useful in parts, such as prices. Items that cannot be parsed are left out and logged."""
    skipped, first = 0, ""
    for item in items:
        try:
            with reading(operation):
                parsed = parse(item)
        except (errors.Unreachable, errors.InvalidInput) as error:
            skipped, first = skipped + 1, first or str(error)
        else:
            yield parsed
    if skipped:
        structlog.get_logger().warning(
            "items of an AWS answer left out", operation=operation, items=skipped, error=first
        )


def count(value: int, most: int = COUNT_MAX) -> int:
    """Returns the count; ValueError if it is out of range."""
    if not 0 <= value <= most:
        raise ValueError(f"{value} is not between 0 and {most}")
    return value


def epoch_s(moment: datetime) -> int:
    """Whole seconds since the epoch; ValueError for a date out of range. A date without a zone is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if not _FIRST <= aware <= _LAST:
        raise ValueError(f"{aware} is out of range")
    return int(aware.timestamp() // 1)


def instance_id(value: str) -> str:
    if not value.startswith("i-"):
        raise ValueError(f"{_shown(value)} is not an instance id")
    return value


# --- Types ------------------------------------------------------------------------------------------


class Checked:
    """The read-only structures that were checked before. A hashable mapping cannot change, so it is checked once; what
    botocore parses from a response is never hashable. Entries last as long as their structure."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[int, str], Any] = (
            WeakValueDictionary()
        )  # by identity and shape

    def has(self, structure: Any, shape: Any) -> bool:
        return self._known.get((id(structure), shape.name)) is structure

    def unknown(self, values: Iterable[Any], shape: Any) -> list[Any]:
        """The values of a list that were not checked before."""
        known, name = self._known.get, shape.name
        return [value for value in values if known((id(value), name)) is not value]

    def add(self, structure: Any, shape: Any) -> None:
        self._known[id(structure), shape.name] = structure


def check(answer: Any, shape: Any, checked: Checked, where: str = "") -> None:
    """Raises TypeError if a member does not have the type of botocore's service model. Ignores unknown members."""
    kind = shape.type_name if shape is not None else "structure"
    if shape is not None and shape.name == _POLICY:
        return
    if not _TYPES[kind](answer):
        raise TypeError(f"{where or 'the answer'} is {_shown(answer)}, which is no {kind}")
    if shape is None:
        return
    if kind == "structure":
        _check_members(answer, shape, checked, where)
    elif kind == "list":
        for value in checked.unknown(answer, shape.member):
            check(value, shape.member, checked, where)
    elif kind == "map":
        for key, value in answer.items():
            check(key, shape.key, checked, where)
            check(value, shape.value, checked, where)


def _check_members(answer: Mapping[str, Any], shape: Any, checked: Checked, where: str) -> None:
    if is_hashable(answer) and checked.has(answer, shape):
        return
    members = shape.members
    for key, value in answer.items():
        if key in members:
            check(value, members[key], checked, f"{where}.{key}" if where else key)
    if is_hashable(answer):
        checked.add(answer, shape)


def is_hashable(structure: Any) -> bool:
    """Whether a structure of a response cannot change. Those of botocore are dicts, which can."""
    return type(structure).__hash__ is not None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _INTEGER_MAX


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "structure": _of(Mapping),
    "map": _of(Mapping),
    "list": _of(list, tuple),
    "string": _of(str),
    "boolean": _of(bool),
    "timestamp": _of(datetime),
    "blob": _of(bytes, bytearray),
    "integer": _is_integer,
    "long": _is_integer,
    "float": _is_number,
    "double": _is_number,
}


def _words(error: BaseException) -> str:
    if isinstance(error, KeyError) and error.args:
        return f"{_shown(error.args[0])} is missing"
    return f"{type(error).__name__}: {error}"[:_LOGGED_MAX]


def _shown(value: Any) -> str:
    return repr(value)[:_LOGGED_MAX]
