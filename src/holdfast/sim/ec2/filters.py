"""Filters of Describe calls, applied to the response.

Each Describe call has a table from the name of a filter to a member. As in EC2, filters are ANDed and the values of one
are ORed; `*` and `?` are wildcards, a backslash escapes them; values are case-sensitive; an unknown name is an error.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from holdfast.sim.ec2 import times
from holdfast.sim.ec2.requests import Request, invalid

Paths = Mapping[str, str]  # from the name of a filter to a dotted path, through lists

_SPECIAL: Final = re.compile(r"[*?\\]")


def keep(
    answers: Iterable[dict[str, Any]], request: Request, paths: Paths, *, tags: str = "Tags"
) -> list[dict[str, Any]]:
    """The items that match every filter of the request. `tags` is the member with the tags; "" for none."""
    return list(filter(matcher(request, paths, tags=tags), answers))


def matcher(request: Request, paths: Paths, *, tags: str = "Tags") -> Callable[[Mapping[str, Any]], bool]:
    """Whether an item matches every filter of the request."""
    tests = []
    for given in request.get("Filters", ()):
        name, values = given.get("Name", ""), given.get("Values", [])
        if not values:
            raise invalid(f"The filter '{name}' needs a value.")
        patterns = [_pattern(str(value)) for value in values]
        tests.append((_path(name, paths, tags), patterns))
    return lambda answer: all(_passes(answer, *test) for test in tests)


def has_wildcards(values: Iterable[str]) -> bool:
    return any(_SPECIAL.search(str(value)) for value in values)


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
