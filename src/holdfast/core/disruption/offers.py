"""The price of every node that consolidation could launch on demand or on spot, and what the node has of each resource.

`prefilter` compares them with the pods that have no node. They depend on the NodePools alone, so passes share them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.input.axes import bounded
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodePoolView


@dataclass(frozen=True, slots=True)
class Offers:
    cost: NDArray[np.int64]  # [offering]
    allocatable: dict[str, NDArray[np.int64]]  # by resource, [offering]


def of(pools: Iterable[NodePoolView]) -> Offers:
    found = list(_launchable(pools))
    cost = np.array([o.cost_nano_usd_per_hour or 0 for _, o in found], dtype=np.int64)
    known = {name for t, _ in found for name in t.allocatable}
    allocatable = {
        name: np.array(bounded(t.allocatable_of(o)[name] for t, o in found), dtype=np.int64)
        for name in sorted(known)
    }
    return Offers(cost, allocatable)


def _launchable(pools: Iterable[NodePoolView]) -> Iterator[tuple[InstanceType, Offering]]:
    for pool in pools:
        kinds, zones = pool.requirements.get(names.CAPACITY_TYPE), pool.requirements.get(names.ZONE)
        for known in pool.instance_types:
            if not pool.requirements.intersects(known.requirements):
                continue
            # Of offerings with the same allocatable resources, only the cheapest can matter.
            cheapest: dict[tuple[Resources, Resources], Offering] = {}
            for one in known.offerings:
                cost = one.cost_nano_usd_per_hour
                if not cost or not one.launchable or one.capacity_type == names.RESERVED:
                    continue
                if kinds.has(one.capacity_type) and zones.has(one.zone):
                    best = cheapest.setdefault((one.capacity_override, one.overhead_override), one)
                    if cost < (best.cost_nano_usd_per_hour or 0):
                        cheapest[one.capacity_override, one.overhead_override] = one
            yield from ((known, one) for one in cheapest.values())
