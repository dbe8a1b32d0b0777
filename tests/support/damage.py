"""Damaged answers: a real one with a cut, a missing member, or a value of another type or range.

Callers: the tests of the two ports (tests/contract/test_damaged_*.py). `bodies` lists every damage of a body; a test takes
as many of them as HOLDFAST_DAMAGES says for each operation, chosen by a seed, or all of them for 0.
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
    """A context in which our errors are expected; any other exception gets a note with the answer."""

    operation: str
    status: int
    body: object

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if error is not None and not isinstance(error, errors.HoldfastError):
            error.add_note(f"{self.operation} was answered {self.status}: {self.body!r:.2000}")
        return isinstance(error, errors.HoldfastError)


def some(found: Sequence[T], seed: str, most: int = DAMAGES) -> list[T]:
    """As many of them as the tests take, the same ones each time."""
    return random.Random(seed).sample(found, min(most, len(found)) if most else len(found))


def bodies(body: bytes) -> list[Damage]:
    """Every damage of an answer, each to be made when it is called for."""
    cuts = [functools.partial(bytes, body[: len(body) * n // _CUTS]) for n in range(_CUTS)]
    last = functools.partial(bytes, body[:-1])
    return [*cuts, last, *(_xml(body) if body.lstrip().startswith(b"<") else _json(body))]


# --- XML --------------------------------------------------------------------------------------------


def shortened_xml(root: ET.Element, most: int = 2) -> None:
    """Leaves a few items in each list: a damage of one is a damage of all."""
    for parent in root.iter():
        items = [child for child in parent if _tag(child) in ("item", "member")]
        for child in items[most:]:
            parent.remove(child)
        for child in [child for child in parent if _tag(child) == "nextToken"]:
            parent.remove(child)


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _xml(body: bytes) -> Iterator[Damage]:
    for index, element in enumerate(ET.fromstring(body).iter()):  # noqa: S314 - our own
        for text in TEXTS if not len(element) else ("", "5"):
            yield functools.partial(_changed, body, index, text)
        if index:
            yield functools.partial(_without, body, index)
            yield functools.partial(_twice, body, index)


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


def _twice(body: bytes, index: int) -> bytes:
    root = ET.fromstring(body)  # noqa: S314
    element = list(root.iter())[index]
    next(parent for parent in root.iter() if element in list(parent)).append(copy.deepcopy(element))
    return ET.tostring(root)


# --- JSON -------------------------------------------------------------------------------------------


def shortened_json(value: Any, most: int = 2) -> Any:
    if isinstance(value, dict):
        return {key: shortened_json(child, most) for key, child in value.items() if key != "NextToken"}
    return [shortened_json(child, most) for child in value[:most]] if isinstance(value, list) else value


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
    whole = json.loads(body)
    _parent(whole, path)[path[-1]] = value
    return json.dumps(whole).encode()


def _drop(body: bytes, path: tuple[Any, ...]) -> bytes:
    whole = json.loads(body)
    del _parent(whole, path)[path[-1]]
    return json.dumps(whole).encode()


def _parent(whole: Any, path: tuple[Any, ...]) -> Any:
    return functools.reduce(lambda at, key: at[key], path[:-1], whole)
