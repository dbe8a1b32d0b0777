"""Strategic merge patches: merge patches that merge lists of built-in kinds by their patch strategy.

Called by `patch_requests`. A list with a merge key is merged item by item, one with only the strategy `merge` is a set,
any other is replaced. Directives: `$patch: delete|replace|merge`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`,
`$retainKeys`.
"""

from typing import Any, Final

from holdfast.sim.api.schema.shapes import Shape
from holdfast.sim.api.schema.status import bad_request

Json = dict[str, Any]

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def merge(target: Json, patch: Any, shape: Shape) -> Any:
    """The patched object; raises Refused if the patch contradicts itself."""
    if not isinstance(patch, dict):
        raise bad_request("json: cannot unmarshal a patch that is not an object into a map")
    return _object(target, patch, shape)


def _object(target: Json, patch: Json, shape: Shape) -> Json:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return _object({}, {name: value for name, value in patch.items() if name != _DIRECTIVE}, shape)
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type found: {str(directive)[:50]}")
    merged = _retained(target, patch)
    for name, change in patch.items():
        if name.startswith(_DELETE_FROM):
            _delete_items(merged, name.removeprefix(_DELETE_FROM), change)
        elif name.startswith("$"):
            continue
        elif change is None:
            merged.pop(name, None)
        else:
            merged[name] = _value(merged.get(name), change, shape.child(name))
    for name, order in patch.items():
        if name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            _reorder(merged, field, order, target.get(field), shape.child(field))
    return merged


def _value(target: Any, change: Any, shape: Shape) -> Any:
    if isinstance(change, dict):
        if isinstance(target, dict) and "replace" not in shape.strategies:
            return _object(target, change, shape)
        return _object({}, change, shape)
    if isinstance(change, list) and "merge" in shape.strategies:
        return _list(target if isinstance(target, list) else [], change, shape)
    return change


def _list(target: list[Any], change: list[Any], shape: Shape) -> list[Any]:
    key = shape.merge_key
    if not key:
        new = [item for n, item in enumerate(change) if item not in change[:n]]
        return _ordered([*target, *(item for item in new if item not in target)], target, new, key)
    if any(not isinstance(item, dict) for item in change):
        raise bad_request("list element types are not identical")
    if any(item.get(_DIRECTIVE) == "replace" for item in change):
        return [_clean(item, shape.items) for item in change if _DIRECTIVE not in item]
    merged = [item for item in target if isinstance(item, dict)]
    for item in change:
        if key not in item:
            raise bad_request(f"map: {str(item)[:100]} does not contain declared merge key: {key}")
        at = next((n for n, known in enumerate(merged) if known.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            merged = [known for known in merged if known.get(key) != item[key]]
        elif at is None:
            merged.append(_object({}, item, shape.items))
        else:
            merged[at] = _object(merged[at], item, shape.items)
    return _ordered(merged, target, change, key)


def _ordered(merged: list[Any], before: list[Any], order: list[Any], key: str) -> list[Any]:
    """Items of the patch are in its order, the others in their own; a new item comes before the others."""
    named = [_identity(item, key) for item in order]
    known = [_identity(item, key) for item in before]
    ours = sorted(
        (item for item in merged if _identity(item, key) in named),
        key=lambda i: named.index(_identity(i, key)),
    )
    theirs = [item for item in merged if _identity(item, key) not in named]
    result: list[Any] = []
    while ours and theirs:
        one, other = _identity(theirs[0], key), _identity(ours[0], key)
        first = other in known and one in known and known.index(one) < known.index(other)
        result.append((theirs if first else ours).pop(0))
    return [*result, *ours, *theirs]


def _identity(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, dict) else item


def _retained(target: Json, patch: Json) -> Json:
    keys = patch.get(_RETAIN)
    if keys is None:
        return dict(target)
    if not isinstance(keys, list):
        raise bad_request("$retainKeys must be a list")
    return {name: value for name, value in target.items() if name in keys}


def _delete_items(merged: Json, name: str, removed: Any) -> None:
    if isinstance(removed, list) and isinstance(merged.get(name), list):
        merged[name] = [item for item in merged[name] if item not in removed]


def _reorder(merged: Json, name: str, order: Any, before: Any, shape: Shape) -> None:
    """Orders the items of a list by `$setElementOrder`."""
    items = merged.get(name)
    if isinstance(items, list) and isinstance(order, list):
        known = before if isinstance(before, list) else []
        merged[name] = _ordered(items, known, order, shape.merge_key)


def _clean(value: Any, shape: Shape) -> Any:
    """A new value of a patch, without directives and nulls."""
    return _object({}, value, shape) if isinstance(value, dict) else value
