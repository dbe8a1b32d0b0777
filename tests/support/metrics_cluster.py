"""A controller whose caches have a large cluster, to measure its metrics. Nothing runs."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

import app_environment
from app_environment import AppEnvironment
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.app import declared_metrics
from holdfast.app.program import App
from holdfast.app.settings import Settings
from holdfast.runtime import metrics
from holdfast.runtime.metrics import Metric

POOLS: Final = 20
ZONES: Final = ("us-west-2a", "us-west-2b", "us-west-2c")
KINDS: Final = ("reserved", "on-demand")
CONDITIONS: Final = (
    *("Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound", "Drifted", "Consolidatable"),
    *("InstanceTerminating", "Drained", "VolumesDetached", "DisruptionReason"),
)
NODE_CONDITIONS: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "NetworkingReady")
MOMENT: Final = "2026-11-15T09:00:00Z"
Rows = list[dict[str, str]]


def _rows(**values: Iterable[str]) -> Rows:
    return [dict(zip(values, row, strict=True)) for row in itertools.product(*values.values())]


POOL_NAMES: Final = tuple(f"team-{number:02}" for number in range(POOLS))
DECIDED: Final = (
    *({"reason": reason, "consolidation_type": ""} for reason in ("drifted", "unhealthy", "")),
    {"reason": "empty", "consolidation_type": "empty"},
    *({"reason": "underutilized", "consolidation_type": kind} for kind in ("single", "multi")),
)
CALLS: Final = tuple(
    {"controller": controller, "method": method, "provider": "aws"}
    for controller, method in (
        ("nodeclaim.lifecycle", "Create"),
        ("nodeclaim.lifecycle", "Delete"),
        ("node.termination", "Delete"),
        ("node.termination", "Get"),
        ("nodeclaim.garbage", "List"),
        ("provisioner", "List"),
        ("provisioner", "GetInstanceTypes"),
        ("disruption", "GetInstanceTypes"),
        ("nodeclaim.lifecycle", "IsDrifted"),
    )
)
CHANGES: Final = tuple(
    {"type": type_, "status": old, "to_status": new, "reason": type_}
    for type_, old, new in (
        *((one, "Unknown", "True") for one in ("Launched", "Registered", "Initialized", "Ready", "Drained")),
        *((one, "True", "False") for one in ("Ready", "Consolidatable")),
        *((one, "False", "True") for one in ("Ready", "Consolidatable")),
    )
)


def _series(metric: Metric, controllers: tuple[str, ...]) -> Rows:
    """The labels that happen in a cluster with twenty busy NodePools."""
    name, labels = metric.name, set(metric.labels)
    if name.startswith(("controller_runtime_", "workqueue_")):
        rows = [{"name": one, "controller": one} for one in controllers]
        outcomes = ("success", "requeue_after", "error") if "result" in labels else ("",)
        return [row | {"result": outcome} for row in rows for outcome in outcomes]
    if name.startswith("karpenter_cloudprovider_") and "method" in labels:
        refused = [CALLS[0] | {"error": "InsufficientCapacityError", "nodepool": one} for one in POOL_NAMES]
        return [*(call | {"error": "unknown", "nodepool": ""} for call in CALLS), *refused]
    if name.startswith("operator_"):
        few = name.startswith(("operator_nodepool_", "operator_ec2nodeclass_"))
        group = {"group": "karpenter.sh", "kind": "NodeClaim"}
        without = dict.fromkeys(metric.labels, "")  # NodeClaims share series
        return [without | group | change for change in (CHANGES[3:4] if few else CHANGES)]
    if name.startswith("karpenter_scheduler_"):
        return _rows(controller=("provisioner", "disruption"))
    if name.startswith("holdfast_aws_call"):
        operations = tuple(f"DescribeSomething{number}" for number in range(15))
        return _rows(service=("ec2",), operation=operations, outcome=("ok", "Throttled"))
    values: dict[str, Iterable[str]] = {
        "nodepool": POOL_NAMES,
        "zone": ZONES,
        "reservation": tuple(f"cr-0123456789abcdef{number}" for number in range(10)),
        "policy": ("Balanced",),
        "resource": ("pods", "nodes", "nodeclaims", "nodepools", "daemonsets", "persistentvolumeclaims"),
        "result": ("succeeded", "provider_error"),
    }
    found = _rows(**{one: values[one] for one in labels & values.keys()})
    if "policy" in labels:
        found = found[:5]  # few NodePools are Balanced
    if "consolidation_type" in labels:
        found = [row | decided for row in found for decided in DECIDED]
    elif "reason" in labels:
        found = [row | {"reason": one} for row in found for one in ("drifted", "empty", "underutilized")]
    return found


def app(nodes: int, pods_each: int, settings: Settings = app_environment.SETTINGS) -> App:
    """A controller that leads, with this many nodes and pods in its caches."""
    found = AppEnvironment(settings=settings).app
    found.manager.is_controlling = True
    for obj in itertools.chain(_pools(), _nodes(nodes), _pods(nodes, pods_each)):
        found.caches.of(type(obj)).written(obj)
    return found


def record_everything(found: App) -> None:
    """Gives every counter and histogram the series that a busy cluster with 20 NodePools has."""
    controllers = tuple(one.name for one in found.controllers)
    for metric in (*metrics.ENGINE, *declared_metrics.METRICS):
        if metric.kind == "gauge":
            continue
        for row in _series(metric, controllers):
            about = {name: row.get(name, "some") for name in metric.labels}
            if metric.kind == "counter":
                found.recorder.count(metric.name, about, 12345)
            else:
                found.recorder.observe(metric.name, about, 1.2345)


def _meta(name: str, number: int, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": str(number + 1),
        "creationTimestamp": MOMENT,
        **fields,
    }


def _conditions(types: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"type": one, "status": "True", "reason": one, "lastTransitionTime": MOMENT} for one in types]


def _pools() -> Iterator[NodePool]:
    for number in range(POOLS):
        document = {
            "metadata": _meta(f"team-{number:02}", number),
            "spec": {
                "template": {
                    "spec": {
                        "nodeClassRef": {
                            "group": "karpenter.k8s.aws",
                            "kind": "EC2NodeClass",
                            "name": "default",
                        },
                        "requirements": [],
                    }
                }
            },
            "status": {"conditions": _conditions(("Ready", "NodeClassReady", "ValidationSucceeded"))},
        }
        yield msgspec.convert(document, NodePool)


def _nodes(count: int) -> Iterator[Node | NodeClaim]:
    size = {"cpu": "8", "memory": "32Gi", "pods": "58", "ephemeral-storage": "100Gi", "hugepages-2Mi": "0"}
    left = size | {"cpu": "7910m", "memory": "30Gi", "ephemeral-storage": "90Gi"}
    for number in range(count):
        name, provider_id = (
            f"ip-10-0-{number // 250}-{number % 250}.internal",
            f"aws:///us-west-2a/i-{number:017}",
        )
        labels = {
            names.NODEPOOL: f"team-{number % POOLS:02}",
            names.CAPACITY_TYPE: KINDS[number // POOLS % len(KINDS)],
            names.ZONE: ZONES[number % len(ZONES)],
            names.INSTANCE_TYPE: "m5.2xlarge",
            names.ARCH: "amd64",
            names.OS: "linux",
            "karpenter.k8s.aws/ec2nodeclass": "default",
            names.INITIALIZED: "true",
        }
        yield msgspec.convert(
            {
                "metadata": _meta(name, number, labels=labels),
                "spec": {"providerID": provider_id},
                "status": {"capacity": size, "allocatable": left, "conditions": _conditions(NODE_CONDITIONS)},
            },
            Node,
        )
        claim = {
            "metadata": _meta(f"team-{number % POOLS:02}-{number:05}", number, labels=labels),
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            },
            "status": {"providerID": provider_id, "nodeName": name, "conditions": _conditions(CONDITIONS)},
        }
        yield msgspec.convert(claim, NodeClaim)


def _pods(nodes: int, each: int) -> Iterator[Pod]:
    asked = {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    for node, number in itertools.product(range(nodes), range(each)):
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet" if number == 0 else "ReplicaSet",
            "name": "web",
            "uid": "u",
        }
        yield msgspec.convert(
            {
                "metadata": _meta(f"web-{node}-{number}", node, namespace="default", ownerReferences=[owner]),
                "spec": {
                    "nodeName": f"ip-10-0-{node // 250}-{node % 250}.internal",
                    "containers": [{"name": "web", "resources": asked}],
                },
                "status": {"phase": "Running", "conditions": _conditions(("PodScheduled", "Ready"))},
            },
            Pod,
        )
