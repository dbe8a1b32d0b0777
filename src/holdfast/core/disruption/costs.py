"""The eviction cost and the price of a node.

The eviction cost is an integer; an ordinary pod costs one `POD`. The price of nodes has two parts that are never added:
the hourly price of on-demand and spot instances, and the worth of slots. The first is compared first. So a slot is
always cheaper than any on-demand or spot instance, and a small slot is cheaper than a large one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from holdfast import names
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodView
from holdfast.model.snapshot import CloudLabels, NodeView

POD: Final = 2**27
_PRIORITY_WEIGHT: Final = 4  # a priority of 2^25 counts as much as a deletion cost of 2^27
_MOST: Final = 10 * POD
_SLOT_DIVISOR: Final = 10**7


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """The hourly cost of nodes. Compared by the price of instances, then by the worth of slots."""

    paid_nano: int = 0
    slots_nano: int = 0  # the on-demand price of the slots' instance types

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.paid_nano + other.paid_nano, self.slots_nano + other.slots_nano)

    @property
    def scaled(self) -> int:
        """The cost as one number, to compute shares: a slot counts nearly nothing."""
        return self.paid_nano * _SLOT_DIVISOR + self.slots_nano


FREE: Final = Cost()


def total(found: Collection[Cost]) -> Cost:
    return Cost(sum([one.paid_nano for one in found]), sum([one.slots_nano for one in found]))


def eviction_cost(pod: PodView) -> int:
    """The cost of the eviction of a pod, from its deletion cost and priority (D-7)."""
    cost = POD + pod.deletion_cost + _PRIORITY_WEIGHT * pod.priority
    return max(-_MOST, min(_MOST, cost))


def rescheduling_cost(node: NodeView) -> int:
    """The eviction cost of the pods of a node that are recreated elsewhere, plus one `POD` (D-7)."""
    return POD + sum(max(0, eviction_cost(pod)) for pod in node.pods if pod.reschedulable)


def saving_wanted_nano(evicted: int, saving_per_pod_nano: int) -> int:
    """The saving an hour that evictions of this cost require; an ordinary pod costs one `POD`."""
    return evicted * saving_per_pod_nano // POD


def is_empty(node: NodeView) -> bool:
    """Whether moving the pods of the node costs nothing (D-8)."""
    return rescheduling_cost(node) <= POD


def disruption_cost(
    node: NodeView, now_s: int, created_s: int = 0, expire_after_s: int | None = None
) -> float:
    """The eviction cost of all pods, scaled by the remaining share of expireAfter: the node expires anyway (D-7)."""
    whole = sum(eviction_cost(pod) for pod in node.pods)
    if not expire_after_s:
        return float(whole)
    left_s = created_s + expire_after_s - now_s
    return whole * min(1.0, max(0.0, left_s / expire_after_s))


def node_cost(node: NodeView, types: dict[str, InstanceType], labels: CloudLabels) -> Cost:
    """The hourly cost of a running node; 0 if it is unknown (R-36)."""
    own = node.label_map
    capacity_type = own.get(names.CAPACITY_TYPE)
    type_ = types.get(own.get(names.INSTANCE_TYPE, ""))
    if type_ is None:
        return FREE
    found = [o for o in type_.offerings if o.capacity_type == capacity_type and o.zone == own.get(names.ZONE)]
    if capacity_type == names.RESERVED:
        id_ = own.get(labels.reservation_id or "")
        found = [o for o in found if o.reservation_id == id_] or found or list(type_.offerings)
        known = [o.price_nano_usd_per_hour or 0 for o in found if o.capacity_type != names.SPOT]
        return Cost(0, known[0] if known else 0)
    return Cost(found[0].price_nano_usd_per_hour or 0 if found else 0)


def order_key(cost: Cost, rescheduling: int) -> tuple[int, int]:
    """Sorts candidates by saving per eviction cost, highest first; slots come last (D-22, Q-27)."""
    return -(cost.paid_nano * POD // rescheduling), -(cost.slots_nano * POD // rescheduling)
