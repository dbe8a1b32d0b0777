"""Variants of a study: documents that change others. Pure.

A document of a variant changes the document of the same kind, namespace and name, or is added. It is merged as `kubectl patch`
merges: mappings field by field, a null removes a field. An item of a list replaces the item with the same key, such as
the id of a reservation, and is added if there is none. `$patch: delete` removes a document or an item.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.simulate.study import Json, key_of

DELETE: Final = "delete"
_PATCH: Final = "$patch"
_KEYS: Final = (
    "id",
    "name",
    "key",
    "deployment",
    "job",
    "instanceType",
)  # of items, the first that both have
_ALONE: Final = ("World", "Simulation", "Catalog")  # a study has one of each, under any name


def applied(documents: Sequence[Json], changes: Sequence[Json]) -> list[Json]:
    """The documents of the variant, in the same order; new ones follow."""
    found = {key(one): one for one in documents}
    for change in changes:
        found_key = key(change)
        if change.get(_PATCH) == DELETE:
            found.pop(found_key, None)
        else:
            found[found_key] = merged(found.get(found_key, {}), change)
    return list(found.values())


def missing(documents: Sequence[Json], changes: Sequence[Json]) -> list[Json]:
    """Changes that delete a document that is not there."""
    keys = {key(one) for one in documents}
    return [one for one in changes if one.get(_PATCH) == DELETE and key(one) not in keys]


def merged(before: Any, change: Any) -> Any:
    if isinstance(change, Mapping) and isinstance(before, Mapping):
        kept = {name: value for name, value in before.items() if change.get(name, value) is not None}
        return kept | {
            name: merged(before.get(name), value)
            for name, value in change.items()
            if value is not None and name != _PATCH
        }
    if isinstance(change, list) and isinstance(before, list) and _are_keyed(change):
        return _merged_items(before, change)
    return change


def lines(documents: Sequence[Json], changed: Sequence[Json]) -> tuple[str, ...]:
    """What differs, a line each: the field, before and after."""
    before, after = ({key(one): one for one in some} for some in (documents, changed))
    found: list[str] = []
    for one in dict.fromkeys((*before, *after)):
        found += _different(f"{one[0]} {one[2]}".strip(), before.get(one), after.get(one))
    return tuple(found)


def key(document: Json) -> tuple[str, str, str]:
    """Equal for a document and one that changes it."""
    kind, namespace, name = key_of(document)
    return (kind, "", "") if kind in _ALONE else (kind, namespace, name)


def _are_keyed(items: Sequence[Any]) -> bool:
    return bool(items) and all(isinstance(item, Mapping) and _item_key(item) for item in items)


def _item_key(item: Json) -> str:
    return next((name for name in _KEYS if name in item), "")


def _merged_items(before: Sequence[Any], change: Sequence[Json]) -> list[Any]:
    items = list(before)
    for one in change:
        name = _item_key(one)
        at = next((n for n, item in enumerate(items) if _has(item, name, one[name])), None)
        if one.get(_PATCH) == DELETE:
            items = [item for n, item in enumerate(items) if n != at]
        elif at is None:
            items.append(merged({}, one))
        else:
            items[at] = merged(items[at], one)
    return items


def _has(item: Any, name: str, value: Any) -> bool:
    return isinstance(item, Mapping) and item.get(name) == value


def _different(path: str, before: Any, after: Any) -> list[str]:
    if before == after:
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        names = dict.fromkeys((*before, *after))
        return [
            line for name in names for line in _different(f"{path} {name}", before.get(name), after.get(name))
        ]
    if isinstance(before, list) and isinstance(after, list) and _are_keyed([*before, *after]):
        some, others = ({str(item[_item_key(item)]): item for item in items} for items in (before, after))
        keys = dict.fromkeys((*some, *others))
        return [line for key in keys for line in _different(f"{path} {key}", some.get(key), others.get(key))]
    if before is None and isinstance(after, Mapping | list):
        return [f"{path}: added"]
    if after is None:
        return [f"{path}: removed"]
    return [f"{path}: {_short(before)} -> {_short(after)}"]


def _short(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return "1 item" if len(value) == 1 else f"{len(value)} items"
    return "unset" if value is None else str(value)
