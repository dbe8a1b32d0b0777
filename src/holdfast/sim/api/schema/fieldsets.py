"""Sets of fields: which fields an object has, and which ones two objects differ in.

Called by `managed`. A path is a tuple of steps as FieldsV1 spells them: `f:name`, `k:{"type":"Ready"}`, `v:"x"`. A list
that is merged by keys or as a set has a step per item; any other list, and an atomic map, is one field.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from holdfast.sim.api.schema.shapes import Shape

Path = tuple[str, ...]
Json = dict[str, Any]

# Objects of a kind have the same fields, so their sets are cached. Not so many that a week of pods needs memory: the set
# of a running pod has its address and is its own.
_REMEMBERED: Final = 512
_key_text: Final = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Difference:
    """The fields that a new object adds or changes, and those that it removes."""

    changed: frozenset[Path]
    removed: frozenset[Path]


def of(value: Any, shape: Shape) -> frozenset[Path]:
    """Every field of an applied configuration."""
    return frozenset(_members(value, shape, ()))


def compare(old: Json, new: Json, shape: Shape) -> Difference:
    changed: set[Path] = set()
    removed: set[Path] = set()
    _compare(old, new, shape, (), changed, removed)
    return Difference(frozenset(changed), frozenset(removed))


@lru_cache(maxsize=_REMEMBERED)
def to_fields(paths: frozenset[Path]) -> Json:
    """FieldsV1: a tree in which `.` is a field that has other fields below it. Do not change the returned value."""
    tree: Json = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return _without_lone_dots(tree)


def from_fields(fields: Any) -> frozenset[Path]:
    return _from_text(msgspec.json.encode(fields)) if isinstance(fields, dict) else frozenset()


@lru_cache(maxsize=_REMEMBERED)
def _from_text(fields: bytes) -> frozenset[Path]:
    return frozenset(_paths(msgspec.json.decode(fields), ()))


def identity(item: Any, shape: Shape) -> str:
    """The step of an item in a list that is merged; `shape` is the list's."""
    if shape.list_type == "set" or not isinstance(item, dict):
        return f"v:{_key_text(item).decode()}"
    defaults = shape.items.key_defaults
    keys = {key: item.get(key, defaults.get(key)) for key in shape.list_keys}
    return f"k:{_key_text({key: value for key, value in keys.items() if value is not None}).decode()}"


def merges(value: Any, shape: Shape) -> bool:
    """Whether the parts of the value have separate owners."""
    if isinstance(value, dict):
        return not shape.atomic_map
    return isinstance(value, list) and shape.list_type in ("map", "set")


def dotted(path: Path) -> str:
    """A path as in messages: .spec.containers[name="a"].image."""
    return "".join(_step_text(step) for step in path)


def _members(value: Any, shape: Shape, path: Path) -> Iterator[Path]:
    if not merges(value, shape):
        yield path
    elif isinstance(value, dict):
        for name, child in value.items():
            at = (*path, f"f:{name}")
            yield from _members(child, shape.child(name), at)
            if child is None or child == {} or name not in shape.properties:
                yield at
    else:
        for item in value:
            at = (*path, identity(item, shape))
            yield at
            if shape.list_type == "map":
                yield from _members(item, shape.items, at)


def _compare(old: Any, new: Any, shape: Shape, path: Path, changed: set[Path], removed: set[Path]) -> None:
    """Adds the differences of two objects, or of two other values that are not equal."""
    if not (merges(old, shape) and merges(new, shape) and type(old) is type(new)):
        changed.add(path)
    elif isinstance(new, dict):
        for name, child in new.items():
            if name in old and (old[name] is child or old[name] == child):
                continue
            at, below = (*path, f"f:{name}"), shape.child(name)
            there = name in old or below.always_there or name in shape.required
            if name not in old and there and merges(child, below):
                if child:
                    _compare(type(child)(), child, below, at, changed, removed)
            elif name in old:
                _compare(old[name], child, below, at, changed, removed)
            else:
                changed.update(_whole(child, below, at))
        for name in old.keys() - new.keys():
            removed.update(_whole(old[name], shape.child(name), (*path, f"f:{name}")))
    else:
        _compare_items(old, new, shape, path, changed, removed)


def _compare_items(
    old: list[Any], new: list[Any], shape: Shape, path: Path, changed: set[Path], removed: set[Path]
) -> None:
    before = {identity(item, shape): item for item in old}
    after = {identity(item, shape): item for item in new}
    for step, item in after.items():
        at = (*path, step)
        if step in before:
            if before[step] == item:
                continue
            _compare(before[step], item, shape.items, at, changed, removed)
        else:
            changed.update(_whole(item, shape.items, at))
    for step in before.keys() - after.keys():
        removed.update(_whole(before[step], shape.items, (*path, step)))


def _whole(value: Any, shape: Shape, path: Path) -> Iterator[Path]:
    """Every field of an added or removed value, with their parents."""
    yield path
    if not merges(value, shape):
        return
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _whole(child, shape.child(name), (*path, f"f:{name}"))
    else:
        for item in value:
            at = (*path, identity(item, shape))
            yield from _whole(item, shape.items, at) if shape.list_type == "map" else (at,)


def _without_lone_dots(tree: Json) -> Json:
    if tree.keys() == {"."}:
        return {}
    return {step: below if step == "." else _without_lone_dots(below) for step, below in tree.items()}


def _paths(node: Json, path: Path) -> Iterator[Path]:
    if path and (not node or "." in node):
        yield path
    for step, below in node.items():
        if step != "." and isinstance(below, dict):
            yield from _paths(below, (*path, step))


def _step_text(step: str) -> str:
    mark, _, text = step.partition(":")
    if mark == "f":
        return f".{text}"
    if mark == "v":
        return f"[={text}]"
    keys = msgspec.json.decode(text)
    return (
        "[" + ",".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in keys.items()) + "]"
    )
