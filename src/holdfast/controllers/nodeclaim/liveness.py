"""The liveness and expiration stages: claims that never become nodes end, and so do nodes that are old enough.

Run by `lifecycle`. A claim that waits for its slot is not late (decision 22). There is no limit on how long a node
that has registered may take to be ready (NC-18). The rule about clocks: a claim is late only when the program's time
and this process's monotonic clock agree on it. The claim had some age when this process first read it; from then on it
grows older by the monotonic clock. So no step of any clock makes claims late, and a restart does not begin the time
limit anew (docs/adr/0036).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast import names
from holdfast.api import claim_conditions
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim.stage import End, Wait
from holdfast.ports import Clock
from holdfast.state import registrations, times

_FIRST_READS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class _FirstRead:
    """When this process first read a condition with this transition time, and how old it was then."""

    transition: datetime
    at_s: float
    age_s: float


class Liveness:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first_reads: dict[tuple[str, str], _FirstRead] = {}  # by uid and condition

    async def run(self, draft: Draft) -> Wait | End | None:
        if names.WAITS_FOR_INSTANCE in draft.annotations:
            return None
        if not draft.conditions.holds(claim_conditions.LAUNCHED):
            return self._late(
                draft, claim_conditions.LAUNCHED, registrations.LAUNCH_TIMEOUT_S, "launch_timeout"
            )
        if not draft.conditions.holds(claim_conditions.REGISTERED):
            return self._late(
                draft,
                claim_conditions.REGISTERED,
                registrations.REGISTRATION_TIMEOUT_S,
                "registration_timeout",
            )
        for condition in (claim_conditions.LAUNCHED, claim_conditions.REGISTERED):
            self._first_reads.pop((draft.claim.metadata.uid, condition), None)
        return None

    def _late(self, draft: Draft, condition: str, limit_s: int, reason: str) -> Wait | End:
        left_s = limit_s - self._age_s(draft, condition)
        if left_s > 0:
            return Wait(left_s, f"until {condition} is late")
        return End(reason, f"{condition} was not True within {limit_s} s")

    def _age_s(self, draft: Draft, condition: str) -> float:
        found, age_s, now_s = (
            draft.conditions.find(condition),
            draft.age_s(condition),
            self._clock.monotonic_s(),
        )
        assert found is not None, "a draft has every condition that its claim must meet"
        key = (draft.claim.metadata.uid, condition)
        first = self._first_reads.get(key)
        if first is None or first.transition != found.last_transition_time:
            if len(self._first_reads) >= _FIRST_READS_MAX:
                self._first_reads.clear()  # most of those claims are deleted
            first = _FirstRead(found.last_transition_time, now_s, max(0.0, age_s))
            self._first_reads[key] = first
        return min(age_s, first.age_s + now_s - first.at_s)


class Expiration:
    async def run(self, draft: Draft) -> Wait | End | None:
        after = draft.claim.spec.expire_after
        created = draft.claim.metadata.creation_timestamp
        lasts_s = None if after == times.NEVER else times.duration_s(after)
        if lasts_s is None or created is None:
            return None
        left_s = times.epoch_s(created) + lasts_s - times.epoch_s(draft.now)
        return Wait(left_s, "until it expires") if left_s > 0 else End("expired", f"it is older than {after}")
