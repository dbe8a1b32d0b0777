"""karpenter.sh/v1 NodeClaim: requests one node and reports its state.

The types that it shares with a NodePool's template (requirements, taints, class reference) are here; `nodepool` imports
them.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Final

import msgspec

from holdfast import names
from holdfast.api import aws, patterns
from holdfast.api.conditions import LenientConditions
from holdfast.api.meta import Object, Quantity, Wire
from holdfast.api.schema import Rule, about


def _quoted(keys: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{key}'" for key in keys) + "]"


def label_key_rules(key: str) -> tuple[Rule, ...]:
    """CEL rules for a label key; `key` is the expression of the key.

    Keys in Karpenter's domains are rejected, except those that NodePools and pods may select on.
    """
    domains = (
        (names.KARPENTER_GROUP, (names.CAPACITY_TYPE, names.NODEPOOL)),
        (aws.GROUP, aws.SELECTABLE_LABELS),
    )
    closed = (
        Rule(
            f"{key} in {_quoted(allowed)} || !{key}.find('^[^/]+').endsWith('{domain}')",
            f"labels of the domain {domain} belong to the autoscaler, but for those that can be selected on",
        )
        for domain, allowed in domains
    )
    return (
        *closed,
        Rule(f"{key} != '{names.HOSTNAME}'", f"{names.HOSTNAME} names one node and cannot be asked for"),
    )


class NodeSelectorRequirement(Wire, frozen=True, kw_only=True):
    key: Annotated[
        str,
        about(
            "The label key it is about.",
            max_length=316,
            pattern=patterns.QUALIFIED_NAME,
            rules=label_key_rules("self"),
        ),
    ]
    operator: Annotated[
        str,
        about(
            "How the label's value relates to the values given.",
            enum=("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"),
        ),
    ]
    values: Annotated[
        tuple[str, ...],
        about(
            "For In and NotIn the values; for Gt, Lt, Gte and Lte one whole number; else nothing.",
            list_type="atomic",
        ),
    ] = ()
    min_values: Annotated[
        int | None,
        about(
            "At least this many different values must stay possible among the instance types of a launch.",
            minimum=1,
            maximum=50,
        ),
    ] = None


REQUIREMENT_RULES: Final = (
    Rule(
        "self.all(x, x.operator != 'In' || (has(x.values) && x.values.size() > 0))",
        "a requirement with operator In needs at least one value",
    ),
    Rule(
        "self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0))",
        "a requirement with operator Gt, Lt, Gte or Lte needs exactly one value, a whole number that is not negative",
    ),
    Rule(
        "self.all(x, x.operator != 'In' || !has(x.minValues) || (has(x.values) && x.values.size() >= x.minValues))",
        "a requirement with operator In and minValues needs at least that many values",
    ),
)


def requirements_about(*more: Rule) -> msgspec.Meta:
    """The schema of requirements of NodePool and NodeClaim, with additional rules."""
    return about(
        "Which nodes will do: every requirement must hold for the labels of the node.",
        max_items=100,
        list_type="atomic",
        rules=(*REQUIREMENT_RULES, *more),
    )


class Taint(Wire, frozen=True, kw_only=True):
    key: Annotated[str, about("The taint's key.", min_length=1, pattern=patterns.QUALIFIED_NAME)]
    value: Annotated[str | None, about("The taint's value.", pattern=patterns.QUALIFIED_NAME)] = None
    effect: Annotated[
        str,
        about(
            "What happens to pods that do not tolerate it.",
            enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        ),
    ]
    time_added: Annotated[datetime | None, about("When the taint was added.")] = None


Taints = Annotated[
    tuple[Taint, ...], about("Taints of the node: pods that tolerate them may run on it.", list_type="atomic")
]
StartupTaints = Annotated[
    tuple[Taint, ...],
    about(
        "Taints that something else removes soon after the node starts; pods need not tolerate them to be planned onto it.",
        list_type="atomic",
    ),
]
TerminationGracePeriod = Annotated[
    str | None,
    about(
        "How long a drain may take before pods are deleted regardless of their PodDisruptionBudgets. Unset: no limit.",
        pattern=patterns.DURATION,
    ),
]
ExpireAfter = Annotated[
    str,
    about(
        "How old a node may become before it is drained and ended; Never means any age.",
        pattern=patterns.DURATION_OR_NEVER,
    ),
]


class NodeClassReference(Wire, frozen=True, kw_only=True):
    group: Annotated[
        str,
        about(
            "The API group of the node class, without a version.",
            pattern=patterns.GROUP,
            rules=(Rule("self != ''", "group must not be empty, e.g. karpenter.k8s.aws"),),
        ),
    ]
    kind: Annotated[
        str,
        about(
            "The kind of the node class.",
            rules=(Rule("self != ''", "kind must not be empty, e.g. EC2NodeClass"),),
        ),
    ]
    name: Annotated[
        str, about("The name of the node class.", rules=(Rule("self != ''", "name must not be empty"),))
    ]


NodeClassRef = Annotated[NodeClassReference, about("The node class of the instances.")]


class ResourceRequirements(Wire, frozen=True):
    requests: Annotated[
        dict[str, Quantity], about("What the pods planned for this node ask for, with DaemonSets.")
    ] = {}


class NodeClaimSpec(Wire, frozen=True, kw_only=True):
    node_class_ref: NodeClassRef
    requirements: Annotated[tuple[NodeSelectorRequirement, ...], requirements_about()]
    taints: Taints = ()
    startup_taints: StartupTaints = ()
    resources: Annotated[
        ResourceRequirements | None, about("The smallest amount of resources the node must have.")
    ] = None
    termination_grace_period: TerminationGracePeriod = None
    expire_after: ExpireAfter = "720h"


class NodeClaimStatus(Wire, frozen=True, kw_only=True):
    node_name: Annotated[str | None, about("The name of the Node object that stands for it.")] = None
    provider_id: Annotated[str | None, about("The instance, as the cloud names it.")] = msgspec.field(
        default=None, name="providerID"
    )
    image_id: Annotated[str | None, about("The image (AMI) of the instance.")] = msgspec.field(
        default=None, name="imageID"
    )
    capacity: Annotated[dict[str, Quantity], about("What the node will have in total, estimated.")] = {}
    allocatable: Annotated[dict[str, Quantity], about("What of it pods can use, estimated.")] = {}
    conditions: LenientConditions = ()
    last_pod_event_time: Annotated[
        datetime | None, about("When a pod last came to this node or left it, to within a few seconds.")
    ] = None


class NodeClaim(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "karpenter.sh/v1"
    kind: ClassVar[str] = "NodeClaim"
    plural: ClassVar[str] = "nodeclaims"
    namespaced: ClassVar[bool] = False

    spec: Annotated[
        NodeClaimSpec,
        about(
            "What was asked for. It never changes: a different node is a different NodeClaim.",
            rules=(
                Rule(
                    "self == oldSelf", "the spec of a NodeClaim never changes; delete it and create another"
                ),
            ),
        ),
    ]
    status: Annotated[NodeClaimStatus, about("What became of it.")] = NodeClaimStatus()
