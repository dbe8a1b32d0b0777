"""Whether consolidation may remove a node from its slot.

A slot is paid for whether it is used or not, so its release does not reduce the bill and restarts pods. By default
consolidation releases a slot only if a pending pod gets the slot and can be placed in no other way; with
`ReleaseSlots.ALWAYS`, whenever the pods fit elsewhere at no cost.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.inputs import ReleaseSlots, Settings
from holdfast.core.disruption.simulation import SimulationOptions, SimulationResult, Simulator
from holdfast.core.reservations import ledger
from holdfast.model.reasons import BlockedCode, Reason

_NOT_WAITED_FOR: Final = Reason(
    BlockedCode.NOT_CHEAPER, "Can't remove: the slot is paid for, and no pending pod waits for it"
)


class SlotRelease:
    """Decides about the release of slots in one pass."""

    def __init__(self, candidate_set: CandidateSet, simulator: Simulator, settings: Settings) -> None:
        self._simulator = simulator
        self._settings = settings
        self._snapshot = candidate_set.cluster.snapshot

    @cached_property
    def _entries(self) -> Mapping[str, ledger.Entry]:
        return ledger.ledger(self._snapshot, self._settings.solving.ledger_lag_s)

    @cached_property
    def _waiting(self) -> frozenset[str]:
        """Pending pods that the planner cannot place if no node is deleted."""
        pending = {pod.uid for pod in self._snapshot.pending}
        if not pending:
            return frozenset()
        return frozenset(one.pod for one in self._simulator.simulate([]).plan.unplaced if one.pod in pending)

    def needs_waiting_pod(self, one: Candidate) -> bool:
        """Whether the slot of the node is released only for a pending pod."""
        return one.is_reserved and self._settings.release_slots is ReleaseSlots.WHEN_WAITED_FOR

    def why_never(self, one: Candidate) -> Reason | None:
        """Why no plan could justify the release of the slot; None: a plan might."""
        if not self.needs_waiting_pod(one):
            return None
        entry = self._entries.get(self._slot(one)) if self._waiting else None
        if entry is None or not entry.usable:
            return _NOT_WAITED_FOR
        if entry.free or entry.releasing:
            text = f"Can't remove: another slot of {entry.reservation.id} is free or being released for the pending pods"
            return Reason(BlockedCode.NOT_CHEAPER, text, subjects=(entry.reservation.id,))
        return None

    def simulation_options(self, found: Sequence[Candidate]) -> SimulationOptions:
        """The slot counts as free if it is to be released for a pending pod."""
        leaves = len(found) == 1 and self.needs_waiting_pod(found[0])
        return SimulationOptions(
            consolidating=True, credited=self._slot(found[0]) if leaves else None, avoids_drifted=True
        )

    def why_not(self, found: Sequence[Candidate], result: SimulationResult) -> Reason | None:
        """Why the result does not justify the release of slots; None: it does, or no node is in a slot."""
        if not any(self.needs_waiting_pod(one) for one in found):
            return None
        slot = self._slot(found[0])
        its_pods = {uid for claim in result.plan.claims if claim.reservation_id == slot for uid in claim.pods}
        if len(found) > 1 or not its_pods & self._waiting or its_pods & result.movers:
            return _NOT_WAITED_FOR
        return None

    def _slot(self, one: Candidate) -> str:
        return one.labels.get(self._snapshot.cloud_labels.reservation_id or "", "")
