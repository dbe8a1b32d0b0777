"""Filters of Describe calls, over what the call would answer.

Each Describe call has a table from the filter's name to the member it looks at. The rules, as EC2's: filters
are joined by and, the values of one by or; `*` and `?` are wildcards, a backslash takes their meaning away;
values are compared case by case; a name that is not in the table is an error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from holdfast.sim.ec2 import times
from holdfast.sim.ec2.requests import Request, invalid

Paths = Mapping[str, str]  # from a filter's name to a dotted path, through lists


def keep(
    answers: Iterable[dict[str, Any]], request: Request, paths: Paths, *, tags: str = "Tags"
) -> list[dict[str, Any]]:
    """The answers that pass every filter of the request. `tags` is the member that holds tags; "" for none."""
    tests = []
    for given in request.get("Filters", ()):
        name, values = given.get("Name", ""), given.get("Values", [])
        if not values:
            raise invalid(f"The filter '{name}' needs a value.")
        patterns = [_pattern(str(value)) for value in values]
        tests.append((_path(name, paths, tags), patterns))
    return [answer for answer in answers if all(_passes(answer, *test) for test in tests)]


def _path(name: str, paths: Paths, tags: str) -> str:
    if tags and name.startswith("tag:"):
        return f"{tags}:{name[4:]}"
    if tags and name == "tag-key":
        return f"{tags}.Key"
    if name not in paths:
        raise invalid(f"The filter '{name}' is invalid")
    return paths[name]


def _passes(answer: Mapping[str, Any], path: str, patterns: list[re.Pattern[str]]) -> bool:
    return any(pattern.fullmatch(value) for value in _values(answer, path) for pattern in patterns)


def _values(answer: Mapping[str, Any], path: str) -> Iterator[str]:
    members, _, tag = path.partition(":")
    if tag:
        yield from (each["Value"] for each in answer.get(members, ()) if each["Key"] == tag)
        return
    yield from (_text(value) for value in _reach(answer, members.split(".")))


def _reach(value: Any, path: list[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _reach(each, path)
    elif not path:
        yield value
    elif path[0] in value:
        yield from _reach(value[path[0]], path[1:])


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return times.image_text(times.seconds(value))
        case _:
            return str(value)


def _pattern(value: str) -> re.Pattern[str]:
    """`a*b?c\\*d` -> a, anything, b, one character, c, a star, d."""
    wild = {"*": ".*", "?": "."}
    parts = re.findall(r"\\.|.", value, re.DOTALL)
    return re.compile("".join(wild.get(p) or re.escape(p[-1]) for p in parts), re.DOTALL)
