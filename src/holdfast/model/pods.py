"""Pods as decisions see them.

Built by `state` once, when a pod is first seen or changes; read by the planner and by disruption. The rule:
`PodShape` is all of a pod that decides where it may run, and nothing else. Pods of equal shape are
interchangeable, so a planner may work on shapes and counts; that is why it is hashable all the way down.
"""

from dataclasses import dataclass

from holdfast.model.host_ports import HostPort
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import Resources
from holdfast.model.selectors import LabelSelector
from holdfast.model.taints import Toleration

Labels = tuple[tuple[str, str], ...]
"""Key and value, sorted by key: hashable, and `dict` of it when one is looked up."""


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """One topologySpreadConstraint; matchLabelKeys are part of the selector already (S-80)."""

    key: str
    max_skew: int
    required: bool  # DoNotSchedule; otherwise a wish
    selector: LabelSelector | None
    min_domains: int | None = None
    honors_node_affinity: bool = True  # whether nodes the pod could not go to count as domains
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
    """What a pod's volumes ask of a node."""

    claims: tuple[tuple[str, str], ...] = ()  # storage driver and claim; equal claims are one attachment
    alternatives: tuple[Requirements, ...] = ()  # where the volumes can be attached: one of these (S-96)


@dataclass(frozen=True, slots=True)
class PodShape:
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


@dataclass(frozen=True, slots=True)
class PodView:
    uid: str
    name: str
    created_s: int
    shape: PodShape
    node_name: str | None = None  # None: pending
    from_daemon_set: bool = False
    reschedulable: bool = True  # it would be made anew elsewhere if its node went (S-3, without budgets)
    ready: bool = True
    do_not_disrupt: bool = False  # at the time of the snapshot
    terminating: bool = False  # on its way out: it still takes room, and counts for nobody else (S-77)
    mirror: bool = False  # the kubelet's own, from a file on its node
    priority: int = 0
    deletion_cost: int = 0  # how much more than others it is to be left alone; negative: rather less
    owner: str = ""  # the uid of what makes it anew elsewhere; its own where nothing does

    @property
    def full_name(self) -> str:
        return f"{self.shape.namespace}/{self.name}"
