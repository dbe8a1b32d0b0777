"""karpenter.sh/v1 NodePool: which nodes may be launched, how many, and when they may be disrupted."""

from typing import Annotated, ClassVar, Final

from holdfast import names
from holdfast.api import patterns
from holdfast.api.conditions import Conditions
from holdfast.api.meta import Object, Quantity, Wire
from holdfast.api.nodeclaim import (
    ExpireAfter,
    NodeClassReference,
    NodeSelectorRequirement,
    StartupTaints,
    Taints,
    TerminationGracePeriod,
    label_key_rules,
    requirements_about,
)
from holdfast.api.reservation_slots import NodePoolSlots
from holdfast.api.schema import Rule, about

_NODEPOOL_KEY_MESSAGE: Final = f"{names.NODEPOOL} is set by the autoscaler to the name of the NodePool"


def _rules_for_each_label() -> tuple[Rule, ...]:
    return tuple(Rule(f"self.all(x, {rule.rule})", rule.message) for rule in label_key_rules("x"))


class TemplateMetadata(Wire, frozen=True):
    labels: Annotated[
        dict[str, Annotated[str, about("", max_length=63, pattern=patterns.LABEL_VALUE)]],
        about(
            "Labels that every node of the pool gets.",
            max_properties=100,
            map_type="atomic",
            rules=(
                *_rules_for_each_label(),
                Rule(f"self.all(x, x != '{names.NODEPOOL}')", _NODEPOOL_KEY_MESSAGE),
            ),
        ),
    ] = {}
    annotations: Annotated[
        dict[str, str], about("Annotations that every node of the pool gets.", map_type="granular")
    ] = {}


class TemplateSpec(Wire, frozen=True, kw_only=True):
    node_class_ref: Annotated[
        NodeClassReference,
        about(
            "The node class of the instances. Its name may change, its kind may not.",
            rules=(
                Rule(
                    "self.group == oldSelf.group", "nodeClassRef.group cannot change; create another NodePool"
                ),
                Rule("self.kind == oldSelf.kind", "nodeClassRef.kind cannot change; create another NodePool"),
            ),
        ),
    ]
    requirements: Annotated[
        tuple[NodeSelectorRequirement, ...],
        requirements_about(Rule(f"self.all(x, x.key != '{names.NODEPOOL}')", _NODEPOOL_KEY_MESSAGE)),
    ]
    taints: Taints = ()
    startup_taints: StartupTaints = ()
    termination_grace_period: TerminationGracePeriod = None
    expire_after: ExpireAfter = "720h"


class NodeClaimTemplate(Wire, frozen=True, kw_only=True):
    metadata: Annotated[TemplateMetadata, about("Labels and annotations of the nodes.")] = TemplateMetadata()
    spec: Annotated[TemplateSpec, about("What the NodeClaims of this pool ask for.")]


class Budget(Wire, frozen=True, kw_only=True):
    nodes: Annotated[
        str,
        about(
            "How many nodes may be disrupted at once: a number, or a share of the pool such as 10%.",
            pattern=patterns.BUDGET_NODES,
        ),
    ] = "10%"
    reasons: Annotated[
        tuple[Annotated[str, about("", enum=("Underutilized", "Empty", "Drifted", "Unhealthy"))], ...] | None,
        about("The reasons this budget bounds; unset means all of them.", max_items=50, list_type="set"),
    ] = None
    schedule: Annotated[
        str | None,
        about(
            "When the budget begins to count: five cron fields or @daily and the like, in UTC. Unset: always.",
            pattern=patterns.BUDGET_SCHEDULE,
        ),
    ] = None
    duration: Annotated[
        str | None,
        about(
            "For how long it counts from each beginning, in hours and minutes.",
            pattern=patterns.BUDGET_DURATION,
        ),
    ] = None


class Disruption(Wire, frozen=True, kw_only=True):
    consolidate_after: Annotated[
        str,
        about(
            "How long no pod may have come or gone before a node is considered; Never switches consolidation off.",
            pattern=patterns.DURATION_OR_NEVER,
        ),
    ] = "0s"
    consolidation_policy: Annotated[
        str,
        about(
            "Which nodes are considered: empty ones, any that could be had cheaper, or those where the saving is worth the disruption.",
            enum=("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"),
        ),
    ] = "WhenEmptyOrUnderutilized"
    budgets: Annotated[
        tuple[Budget, ...],
        about(
            "How many nodes may be disrupted at once. With several, the smallest that counts at the time decides.",
            max_items=50,
            list_type="atomic",
            default=({"nodes": "10%"},),
            rules=(
                Rule(
                    "self.all(x, has(x.schedule) == has(x.duration))",
                    "schedule and duration of a budget go together: set both or none",
                ),
            ),
        ),
    ] = (Budget(),)


class NodePoolSpec(Wire, frozen=True, kw_only=True):
    template: Annotated[NodeClaimTemplate, about("What each NodeClaim of the pool is made from.")]
    disruption: Annotated[
        Disruption,
        about("When nodes of the pool may be disrupted.", default={"consolidateAfter": "0s"}),
    ] = Disruption()
    limits: Annotated[
        dict[str, Quantity], about("How much the pool may hold in total, by resource; nodes counts nodes.")
    ] = {}
    weight: Annotated[
        int | None,
        about("Pools with more weight are tried first.", minimum=1, maximum=100, format="int32"),
    ] = None
    replicas: Annotated[
        int | None,
        about(
            "A fixed number of nodes, whatever the pods need. Accepted for compatibility; has no effect yet.",
            minimum=0,
            format="int64",
        ),
    ] = None


class NodePoolStatus(Wire, frozen=True, kw_only=True):
    resources: Annotated[dict[str, Quantity], about("What the nodes of the pool have in total.")] = {}
    nodes: Annotated[int, about("How many nodes the pool has.", format="int64")] = 0
    node_class_observed_generation: Annotated[
        int | None, about("The generation of the node class that the pool has seen.", format="int64")
    ] = None
    nodes_by_capacity_type: Annotated[
        dict[str, int], about("How many nodes the pool has of each capacity type, at most 15 s old.")
    ] = {}
    reservation_slots: Annotated[
        NodePoolSlots | None, about("The slots of the reservations that the pool can use, at most 15 s old.")
    ] = None
    conditions: Conditions = ()


class NodePool(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "karpenter.sh/v1"
    kind: ClassVar[str] = "NodePool"
    plural: ClassVar[str] = "nodepools"
    namespaced: ClassVar[bool] = False

    spec: Annotated[
        NodePoolSpec,
        about(
            "What kind of nodes may be made, how many, and when they may be disrupted.",
            rules=(
                Rule(
                    "has(self.replicas) == has(oldSelf.replicas)",
                    "a NodePool cannot gain or lose replicas after it was created; create another NodePool",
                ),
                Rule(
                    "!has(self.replicas) || !has(self.limits) || self.limits.all(x, x == 'nodes')",
                    "a NodePool with replicas can limit nodes and nothing else",
                ),
                Rule(
                    "!has(self.replicas) || !has(self.weight)",
                    "a NodePool with replicas cannot have a weight",
                ),
            ),
        ),
    ]
    status: Annotated[NodePoolStatus, about("What the pool holds.")] = NodePoolStatus()
