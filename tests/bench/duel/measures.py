"""The figures of a run, from samples and times that were recorded. Pure functions.

A sample holds from its time until the next sample. A slot is idle while EC2 counts it as available in an active
reservation that an EC2NodeClass selects. It is *needed* if at the same time pods of its workload are bound to nodes
outside of reservations: as many slots are needed as these pods would fill.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from bench.duel import settings

HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The state of EC2 and of the pods at one moment."""

    at_s: float
    free: Mapping[str, int] = field(default_factory=dict)  # slots by workload
    pods_outside: Mapping[str, int] = field(default_factory=dict)  # on on-demand and spot nodes, by workload
    outside: Mapping[str, int] = field(default_factory=dict)  # on-demand and spot instances, by workload
    oversold: int = 0  # slots in use beyond the size of their reservation
    in_reservation: Mapping[str, int] = field(default_factory=dict)  # nodes by reservation
    elsewhere: Mapping[str, int] = field(default_factory=dict)  # slots of others, by reservation
    nodes: Mapping[str, int] = field(default_factory=dict)  # by NodePool
    vcpus: Mapping[str, int] = field(default_factory=dict)  # of these nodes
    ready: Mapping[str, int] = field(default_factory=dict)  # pods by workload


def integral(samples: Sequence[Sample], value: Callable[[Sample], float]) -> float:
    """Value times seconds. The last sample only ends the one before it."""
    return math.fsum(value(one) * (following.at_s - one.at_s) for one, following in pairwise(samples))


def idle_slot_hours(samples: Sequence[Sample]) -> float:
    return integral(samples, idle_slots) / HOUR_S


def needed_idle_slot_hours(samples: Sequence[Sample]) -> float:
    return integral(samples, needed_slots) / HOUR_S


def idle_slots(sample: Sample) -> int:
    return sum(sample.free.values())


def needed_slots(sample: Sample) -> int:
    return sum(
        min(slots, math.ceil(sample.pods_outside.get(app, 0) / settings.PODS_PER_SLOT[app]))
        for app, slots in sample.free.items()
    )


def percentile(values: Iterable[float], percent: int) -> float:
    """The smallest value that at least so many percent of the values do not exceed (nearest rank); 0 without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0


@dataclass(slots=True)
class PodTimes:
    """What the watch of a pod delivered, in seconds of one clock."""

    name: str
    app: str
    created_s: float
    ready_s: float | None = None
    deleting_s: float | None = None
    gone_s: float | None = None
    node: str = ""

    def waited_s(self, end_s: float) -> float:
        """From its creation until it was ready first. A pod that never was has waited until it was deleted, or until
        the story ended."""
        ends = (self.ready_s, self.deleting_s, self.gone_s, end_s)
        return next(one for one in ends if one is not None) - self.created_s

    @property
    def is_active(self) -> bool:
        """It is neither deleted nor being deleted."""
        return self.deleting_s is None and self.gone_s is None

    @property
    def never_ran(self) -> bool:
        """It exists at the end and has never been ready."""
        return self.ready_s is None and self.is_active


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, the least and the most. The median of an even number of values is the lower one of the middle."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2], ordered[0], ordered[-1]
