"""Writes the conditions of an object, and emits events for those that changed.

The whole list is written, and only if the object did not change since it was read. Otherwise the reconciler runs again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from holdfast.api import conditions
from holdfast.api.conditions import Condition
from holdfast.api.meta import Object
from holdfast.ports import Kube, Recorder

K = TypeVar("K", bound=Object)


def emit_events(recorder: Recorder, obj: Object, after: Sequence[Condition]) -> None:
    """Emits an event for each changed condition that is False, or True with a message. Ready is only a summary."""
    known = {(c.type, c.status, c.reason, c.message) for c in conditions.of(obj)}
    for one in after:
        is_notable = one.status == conditions.FALSE or (one.status == conditions.TRUE and one.message)
        is_new = (one.type, one.status, one.reason, one.message) not in known
        if is_notable and is_new and one.type != conditions.READY:
            recorder.event(obj, one.reason or one.type, one.message or one.type, warning=True)


async def write(kube: Kube, obj: K, changes: Mapping[str, Any]) -> str:
    """Patches the status. Returns a summary for the log."""
    if not changes:
        return ""
    await kube.patch(obj, {"status": dict(changes)}, status=True, only_if_unchanged=True)
    return f"updated status: {', '.join(sorted(changes))}"
