"""Reads the counts of reservations again before NodeClaims are created outside of reservations.

The cloud reports no event for a slot that another account or an instance outside of the cluster releases, and the counts
are read once a minute. So a plan could launch on demand next to free slots. Provisioning and disruption call `Recount`
with a plan, and plan again if a reservation that was full has more free slots. A launch never waits long for this: if
the counts cannot be read within seconds, the plan is carried out.

A slot that a count shows as free may be one that the cluster launched into a moment ago. The ledger doubts it for the lag
of counts, which is long. Provisioning does not launch next to such a slot: it plans again with the usual lag, and the
cloud decides. If it refuses the launch, the pods are planned again, and the reservation is not used for a while (ADR
0068).
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from holdfast import errors
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.output.plan import Plan, PlannedClaim
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.snapshot import Snapshot
from holdfast.ports import Clock
from holdfast.state.cluster.cluster_state import ClusterState

_MAX_AGE_S: Final = 5.0  # so there are at most twelve reads a minute
_WAIT_S: Final = 3.0  # a plan waits no longer for the counts
_PAUSE_S: Final = 60.0  # no plan waits again so soon after counts that did not arrive in time
USUAL_LAG_S: Final = 15  # after which counts are expected to include a launch; a guess
_FULL: Final = (ReasonCode.FULL, ReasonCode.HELD, ReasonCode.WAITS_FOR_SLOT)


def is_next_to_doubtful_slots(plan: Plan, snapshot: Snapshot, lag_s: int) -> bool:
    """Whether a NodeClaim without a slot, or a pod that is not placed, suits a reservation that has a free slot if
    counts have the usual lag."""
    full = _full(plan.claims) | _subjects(reason for one in plan.unplaced for reason in one.reasons)
    usual = ledger.ledger(snapshot, min(lag_s, USUAL_LAG_S)) if full else {}
    certain = ledger.ledger(snapshot, lag_s) if full else {}
    return any(usual[id_].free > certain[id_].free for id_ in full & usual.keys())


def _full(planned: Iterable[PlannedClaim]) -> set[str]:
    """Reservations that suit NodeClaims without a slot and were full or held."""
    return _subjects(
        reason for claim in planned if claim.reservation_id is None for reason in claim.not_reserved
    )


def _subjects(reasons: Iterable[Reason]) -> set[str]:
    return {id_ for reason in reasons if reason.code in _FULL for id_ in reason.subjects}


class Recount:
    def __init__(self, cluster_state: ClusterState, clock: Clock) -> None:
        self._cluster_state = cluster_state
        self._clock = clock
        self._not_before_s = 0.0
        self._log = structlog.get_logger().bind(controller="recount")

    async def finds_slots(self, planned: Iterable[PlannedClaim], snapshot: Snapshot) -> bool:
        """Whether a reservation that was full in the snapshot, and suits a NodeClaim without a slot, has more free slots
        now."""
        full = _full(planned)
        if not full or self._clock.monotonic_s() < self._not_before_s:
            return False
        before = {one.id: one.available for one in snapshot.reservations}
        try:
            now = await self._available()
        except errors.HoldfastError as error:
            self._log.warning(
                "launching outside of reservations with old counts",
                reservations=sorted(full),
                seconds=self._clock.now_s() - snapshot.counts_read_s,
                error=str(error),
            )
            return False
        return any(now.get(id_, 0) > before.get(id_, 0) for id_ in full)

    async def _available(self) -> dict[str, int]:
        """Available slots by reservation. Raises the error of the read, or NotReady if it takes too long."""
        read = asyncio.create_task(self._cluster_state.recount(_MAX_AGE_S))
        timer = asyncio.create_task(self._clock.sleep(_WAIT_S))
        try:
            await asyncio.wait({read, timer}, return_when=asyncio.FIRST_COMPLETED)
            if read.done():
                return {one.id: one.available for one in read.result().reservations}
            self._not_before_s = self._clock.monotonic_s() + _PAUSE_S
            raise errors.NotReady(f"the counts of reservations did not arrive within {_WAIT_S:.0f} s")
        finally:
            timer.cancel()
            read.cancel()
            await asyncio.gather(read, timer, return_exceptions=True)
