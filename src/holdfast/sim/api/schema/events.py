"""Events, which are served in two groups and stored as core/v1.

Called by `resources`. A client that writes events.k8s.io/v1 and kubectl, which reads core/v1, get the same events.
"""

from typing import Any, Final

_RENAMED: Final = {  # events.k8s.io/v1 -> v1
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_SHOWN: Final = {old: new for new, old in _RENAMED.items()}


def show(value: dict[str, Any]) -> dict[str, Any]:
    """A stored event as events.k8s.io/v1."""
    return _rename(value, _SHOWN) | {"apiVersion": "events.k8s.io/v1"}


def keep(value: dict[str, Any]) -> dict[str, Any]:
    """An event of events.k8s.io/v1 as core/v1."""
    return _rename(value, _RENAMED) | {"apiVersion": "v1"}


def field(name: str) -> str:
    """The name of a selector's field in a stored event."""
    top, dot, rest = name.partition(".")
    return f"{_RENAMED.get(top, top)}{dot}{rest}"


def _rename(value: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): child for key, child in value.items()}
