"""The liveness and expiration stages: claims that never become nodes end, and so do nodes that are old enough.

Run by `lifecycle`. A claim that waits for its slot is not late (decision 22). There is no limit on how long a node
that has registered may take to be ready (NC-18).
"""

from holdfast import names
from holdfast.api import claim_conditions
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim.stage import End, Wait
from holdfast.state import registrations, times


class Liveness:
    async def run(self, draft: Draft) -> Wait | End | None:
        if names.WAITS_FOR_INSTANCE in draft.annotations:
            return None
        if not draft.holds(claim_conditions.LAUNCHED):
            return _late(draft, claim_conditions.LAUNCHED, registrations.LAUNCH_TIMEOUT_S, "launch_timeout")
        if not draft.holds(claim_conditions.REGISTERED):
            return _late(
                draft,
                claim_conditions.REGISTERED,
                registrations.REGISTRATION_TIMEOUT_S,
                "registration_timeout",
            )
        return None


class Expiration:
    async def run(self, draft: Draft) -> Wait | End | None:
        after = draft.claim.spec.expire_after
        created = draft.claim.metadata.creation_timestamp
        lasts_s = None if after == times.NEVER else times.duration_s(after)
        if lasts_s is None or created is None:
            return None
        left_s = times.epoch_s(created) + lasts_s - times.epoch_s(draft.now)
        return Wait(left_s, "until it expires") if left_s > 0 else End("expired", f"it is older than {after}")


def _late(draft: Draft, condition: str, limit_s: int, reason: str) -> Wait | End:
    left_s = limit_s - draft.since_s(condition)
    if left_s > 0:
        return Wait(left_s, f"until {condition} is late")
    return End(reason, f"{condition} was not True within {limit_s} s")
