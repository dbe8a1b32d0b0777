"""What the reports are built from."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.api.reports import FailingController
from holdfast.core.scheduling.input.request import Settings
from holdfast.ports import Clock, Cloud, Compute
from holdfast.runtime.cache import Caches
from holdfast.runtime.decision_log import DecisionLog
from holdfast.state.cluster.cluster_state import ClusterState


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The process that answers."""

    version: str
    cluster: str
    kubernetes_version: Callable[[], str]
    name: str  # of the replica
    leads: Callable[[], bool]
    leading_since_s: Callable[[], int | None]
    problem: Callable[[], str]  # why it is not ready; empty: it is
    failing: Callable[[], tuple[FailingController, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    cluster_state: ClusterState
    caches: Caches
    cloud: Cloud
    compute: Compute
    clock: Clock
    decisions: DecisionLog
    planning: Settings
    process: Process
    computed: str = ""  # how this is computed, if no leader answers
