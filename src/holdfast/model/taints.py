"""Taints and tolerations.

Every taint must be tolerated, whatever its effect. PreferNoSchedule blocks like the other effects until the planner
relaxes it by adding `TOLERATE_PREFERENCES` (S-50).
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast import names
from holdfast.model import requirement


class Effect(enum.StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(enum.StrEnum):
    EQUAL = "Equal"
    EXISTS = "Exists"
    LT = "Lt"  # the taint's value is less than the toleration's; both must be plain integers
    GT = "Gt"


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    effect: Effect
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """An empty key (with Exists) tolerates every key; no effect tolerates every effect."""

    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect not in (None, taint.effect) or self.key not in ("", taint.key):
            return False
        if not self.key and taint.key == names.HELD_TAINT:
            return False  # a toleration of all taints must not use capacity that is held for other pods
        match self.operator:
            case TolerationOperator.EXISTS:
                return True
            case TolerationOperator.EQUAL:
                return self.value == taint.value
        # An API server that accepts Lt and Gt has a kube-scheduler that supports them; Karpenter does, too.
        wanted, found = _plain_integer(self.value), _plain_integer(taint.value)
        if wanted is None or found is None:
            return False
        return found < wanted if self.operator is TolerationOperator.LT else found > wanted


TOLERATE_PREFERENCES: Final = Toleration(operator=TolerationOperator.EXISTS, effect=Effect.PREFER_NO_SCHEDULE)


def first_untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint that no toleration tolerates, or None."""
    return next((t for t in taints if not any(x.tolerates(t) for x in tolerations)), None)


# By key and effect: Kubernetes ignores the value when it compares taints.
_EPHEMERAL: Final = frozenset(
    {
        (names.NOT_READY_TAINT, Effect.NO_SCHEDULE),
        (names.NOT_READY_TAINT, Effect.NO_EXECUTE),
        (names.UNREACHABLE_TAINT, Effect.NO_SCHEDULE),
        (names.UNINITIALIZED_TAINT, Effect.NO_SCHEDULE),
        (names.UNREGISTERED_TAINT, Effect.NO_EXECUTE),
    }
)


def is_ephemeral(taint: Taint) -> bool:
    """Whether the taint is expected on a starting node and removed once the node is ready (S-52)."""
    return (taint.key, taint.effect) in _EPHEMERAL or taint.key.startswith(names.READINESS_TAINT_PREFIX)


def lasting(taints: Iterable[Taint], startup: Iterable[Taint] = ()) -> tuple[Taint, ...]:
    """The taints of a starting or rebooting node that remain when it is ready (S-52)."""
    passing = {(t.key, t.effect) for t in startup} | {(names.REBOOTING_TAINT, Effect.NO_SCHEDULE)}
    return tuple(t for t in taints if not is_ephemeral(t) and (t.key, t.effect) not in passing)


def _plain_integer(value: str) -> int | None:
    """Kubernetes compares only integers without plus sign or leading zeros."""
    number = requirement.integer(value)
    return number if number is not None and str(number) == value else None
