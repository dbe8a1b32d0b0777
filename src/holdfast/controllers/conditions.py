"""The verdicts of one reconcile on one object: collected as they are reached, written in one patch at the end.

Callers: reconcilers that write conditions. The rule: the list is written whole and only if nobody else wrote since the
object was read; a reconciler that loses that race is run again.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from holdfast.api import conditions
from holdfast.api.conditions import Condition
from holdfast.api.meta import Object
from holdfast.ports import Kube, Recorder

K = TypeVar("K", bound=Object)


class Verdicts:
    def __init__(self, obj: Object, *, now_s: int) -> None:
        self.generation = obj.metadata.generation
        self.now = datetime.fromtimestamp(now_s, UTC)
        self.before = conditions.of(obj)
        self.all = self.before

    def find(self, condition: str) -> Condition | None:
        return conditions.find(self.all, condition)

    def put(self, condition: str, status: str, reason: str = "", message: str = "") -> None:
        self.all = conditions.put(
            self.all,
            condition,
            status,
            now=self.now,
            generation=self.generation,
            reason=reason,
            message=message,
        )

    def drop(self, condition: str) -> None:
        self.all = conditions.drop(self.all, condition)

    def summarize(self, needs: Sequence[str]) -> None:
        """Ready, as far as it is made of these."""
        self.all = conditions.summarize(self.all, needs, now=self.now, generation=self.generation)

    @property
    def changes(self) -> dict[str, Any]:
        """What of the status is not as it was read."""
        return {} if self.all == self.before else {"conditions": msgspec.to_builtins(self.all)}


def tell(recorder: Recorder, obj: Object, after: Sequence[Condition]) -> None:
    """An event for each verdict that is worth one: it is not good, or good with a but, and it was not there when the
    object was read. Ready only sums up the others."""
    known = {(c.type, c.status, c.reason, c.message) for c in conditions.of(obj)}
    for one in after:
        worth_it = one.status == conditions.FALSE or (one.status == conditions.TRUE and one.message)
        is_news = (one.type, one.status, one.reason, one.message) not in known
        if worth_it and is_news and one.type != conditions.READY:
            recorder.event(obj, one.reason or one.type, one.message or one.type, warning=True)


async def write(kube: Kube, obj: K, changes: Mapping[str, Any]) -> str:
    """Writes what changed of a status; the answer is what was done, if anything was."""
    if not changes:
        return ""
    await kube.patch(obj, {"status": dict(changes)}, status=True, only_if_unchanged=True)
    return f"wrote {', '.join(sorted(changes))}"
