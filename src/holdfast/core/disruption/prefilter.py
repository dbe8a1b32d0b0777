"""Leaves out nodes that no plan can replace at a lower price, so that the planner simulates fewer of them.

Most nodes have a pod that fits on no other node and on no cheaper instance. A node is left out only if no plan could
save anything. The planner simulates the others.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.core.disruption import costs
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.costs import Cost
from holdfast.core.disruption.inputs import Settings
from holdfast.core.disruption.targets import Targets
from holdfast.core.reservations import ledger
from holdfast.model import resources
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.pods import PodShape
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.resources import Resources
from holdfast.model.taints import TOLERATE_PREFERENCES, first_untolerated


class FreeSlots:
    """The offerings of reservations that have a free slot."""

    def __init__(self, candidate_set: CandidateSet, settings: Settings) -> None:
        entries = ledger.ledger(candidate_set.cluster.snapshot, settings.solving.ledger_lag_s)
        free = {id_ for id_, entry in entries.items() if entry.free > 0}
        if not settings.solving.reserved_capacity:
            free = set()
        self._well_known = candidate_set.cluster.snapshot.cloud_labels.well_known
        self.free: list[tuple[str, InstanceType, Offering]] = [
            (pool.name, known, offering)
            for pool in (candidate_set.pools.values() if free else ())
            for known in pool.instance_types
            for offering in known.offerings
            if offering.healthy
            and offering.reservation_id in free
            and pool.requirements.compatible(offering.requirements, self._well_known)
        ]
        self._pools = candidate_set.pools
        self._known: dict[int, tuple[PodShape, bool]] = {}

    def could_hold(self, one: Candidate, targets: Targets) -> bool:
        """Whether each pod of the node fits in a free slot, or on another node."""
        if not self.free:
            return False
        return all(
            self._fits(pod.shape) or targets.fits_elsewhere(pod.shape, one.name)
            for pod in one.node.pods
            if pod.reschedulable
        )

    def _fits(self, shape: PodShape) -> bool:
        known = self._known.get(id(shape))
        if known is None:
            known = self._known[id(shape)] = shape, any(self._suits(shape, *slot) for slot in self.free)
        return known[1]

    def _suits(self, shape: PodShape, pool: str, type_: InstanceType, offering: Offering) -> bool:
        if not shape.requests.fits(type_.allocatable_of(offering)):
            return False
        tolerations = (*shape.tolerations, TOLERATE_PREFERENCES)
        if first_untolerated(self._pools[pool].taints, tolerations) is not None:
            return False
        wanted = self._pools[pool].requirements.union(shape.node_selector)
        return wanted.intersects(offering.requirements) and wanted.intersects(type_.requirements)


class Prefilter:
    """Whether nodes could be replaced at a lower price."""

    def __init__(self, candidate_set: CandidateSet, targets: Targets, settings: Settings) -> None:
        self._candidate_set = candidate_set
        self._targets = targets
        self._settings = settings
        self._known: dict[tuple[Resources, int], bool] = {}
        self._answers: dict[int, tuple[PodShape, bool] | None] = {}  # by `Alike.capacity`

    # Computed for the first node: in most passes nothing has changed, and no node is examined.

    @cached_property
    def slots(self) -> FreeSlots:
        return FreeSlots(self._candidate_set, self._settings)

    def why_not(self, found: Sequence[Candidate]) -> Reason | None:
        """The reason why no plan could save anything; None: the planner has to simulate it."""
        if len(found) > 1:
            shape = self._of_all(found)
            if shape is None:
                return None
            return self._reason(found, shape, starting=self._targets.fits_on_starting_node(shape))
        answer = self._of_one(found[0])
        if answer is None:
            return None
        shape, starting = answer
        return self._candidate_set.not_cheaper(
            found[0], shape, lambda: self._reason(found, shape, starting=starting), starting=starting
        )

    def _of_one(self, one: Candidate) -> tuple[PodShape, bool] | None:
        """The shape of a pod without a place, and whether it fits on a starting node."""
        alike = one.alike.capacity
        if alike not in self._answers:
            shape = self._of_all([one]) or self._left_over(one)
            starting = shape is not None and self._targets.fits_on_starting_node(shape)
            self._answers[alike] = None if shape is None else (shape, starting)
        return self._answers[alike]

    def _of_all(self, found: Sequence[Candidate]) -> PodShape | None:
        least = self._targets.without_place([one.node for one in found])
        cost = costs.total([one.cost for one in found])
        return least[0][0] if least and not self._is_placed_cheaper(cost, least) else None

    def _left_over(self, one: Candidate) -> PodShape | None:
        """Slower, and leaves out more."""
        bound = [(pod.shape, 1) for pod in self._targets.left_over(one.node)]
        return bound[0][0] if bound and not self._is_placed_cheaper(one.cost, bound) else None

    def _reason(self, found: Sequence[Candidate], shape: PodShape, *, starting: bool) -> Reason:
        like, shape = self._targets.like, self._targets.like(shape)
        pods = (pod for one in found for pod in one.node.pods if pod.reschedulable)
        pod = next(pod for pod in pods if like(pod.shape) is shape)
        if starting:
            text = f"Not all pods would schedule, {pod.full_name} fits only on a node that is not initialized"
            return Reason(BlockedCode.ON_STARTING_NODE, text, (pod.full_name,))
        text = f"Can't replace with a cheaper node: pod {pod.full_name} fits on no other node whose pods did not change recently, and on no cheaper instance type"
        return Reason(BlockedCode.NOT_CHEAPER, text, (pod.full_name,))

    def _is_placed_cheaper(self, cost: Cost, pods: Sequence[tuple[PodShape, int]]) -> bool:
        """Whether these pods, so many of each shape, could be placed in free slots and on one cheaper instance. Free
        slots are counted as if they had no limit."""
        slots = self._cheaper_slots(cost)
        rest = [
            shape.requests.times(count)
            for shape, count in pods
            if not any(shape.requests.fits(type_.allocatable_of(offering)) for type_, offering in slots)
        ]
        if not rest:
            return True
        key = resources.add(*rest), cost.paid_nano
        if key not in self._known:
            self._known[key] = self._is_offered_cheaper(*key)
        return self._known[key]

    def _cheaper_slots(self, cost: Cost) -> list[tuple[InstanceType, Offering]]:
        """Free slots that are worth less than the nodes; all of them, if the nodes cost money."""
        return [
            (type_, offering)
            for _, type_, offering in self.slots.free
            if cost.paid_nano or (offering.price_nano_usd_per_hour or 0) < cost.slots_nano
        ]

    def _is_offered_cheaper(self, load: Resources, limit_nano: int) -> bool:
        offers = self._candidate_set.offers
        fits: NDArray[np.bool_] = (offers.cost > 0) & (offers.cost < limit_nano)
        for name, amount in load.amounts:
            known = offers.allocatable.get(name)
            fits = fits & (known >= amount) if known is not None else fits & (amount <= 0)
        return bool(fits.any())
