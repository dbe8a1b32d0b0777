r"""The JSONPath of printer columns and of paths in CRDs: `.a.b`, `.a\.b/c`, `[0]`, `[*]`, `[?(@.type=="Ready")]`.

A path outside this subset selects nothing.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

Step = Callable[[Any], Iterator[Any]]

_STEP: Final = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\\])+)
      | \[\s*(?P<index>-?\d{1,6}|\*)\s*\]
      | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
      | \[\?\(\s*@\.(?P<key>[\w.]+)\s*==\s*(?P<mark>['"])(?P<value>.*?)(?P=mark)\s*\)\]""",
    re.VERBOSE,
)


def find(path: str, value: Any) -> list[Any]:
    """Every value that the path selects."""
    found = [value]
    for step in _steps(path):
        found = [child for one in found for child in step(one)]
    return found


def names(path: str) -> tuple[str, ...]:
    """The field names of a path without other steps, for example that of a custom resource's replicas."""
    return tuple(re.sub(r"\\(.)", r"\1", match["name"]) for match in _STEP.finditer(path) if match["name"])


@cache
def _steps(path: str) -> tuple[Step, ...]:
    steps, at = [], 0
    text = path.strip("{}")
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return (lambda _value: iter(()),)
        steps.append(_step(match))
        at = match.end()
    return tuple(steps)


def _step(match: "re.Match[str]") -> Step:
    if match["index"] == "*":
        return _all
    if match["index"]:
        return _index(int(match["index"]))
    if match["key"]:
        return _where(match["key"].split("."), match["value"])
    return _field(re.sub(r"\\(.)", r"\1", match["name"] or match["quoted"] or ""))


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _where(keys: list[str], wanted: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            found: Any = item
            for key in keys:
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None and str(found) == wanted:
                yield item

    return step


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
