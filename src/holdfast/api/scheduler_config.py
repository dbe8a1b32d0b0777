"""SCHEDULER_CONFIG: the parts of kube-scheduler's configuration that the planner needs.

`holdfast run` reads it at the start, `holdfast plan` from a Catalog. Unknown fields are rejected: a plan that spreads
pods differently than kube-scheduler would launch nodes on which the pods never run.
"""

from typing import Annotated, Any, Final

import msgspec

from holdfast import errors
from holdfast.api import documents, metadata
from holdfast.api.meta import Wire
from holdfast.api.schema import about

_POLICIES: Final = ("Honor", "Ignore")
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")


class DefaultConstraint(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topologySpreadConstraint without a selector, which is computed for each pod."""

    max_skew: Annotated[
        int, msgspec.Meta(ge=1), about("How many more pods a domain may have than another.", minimum=1)
    ]
    topology_key: Annotated[
        str, msgspec.Meta(min_length=1), about("The label that makes nodes a domain.", min_length=1)
    ]
    when_unsatisfiable: Annotated[
        str, about("Whether it is required or preferred.", enum=_WHEN_UNSATISFIABLE)
    ]
    min_domains: Annotated[
        int | None, about("With fewer domains than this, the emptiest counts as empty.", minimum=1)
    ] = None
    node_affinity_policy: Annotated[
        str | None, about("Whether only nodes that a pod selects count; unset: Honor.", enum=_POLICIES)
    ] = None
    node_taints_policy: Annotated[
        str | None, about("Whether only nodes that a pod tolerates count; unset: Ignore.", enum=_POLICIES)
    ] = None


class PodTopologySpread(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default_constraints: Annotated[
        tuple[DefaultConstraint, ...], about("Of pods that have no topologySpreadConstraints of their own.")
    ] = ()


class SchedulerConfig(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pod_topology_spread: Annotated[PodTopologySpread, about("How pods are spread.")] = PodTopologySpread()


def parse(text: str) -> SchedulerConfig:
    """Parses the configuration from YAML or JSON."""
    found = list(documents.read(text.encode()))
    if len(found) != 1 or isinstance(found[0], documents.Broken) or not isinstance(found[0].value, dict):
        raise errors.InvalidInput("the scheduler configuration is not one object in YAML or JSON")
    return read(found[0].value)


def read(document: dict[str, Any]) -> SchedulerConfig:
    """Decodes the configuration from a document of plain values."""
    try:
        config = msgspec.convert(document, SchedulerConfig)
    except msgspec.ValidationError as error:
        raise errors.InvalidInput(f"the scheduler configuration cannot be read: {error}") from error
    found: set[tuple[str, str]] = set()
    for one in config.pod_topology_spread.default_constraints:
        pair = (one.topology_key, one.when_unsatisfiable)
        wrong = [finding.message for finding in metadata.labels({one.topology_key: ""}, ())]
        if one.when_unsatisfiable not in _WHEN_UNSATISFIABLE:
            wrong.append(f"whenUnsatisfiable must be one of {', '.join(_WHEN_UNSATISFIABLE)}")
        if pair in found:
            wrong.append(f"{one.topology_key} with {one.when_unsatisfiable} is there twice")
        if wrong:
            raise errors.InvalidInput(f"the scheduler configuration cannot be used: {wrong[0]}")
        found.add(pair)
    return config
