"""SCHEDULER_CONFIG: what our planner has to know of how kube-scheduler is set up.

Read once, when the program starts. The rule: what is not understood is refused, since a plan that spreads pods
otherwise than kube-scheduler does would open nodes on which they never run.
"""

from typing import Annotated, Any

import msgspec

from holdfast import errors
from holdfast.api.meta import Wire


class DefaultConstraint(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topologySpreadConstraint without a selector: whom it is about is deduced for each pod."""

    max_skew: Annotated[int, msgspec.Meta(ge=1)]
    topology_key: Annotated[str, msgspec.Meta(min_length=1)]
    when_unsatisfiable: str
    min_domains: Annotated[int, msgspec.Meta(ge=1)] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class PodTopologySpread(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default_constraints: tuple[DefaultConstraint, ...] = ()


class SchedulerConfig(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pod_topology_spread: PodTopologySpread = PodTopologySpread()


def read(document: dict[str, Any]) -> SchedulerConfig:
    """The configuration that a document of plain values is."""
    try:
        return msgspec.convert(document, SchedulerConfig)
    except msgspec.ValidationError as error:
        raise errors.InvalidInput(f"the scheduler configuration cannot be read: {error}") from error
