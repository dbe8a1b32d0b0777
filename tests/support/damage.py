"""Damaged answers: a real answer that is truncated, lacks a member, or has a value of another type or range.

Used by tests/contract/test_damaged_*.py. `bodies` lists every damage of a body. For each operation a test uses a sample of
HOLDFAST_DAMAGES damages, chosen by a seed; 0 means all.
"""

import copy
import functools
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from xml.etree import ElementTree as ET

from holdfast import errors

Damage = Callable[[], bytes]
T = TypeVar("T")

DAMAGES: Final = int(os.environ.get("HOLDFAST_DAMAGES", "24"))
_CUTS: Final = 24
_DEEP: Final = 20_000
TEXTS: Final = (
    "",
    "null",
    "-1",
    "5",
    "true",
    "9" * 40,
    "9" * 5000,
    "1e400",
    "NaN",
    "zzz",
    "\u0661",
    "9999-12-31T23:59:59-14:00",
    "0001-01-01T00:00:00+14:00",
    "2026-11-15T10:00:00",
)
VALUES: Final[tuple[Any, ...]] = (
    None,
    5,
    -1,
    2**63,
    10**30,
    1.5,
    True,
    [],
    [5],
    {},
    {"a": None},
    *TEXTS,
)
# Whole bodies, each sent with the statuses of STATUSES.
FOREIGN: Final = (
    b"",
    b"null",
    b"5",
    b'"text"',
    b"[]",
    b"{}",
    b"[{}]",
    b"\xff\xfe\x00",
    b"Service Unavailable",
    b"<html><body><h1>502 Bad Gateway</h1></body></html>",
    b"<?xml version='1.0'?><Response><Errors><Error/></Errors></Response>",
    b'{"kind":"Status","status":"Failure","code":"x","reason":5}',
    b'{"a":' * _DEEP,
    b"[" * _DEEP + b"]" * _DEEP,
    b"<a>" * _DEEP + b"</a>" * _DEEP,
)
STATUSES: Final = (200, 204, 301, 400, 403, 404, 409, 410, 429, 500, 503)


@dataclass(frozen=True)
class OnlyOurErrors:
    """A context that suppresses errors of Holdfast. Any other exception gets a note with the answer."""

    operation: str
    status: int
    body: object

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if error is not None and not isinstance(error, errors.HoldfastError):
            error.add_note(f"{self.operation} was answered {self.status}: {self.body!r:.2000}")
        return isinstance(error, errors.HoldfastError)


def some(items: Sequence[T], seed: str, count: int = DAMAGES) -> list[T]:
    """A sample that is the same in every run; all items if the size is 0."""
    return random.Random(seed).sample(items, min(count, len(items)) if count else len(items))


def bodies(body: bytes) -> list[Damage]:
    """Every damage of an answer. Each is a function, so that only the sampled ones are computed."""
    cuts = [functools.partial(bytes, body[: len(body) * n // _CUTS]) for n in range(_CUTS)]
    without_last_byte = functools.partial(bytes, body[:-1])
    return [*cuts, without_last_byte, *(_xml(body) if body.lstrip().startswith(b"<") else _json(body))]


# --- XML --------------------------------------------------------------------------------------------


def shortened_xml(root: ET.Element, count: int = 2) -> None:
    """Keeps the first items of each list, because damaging further items tests nothing new."""
    for parent in root.iter():
        items = [child for child in parent if _tag(child) in ("item", "member")]
        for child in items[count:]:
            parent.remove(child)
        for child in [child for child in parent if _tag(child) == "nextToken"]:
            parent.remove(child)


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _xml(body: bytes) -> Iterator[Damage]:
    for index, element in enumerate(ET.fromstring(body).iter()):  # noqa: S314 - from our own server
        for text in TEXTS if not len(element) else ("", "5"):
            yield functools.partial(_changed, body, index, text)
        if index:
            yield functools.partial(_without, body, index)
            yield functools.partial(_duplicated, body, index)


def _changed(body: bytes, index: int, text: str) -> bytes:
    root = ET.fromstring(body)  # noqa: S314
    element = list(root.iter())[index]
    for child in list(element):
        element.remove(child)
    element.text = text
    return ET.tostring(root)


def _without(body: bytes, index: int) -> bytes:
    root = ET.fromstring(body)  # noqa: S314
    element = list(root.iter())[index]
    next(parent for parent in root.iter() if element in list(parent)).remove(element)
    return ET.tostring(root)


def _duplicated(body: bytes, index: int) -> bytes:
    root = ET.fromstring(body)  # noqa: S314
    element = list(root.iter())[index]
    next(parent for parent in root.iter() if element in list(parent)).append(copy.deepcopy(element))
    return ET.tostring(root)


# --- JSON -------------------------------------------------------------------------------------------


def shortened_json(value: Any, count: int = 2) -> Any:
    if isinstance(value, dict):
        return {key: shortened_json(child, count) for key, child in value.items() if key != "NextToken"}
    return [shortened_json(child, count) for child in value[:count]] if isinstance(value, list) else value


def _json(body: bytes) -> Iterator[Damage]:
    for path in _paths(json.loads(body)):
        for value in VALUES:
            yield functools.partial(_put, body, path, value)
        yield functools.partial(_drop, body, path)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*at, key)
        yield from _paths(child, (*at, key))


def _put(body: bytes, path: tuple[Any, ...], value: Any) -> bytes:
    document = json.loads(body)
    _parent(document, path)[path[-1]] = value
    return json.dumps(document).encode()


def _drop(body: bytes, path: tuple[Any, ...]) -> bytes:
    document = json.loads(body)
    del _parent(document, path)[path[-1]]
    return json.dumps(document).encode()


def _parent(document: Any, path: tuple[Any, ...]) -> Any:
    return functools.reduce(lambda at, key: at[key], path[:-1], document)
