"""Status conditions: their wire type, and the only functions that change them.

`lastTransitionTime` changes only when the status value does. `observedGeneration` is the generation of the spec that the
condition is about.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec

from holdfast.api import patterns
from holdfast.api.meta import Object, Wire
from holdfast.api.schema import about, structural

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"
READY: Final = "Ready"


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
    message: Annotated[str | None, about("Why, as a sentence for people.", max_length=32768)] = None
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
    message: Annotated[str, about("Why, as a sentence for people.", max_length=32768)]


_LIST: Final = about("The conditions of this object, one per type.", list_type="map", list_map_keys=("type",))
LenientConditions = Annotated[tuple[Condition, ...], _LIST]
Conditions = Annotated[
    tuple[Annotated[Condition, msgspec.Meta(extra_json_schema=structural(_StrictCondition))], ...], _LIST
]


def of(obj: Object) -> tuple[Condition, ...]:
    """The conditions of an object of any kind; empty for a kind without conditions."""
    found: tuple[Condition, ...] = getattr(getattr(obj, "status", None), "conditions", ())
    return found


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, if there is one."""
    return next((c for c in conditions if c.type == type_), None)


def holds(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether there is a condition of that type, and it is True."""
    found = find(conditions, type_)
    return found is not None and found.status == TRUE


def put(
    conditions: Sequence[Condition],
    type_: str,
    status: str,
    *,
    now: datetime,
    generation: int,
    reason: str = "",
    message: str = "",
) -> tuple[Condition, ...]:
    """The conditions with this one set; the same tuple if nothing changed.

    The default of the reason is the type. Ready stays last.
    """
    old = find(conditions, type_)
    new = Condition(
        type=type_,
        status=status,
        reason=reason or type_,
        message=message,
        last_transition_time=old.last_transition_time if old and old.status == status else now,
        observed_generation=generation,
    )
    if old == new:
        return tuple(conditions)
    return _ready_last([*(c for c in conditions if c.type != type_), new])


def drop(conditions: Sequence[Condition], type_: str) -> tuple[Condition, ...]:
    """The conditions without that type."""
    return tuple(c for c in conditions if c.type != type_)


def start(
    conditions: Sequence[Condition], dependents: Sequence[str], *, created: datetime, generation: int
) -> tuple[Condition, ...]:
    """The conditions with each missing dependent as Unknown, as of the object's creation."""
    result = tuple(conditions)
    for type_ in dependents:
        if find(result, type_) is None:
            result = put(
                result, type_, UNKNOWN, now=created, generation=generation, reason="AwaitingReconciliation"
            )
    return result


def summarize(
    conditions: Sequence[Condition], dependents: Sequence[str], *, now: datetime, generation: int
) -> tuple[Condition, ...]:
    """The conditions with Ready as the conjunction of the dependents, at the current generation."""
    held = [find(conditions, type_) for type_ in dependents]
    current = [c for c in held if c and c.observed_generation == generation]
    waiting = [
        f"{type_}={c.status if c else UNKNOWN}"
        for type_, c in zip(dependents, held, strict=True)
        if c is None or c.status != TRUE or c.observed_generation != generation
    ]
    if any(c.status == FALSE for c in current):
        status, reason = FALSE, "UnhealthyDependents"
    elif waiting:
        status, reason = UNKNOWN, "ReconcilingDependents"
    else:
        status, reason = TRUE, READY
    return put(
        conditions,
        READY,
        status,
        now=now,
        generation=generation,
        reason=reason,
        message=", ".join(waiting),
    )


def _ready_last(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    return tuple(sorted(conditions, key=lambda c: c.type == READY))
