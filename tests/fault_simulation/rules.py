"""What a DisruptionCommand must not do, by counting. It shares no code with the controllers.

Called by `watch` with the state when a command is carried out. The rules: every evicted pod fits on another node;
consolidation does not evict a pod again within the cooldown; and consolidation never raises the cost.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fault_simulation.generate import App
from holdfast.sim.ec2 import prices
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.setup import Setup

ZONE: Final = "topology.kubernetes.io/zone"
COOLDOWN_S: Final = 600
FOLLOWS_S: Final = (
    60  # a pod created within this time after an eviction of the same app replaces the evicted pod
)
TRIES_MAX: Final = 20_000


@dataclass(frozen=True)
class FreeCapacity:
    """The free CPU of a node, with its labels."""

    node: str
    cpu_millis: int
    labels: dict[str, str]
    tainted: bool = False


@dataclass(frozen=True)
class EvictedPod:
    """A pod that is evicted."""

    pod: str
    app: App
    zone: str | None = None  # the zone of its volume

    def may_run_on(self, node: FreeCapacity) -> bool:
        wanted = dict(self.app.selector) | ({ZONE: self.zone} if self.zone else {})
        fits = all(node.labels.get(key) == value for key, value in wanted.items())
        return fits and (self.app.tolerates or not node.tainted)


def all_fit(pods: Sequence[EvictedPod], nodes: Sequence[FreeCapacity]) -> bool:
    """Whether all pods fit together, by trying all placements; true if that takes too many tries."""
    big_first = sorted(pods, key=lambda pod: -pod.app.cpu_millis)
    left = [node.cpu_millis for node in nodes]
    tries = 0

    def place(number: int) -> bool:
        nonlocal tries
        if number == len(big_first):
            return True
        pod = big_first[number]
        for index, node in enumerate(nodes):
            tries += 1
            if tries > TRIES_MAX:
                return True
            if left[index] >= pod.app.cpu_millis and pod.may_run_on(node):
                left[index] -= pod.app.cpu_millis
                if place(number + 1):
                    return True
                left[index] += pod.app.cpu_millis
        return False

    return place(0)


def hourly_nano_usd(instance: Instance, setup: Setup) -> int:
    """The additional cost of an instance: a slot is paid for whether it is used or not."""
    if instance.reservation_id:
        return 0
    if instance.lifecycle == "spot":
        return prices.spot(setup, instance.instance_type, instance.zone_id) or 0
    return prices.on_demand(setup, instance.instance_type) or 0


class ConsolidationEvictions:
    """Evictions by consolidation, for the cooldown after each."""

    def __init__(self) -> None:
        self._evictions_s: dict[str, list[int]] = defaultdict(list)  # by app

    def is_repeated(self, app: str, *, created_s: int, now_s: int) -> bool:
        """Records an eviction by consolidation; whether the pod itself replaced one that consolidation evicted within the cooldown."""
        earlier_s = self._evictions_s[app]
        follows = any(0 <= created_s - moved_s <= FOLLOWS_S for moved_s in earlier_s)
        earlier_s.append(now_s)
        return follows and now_s - created_s < COOLDOWN_S
