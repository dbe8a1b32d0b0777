"""Pods, nodes and NodePools for benchmarks: wire objects, as an API server sends them.

The mix is the one of Karpenter's own scheduling benchmark: five equal parts, with random sizes from a fixed seed.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast import names
from holdfast.api import aws, kinds
from holdfast.api.pods import Pod
from holdfast.cloud.aws.catalog import builder, labels
from holdfast.data import ec2
from holdfast.model import requirement, resources
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodView
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.snapshot import NodePoolView, NodeView
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pods import PodConverter
from planner_builders import WELL_KNOWN, is_in, pool, shape

CPU: Final = (100, 250, 500, 1000, 1500)
MEMORY: Final = (100, 256, 512, 1024, 2048, 4096)
LETTERS: Final = "abcdefg"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
KNOWN: Final = labels.WELL_KNOWN_LABELS | WELL_KNOWN


def mix(count: int, *, own_size: bool = False, topology: bool = True) -> list[Pod]:
    """A fifth each: generic, spread over zones, spread over nodes, near each other in a zone, one per node."""
    dice = random.Random(42)
    each = count // 5 if topology else 0
    makers = [spread(names.ZONE), spread(names.HOSTNAME), zone_affinity, one_per_node]
    kinds_of = [generic] * (count - 4 * each) + [maker for maker in makers for _ in range(each)]
    made = []
    for number, maker in enumerate(kinds_of):
        cpu = 100 + number % 1400 if own_size else dice.choice(CPU)
        memory = 100 + number if own_size else dice.choice(MEMORY)
        made.append(pod(number, cpu, memory, *maker(dice)))
    return made


def generic(dice: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    return {"my-label": dice.choice(LETTERS)}, {}


def spread(key: str) -> Callable[[random.Random], tuple[dict[str, str], dict[str, Any]]]:
    def made(dice: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
        of = {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"my-label": dice.choice(LETTERS)}},
        }
        return {"my-label": dice.choice(LETTERS)}, {"topologySpreadConstraints": [of]}

    return made


def zone_affinity(dice: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    own = {"my-affinity": dice.choice(LETTERS)}
    term = {"topologyKey": names.ZONE, "labelSelector": {"matchLabels": own}}
    return own, {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def one_per_node(_: random.Random) -> tuple[dict[str, str], dict[str, Any]]:
    term = {"topologyKey": names.HOSTNAME, "labelSelector": {"matchLabels": {"app": "nginx"}}}
    return {"app": "nginx"}, {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def own_requirements(count: int, types: Sequence[InstanceType]) -> list[Pod]:
    """Every pod forbids another set of instance types."""
    dice = random.Random(42)
    made = []
    for number in range(count):
        forbidden = sorted(t.name for t in dice.sample(list(types), 3))
        expression = {"key": names.INSTANCE_TYPE, "operator": "NotIn", "values": forbidden}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        made.append(pod(number, 500, 512, {}, {"affinity": {"nodeAffinity": {REQUIRED: terms}}}))
    return made


def unschedulable(count: int) -> list[Pod]:
    """Pods in a few sizes whose nodeSelector matches no node."""
    return [
        pod(n, CPU[n % 5], MEMORY[n % 6], {}, {"nodeSelector": {"team": "nobody"}}, prefix="lost")
        for n in range(count)
    ]


def pod(
    number: int, cpu: int, memory: int, labels: dict[str, str], more: dict[str, Any], prefix: str = "pod"
) -> Pod:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    made = kinds.from_plain(
        {
            "metadata": {
                "name": f"{prefix}-{number}",
                "namespace": "default",
                "uid": f"{prefix}-{number:06d}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": labels,
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "x"}
                ],
            },
            "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}]}
            | more,
            "status": {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            },
        },
        Pod,
    )
    assert isinstance(made, Pod)
    return made


def converter() -> PodConverter:
    return PodConverter(LabelRules(KNOWN))


def views(pods: Sequence[Pod], by: PodConverter | None = None) -> tuple[PodView, ...]:
    """The pods as input of the planner."""
    convert = (by or converter()).view
    return tuple([convert(one, now_s=0)[0] for one in pods])


def nodes(count: int, *, full: bool = True) -> tuple[NodeView, ...]:
    """Nodes with ten pods each in three zones; full ones have no capacity for another pod."""
    running = shape(300, 256)
    allocatable = resources.of(
        {"cpu": 3000 if full else 4000, "memory": 8 * 2**30, "pods": 10 if full else 110}
    )
    return tuple(
        NodeView(
            name=f"node-{n:05d}",
            labels=(
                (names.INSTANCE_TYPE, "fake-it-3"),
                (names.HOSTNAME, f"node-{n:05d}"),
                (names.ZONE, f"z{n % 3 + 1}"),
            ),
            allocatable=allocatable,
            capacity=allocatable,
            pods=tuple(
                PodView(f"run-{n}-{i}", f"run-{n}-{i}", 0, running, f"node-{n:05d}") for i in range(10)
            ),
        )
        for n in range(count)
    )


def real_types() -> tuple[InstanceType, ...]:
    """Every instance type of a region, with its real zones and list prices."""
    return builder.build(builder.shipped(ec2.region("us-east-1")), None, now_s=0)


def getting_started(types: Sequence[InstanceType], *more: Requirement) -> NodePoolView:
    """The NodePool of the getting-started guide: newer c, m and r types."""
    wanted = (
        is_in(aws.INSTANCE_CATEGORY, "c", "m", "r"),
        requirement.of(aws.INSTANCE_GENERATION, Operator.GT, ("2",)),
    )
    return pool("default", types, *wanted, *more)
