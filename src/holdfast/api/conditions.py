"""Status conditions: their wire type, and `ConditionSet`, which builds and changes them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from holdfast.api import patterns
from holdfast.api.meta import Object, Wire
from holdfast.api.schema import about, structural

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"
READY: Final = "Ready"
MESSAGE_MAX: Final = 32768  # as in the CRDs

ConditionType = Annotated[
    str, about("What this condition is about, in CamelCase.", max_length=316, pattern=patterns.CONDITION_TYPE)
]
ConditionStatus = Annotated[str, about("Whether it holds.", enum=(TRUE, FALSE, UNKNOWN))]
ConditionTime = Annotated[datetime, about("When the status last changed from one value to another.")]
ConditionGeneration = Annotated[
    int | None, about("The metadata.generation that the condition is about.", minimum=0, format="int64")
]


class Condition(Wire, frozen=True, kw_only=True):
    """One condition. On NodeClaims the reason and the message may be missing; other kinds require them."""

    type: ConditionType
    status: ConditionStatus
    reason: Annotated[
        str | None,
        about(
            "Why, as one CamelCase word that programs can match.",
            max_length=1024,
            pattern=patterns.CONDITION_REASON_OR_NOTHING,
        ),
    ] = None
    message: Annotated[str | None, about("Why, as a sentence for people.", max_length=MESSAGE_MAX)] = None
    last_transition_time: ConditionTime
    observed_generation: ConditionGeneration = None


class _StrictCondition(Condition, frozen=True, kw_only=True):
    """The schema of conditions in the CRDs of other kinds; never decoded into."""

    reason: Annotated[
        str,
        about(
            "Why, as one CamelCase word that programs can match.",
            min_length=1,
            max_length=1024,
            pattern=patterns.CONDITION_REASON,
        ),
    ]
    message: Annotated[str, about("Why, as a sentence for people.", max_length=MESSAGE_MAX)]


_LIST: Final = about("The conditions of this object, one per type.", list_type="map", list_map_keys=("type",))
LenientConditions = Annotated[tuple[Condition, ...], _LIST]
Conditions = Annotated[
    tuple[Annotated[Condition, msgspec.Meta(extra_json_schema=structural(_StrictCondition))], ...], _LIST
]


def of(obj: Object) -> tuple[Condition, ...]:
    """The conditions of an object, whatever its kind; none for a kind without conditions."""
    found: tuple[Condition, ...] = getattr(getattr(obj, "status", None), "conditions", ())
    return found


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, if there is one."""
    for one in conditions:  # a loop, since every reconcile looks up many
        if one.type == type_:
            return one
    return None


def holds(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether there is a condition of that type, and it is True."""
    found = find(conditions, type_)
    return found is not None and found.status == TRUE


class ConditionSet:
    """The conditions of one object while a reconciler changes them. Only this class builds a condition.

    A transition time moves only when the status changes. `observedGeneration` is that of the object as it was read.
    """

    def __init__(
        self,
        known: Sequence[Condition],
        *,
        now: datetime,
        generation: int,
        message_max: int = MESSAGE_MAX,
    ) -> None:
        self.now = now
        self.all = self._before = tuple(known)
        self._generation = generation
        self._message_max = message_max

    def find(self, type_: str) -> Condition | None:
        return find(self.all, type_)

    def holds(self, type_: str) -> bool:
        return holds(self.all, type_)

    def put(self, type_: str, status: str, reason: str = "", message: str = "") -> None:
        """Sets a condition; without a reason its type is the reason. Ready stays the last condition of the list."""
        self._put(type_, status, reason, message, self.now)

    def drop(self, type_: str) -> None:
        """Removes a condition. Without one, `all` stays the same object."""
        if self.find(type_) is not None:
            self.all = tuple(one for one in self.all if one.type != type_)

    def start(self, dependents: Sequence[str], created: datetime) -> None:
        """Sets each dependent that is missing to Unknown, as of the object's creation."""
        for type_ in dependents:
            if self.find(type_) is None:
                self._put(type_, UNKNOWN, "AwaitingReconciliation", "", created)

    def restart(self, type_: str) -> None:
        """Sets the transition time to now."""
        found = self.find(type_)
        if found is not None:
            anew = msgspec.structs.replace(found, last_transition_time=self.now)
            self.all = tuple(anew if one is found else one for one in self.all)

    def summarize(self, dependents: Sequence[str]) -> None:
        """Sets Ready: True when every dependent is True at the current generation. The message lists the others in the
        order of Karpenter's."""
        dependents = sorted(dependents)
        found = [self.find(type_) for type_ in dependents]
        current = [one for one in found if one and one.observed_generation == self._generation]
        waiting = [
            f"{type_}={one.status if one else UNKNOWN}"
            for type_, one in zip(dependents, found, strict=True)
            if one is None or one.status != TRUE or one.observed_generation != self._generation
        ]
        if any(one.status == FALSE for one in current):
            status, reason = FALSE, "UnhealthyDependents"
        elif waiting:
            status, reason = UNKNOWN, "ReconcilingDependents"
        else:
            status, reason = TRUE, READY
        self.put(READY, status, reason, ", ".join(waiting))

    @property
    def changes(self) -> dict[str, Any]:
        """A patch of the status; empty if the conditions did not change."""
        return {} if self.all == self._before else {"conditions": msgspec.to_builtins(self.all)}

    def _put(self, type_: str, status: str, reason: str, message: str, now: datetime) -> None:
        old = self.find(type_)
        new = Condition(
            type=type_,
            status=status,
            reason=reason or type_,
            message=message[: self._message_max],
            last_transition_time=old.last_transition_time if old and old.status == status else now,
            observed_generation=self._generation,
        )
        if old != new:
            others = [one for one in self.all if one.type != type_]
            self.all = tuple(sorted([*others, new], key=lambda one: one.type == READY))


def edit(obj: Object, *, now_s: int, message_max: int = MESSAGE_MAX) -> ConditionSet:
    """The conditions of an object, to be changed at this time."""
    now = datetime.fromtimestamp(now_s, UTC)
    return ConditionSet(of(obj), now=now, generation=obj.metadata.generation, message_max=message_max)
