"""JSON patches (RFC 6902) and merge patches (RFC 7386).

Called by `patch_requests`. Values are plain JSON. Arguments are never changed; results may share parts of them.
"""

import copy
from typing import Any, Final

from holdfast.sim.api.schema.status import Refused, bad_request

Json = dict[str, Any]

_MAX_OPERATIONS: Final = 10_000
_OPERATIONS: Final = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes a field, objects are merged, everything else is replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), change)
    return merged


def json_patch(target: Json, operations: Any) -> Any:
    """RFC 6902. Raises Refused like the API server: 400 for a malformed patch, 422 for one that does not apply."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MAX_OPERATIONS:
        raise Refused(
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}",
        )
    document = copy.deepcopy(target)
    for operation in operations:
        document = _operate(document, operation)
    return document


def _operate(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise bad_request(
            "json: cannot unmarshal a value that is not an object into Go value of type jsonpatch.Operation"
        )
    name, path = operation.get("op"), operation.get("path")
    if name not in _OPERATIONS or not isinstance(path, str):
        raise _does_not_apply(f"Unexpected kind: {name}")
    match name:
        case "add":
            return _add(document, path, copy.deepcopy(operation.get("value")))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            return _add(
                _remove(document, path, doing="replace")[0], path, copy.deepcopy(operation.get("value"))
            )
        case "test":
            if _get(document, path) != operation.get("value"):
                raise _does_not_apply(f"testing value {path} failed: test failed")
            return document
    source = operation.get("from")
    if not isinstance(source, str):
        raise _does_not_apply(f"{name} operation without 'from'")
    if name == "move":
        document, value = _remove(document, source)
    else:
        value = copy.deepcopy(_get(document, source))
    return _add(document, path, value)


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise _does_not_apply(f"missing value: {path[:100]}")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _parent(document: Any, steps: list[str], path: str) -> Any:
    for step in steps[:-1]:
        document = _child(document, step, path)
    return document


def _child(value: Any, step: str, path: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list):
        return value[_index(value, step, path, end=0)]
    raise _does_not_apply(f"doc is missing path: {path[:100]}: missing value")


def _index(items: list[Any], step: str, path: str, *, end: int) -> int:
    if not step.isdecimal() or len(step) > 9 or int(step) >= len(items) + end:  # noqa: PLR2004 - no list is longer
        raise _does_not_apply(f"Unable to access invalid index: {path[:100]}")
    return int(step)


def _get(document: Any, path: str) -> Any:
    for step in _steps(path):
        document = _child(document, step, path)
    return document


def _add(document: Any, path: str, value: Any) -> Any:
    steps = _steps(path)
    if not steps:
        return value
    parent = _parent(document, steps, path)
    if isinstance(parent, dict):
        parent[steps[-1]] = value
    elif isinstance(parent, list):
        index = len(parent) if steps[-1] == "-" else _index(parent, steps[-1], path, end=1)
        parent.insert(index, value)
    else:
        raise _does_not_apply(
            f"add operation does not apply: doc is missing path: {path[:100]}: missing value"
        )
    return document


def _remove(document: Any, path: str, *, doing: str = "remove") -> tuple[Any, Any]:
    steps = _steps(path)
    if not steps:
        return None, document
    parent = _parent(document, steps, path)
    if isinstance(parent, dict) and steps[-1] in parent:
        return document, parent.pop(steps[-1])
    if isinstance(parent, list):
        return document, parent.pop(_index(parent, steps[-1], path, end=0))
    raise _does_not_apply(
        f"{doing} operation does not apply: doc is missing key: {path[:100]}: missing value"
    )


def _does_not_apply(_why: str) -> Refused:
    """Without a reason, like the API server, so that clients do not depend on one."""
    return Refused("Invalid", "the server rejected our request due to an error in our request", details={})
