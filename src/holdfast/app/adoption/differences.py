"""Compares two versions of an object field by field. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

Json = Mapping[str, Any]

# Fields that change with every write, or by themselves.
_VOLATILE: Final = frozenset({"managedFields", "resourceVersion", "lastHeartbeatTime", "lastTransitionTime"})
_NAMES: Final = (
    "type",
    "key",
    "id",
    "name",
    "uid",
)  # what identifies an item of a list, the first that it has


class Difference(NamedTuple):
    path: str  # such as .metadata.annotations[karpenter.sh/nodepool-hash]
    before: Any  # None: the field did not exist
    after: Any  # None: the field was removed

    @property
    def what(self) -> str:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


def of(before: Json, after: Json) -> tuple[Difference, ...]:
    """The fields that differ, in the order of their paths."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return tuple(
        Difference(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    )


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The paths and values of an object; items of a list are named by what identifies them."""
    if isinstance(value, Mapping) and value:
        for key, one in value.items():
            if key not in _VOLATILE:
                yield from _leaves(one, f"{path}[{key}]" if "/" in key or "." in key else f"{path}.{key}")
    elif isinstance(value, list | tuple) and value:
        for number, one in enumerate(value):
            yield from _leaves(one, f"{path}[{_name(one, number)}]")
    else:
        yield path, value


def _name(item: Any, number: int) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping):
        return next((str(item[key]) for key in _NAMES if key in item), str(number))
    return str(number)
