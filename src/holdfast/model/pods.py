"""Pods as the planner and disruption read them.

`state` builds a view when a pod is created or changes. `PodShape` holds everything that decides where a pod can run,
and nothing else. Pods of equal shape are interchangeable, so the planner works on shapes and counts; all fields are
hashable for that. Both are NamedTuples, which are made three times as fast as frozen dataclasses: a cluster has many
pods.
"""

from dataclasses import dataclass
from typing import NamedTuple

from holdfast.model.host_ports import HostPort
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import CPU, MEMORY, NOTHING, Resources
from holdfast.model.selectors import LabelSelector
from holdfast.model.taints import Toleration

Labels = tuple[tuple[str, str], ...]
"""Key and value, sorted by key: hashable. Use `dict(labels)` to look one up."""


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """One topologySpreadConstraint; matchLabelKeys are part of the selector already (S-80)."""

    key: str
    max_skew: int
    required: bool  # DoNotSchedule; if false, ScheduleAnyway
    selector: LabelSelector | None
    min_domains: int | None = None
    honors_node_affinity: bool = True  # whether nodes that the pod cannot run on are excluded
    honors_node_taints: bool = False


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One affinity or anti-affinity term; the namespaces are resolved, the pod's own where none was given."""

    key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreferredPodTerm:
    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class PreferredNodeTerm:
    weight: int
    requirements: Requirements


@dataclass(frozen=True, slots=True)
class Volumes:
    """What the volumes of a pod require of a node."""

    claims: tuple[tuple[str, str], ...] = ()  # storage driver and claim; equal claims are one attachment
    alternatives: tuple[
        Requirements, ...
    ] = ()  # the volumes can be attached on nodes that satisfy one of these (S-96)


class PodShape(NamedTuple):
    namespace: str
    requests: Resources  # effective, `pods: 1` included
    labels: Labels = ()
    node_selector: Requirements = NO_REQUIREMENTS
    required_terms: tuple[Requirements, ...] = ()  # node affinity: any one of these, tried in order
    preferred_terms: tuple[PreferredNodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spreads: tuple[TopologySpread, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[PreferredPodTerm, ...] = ()
    preferred_anti_affinity: tuple[PreferredPodTerm, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volumes: Volumes = Volumes()
    lasting: Requirements = (
        NO_REQUIREMENTS  # excludes reservations that end before the pod; set by the planner
    )

    @property
    def terms(self) -> "PodShape":
        """All but its requests: equal for shapes that differ in size alone."""
        return self.resized(NOTHING)

    def resized(self, requests: Resources) -> "PodShape":
        """The shape with other requests. It shares all else with this one, by identity."""
        return PodShape(self.namespace, requests, *self[2:])


class RunTime(NamedTuple):
    """How long a pod runs at most. At least one of the fields is set."""

    lasts_s: int | None = None  # from its start
    ends_s: int | None = None  # its end, whenever it starts


class PodView(NamedTuple):
    uid: str
    name: str
    created_s: int
    shape: PodShape
    node_name: str | None = None  # None: pending
    from_daemon_set: bool = False
    reschedulable: bool = True  # whether it is recreated if its node is deleted, disregarding budgets (S-3)
    ready: bool = True
    do_not_disrupt: bool = False  # at the time of the snapshot
    terminating: bool = False  # it still uses capacity, but topology constraints do not count it (S-77)
    mirror: bool = False  # the mirror of a static pod
    priority: int = 0
    deletion_cost: int = (
        0  # pod-deletion-cost: the higher, the more it costs to evict the pod; may be negative
    )
    owner: str = ""  # the uid of the controller that recreates it; its own uid if there is none
    run_time: RunTime | None = None  # None: not known

    @property
    def full_name(self) -> str:
        return f"{self.shape.namespace}/{self.name}"


def eviction_order(requests: Resources) -> tuple[int, int]:
    """Sorts the largest pod first. kube-scheduler binds replacements in the order they are created: small ones would
    take the capacity that was planned for large ones, which fit on fewer nodes. A drain evicts in this order, and
    consolidation assumes it when it predicts where the pods will be bound."""
    return -requests[CPU], -requests[MEMORY]
