"""Objects with values that users can write and that break careless arithmetic or parsers, from a seed.

Used by tests/fuzz/test_hostile_*.py and scripts/fuzz_hostile.py. `document` replaces some values of a complete object by
hostile values of the same JSON type, so that most documents still decode.
"""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from holdfast import names

Json = dict[str, Any]

LONG: Final = "9" * 5000  # more digits than int() accepts
TEXTS: Final = (
    "", " ", "x" * 3000, "É" * 300, "٣", "-1", "+1", "1.5", "NaN", "Infinity", "true", "Never", "null",
    "9E", "8Ei", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e99", "1e5000", "1e1.5",
    "0.0000000001", "-5", ".", "+", "Ki", "1Zi", LONG, f"{LONG}%", f"{LONG}h", "99999999h", "999999999999999999h",
    "1000000%", "-1%", "* * * * *", f"{LONG} * * * *", f"*/{LONG} * * * *", "0 0 31 2 *", "@never", "60 25 32 13 8",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00", "yesterday",
    "reserved", "spot", "on-demand", "NoSchedule", "Sometimes", "In", "Gt", "Exists", "Equal", "a/b", "a/b/c",
    "aws:///us-west-2a/i-0123456789abcdef0", "aws://", "{}", "[1,2", '{"id":3}', f"1,2,{LONG}", "1,,x",
    '{"id":"","reason":"Empty","method":"emptiness","why":"x","at":99999999999999999999,"replacements":["x"]}',
    '{"id":"a","reason":"?","method":"?","why":"","at":-5,"drainBound":99999999999999999999999}',
)  # fmt: skip
NUMBERS: Final = (
    0,
    1,
    -1,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
)
QUANTITIES: Final = (
    "9E", "9E", "8Ei", "1", "9223372036854775807", "1e99", "-5", "1e5000", "0.0000000001", "4611686018427387904", LONG,
)  # fmt: skip
STORED_QUANTITIES: Final = ("9E", "8Ei", "1", "9223372036854775807", "4611686018427387904", "1n", "0", "100m")
STORED_NUMBERS: Final = (1, 5, 2**31 - 1)
_RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "nodes")
_NUMBER_FIELDS: Final = (
    "priority",
    "maxSkew",
    "minDomains",
    "terminationGracePeriodSeconds",
    "count",
    "disruptionsAllowed",
)
TIMES: Final = (
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-01-01T00:00:00",
    "9999-12-31T23:59:59-23:59",
)
ANNOTATIONS: Final = (
    names.RESERVATION_ID, names.DISRUPTION_COMMAND, names.LAUNCH_TOKEN, names.WAITS_FOR_INSTANCE, names.HELD_FOR, names.INSTANCE_GONE, names.REBOOTS,
    names.REBOOT_PRE_BOOT_ID, names.REBOOT_TERMINATION_GRACE_PERIOD, names.TERMINATION_TIMESTAMP, names.CONSOLIDATED,
    names.RESERVATION_WAIT, names.NODEPOOL_HASH, names.NODEPOOL_HASH_VERSION, names.MIN_VALUES_RELAXED,
    names.DO_NOT_DISRUPT, names.DO_NOT_REPAIR, names.DISRUPTION_COST, names.POD_DELETION_COST,
)  # fmt: skip
LABELS: Final = (
    names.CAPACITY_TYPE, names.NODEPOOL, names.INSTANCE_TYPE, names.ZONE, names.REGISTERED, names.INITIALIZED,
    "karpenter.k8s.aws/capacity-reservation-id",
)  # fmt: skip
LABEL_VALUES: Final = (
    "",
    "reserved",
    "spot",
    "true",
    "9",
    "9" * 63,
    "x.large",
    "default",
    "m5.large",
    "no-such",
    "1.5",
)
WAITS: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2026-11-15T10:00:00Z",
}


def kinds() -> tuple[str, ...]:
    """The kinds that an API server stores."""
    return tuple(kind for kind in _COMPLETE if bucket(kind))


def bucket(kind: str) -> str:
    """The bucket of a kind in the store of the embedded API server; "" if only files contain it."""
    return _COMPLETE[kind][0]


def complete(kind: str, name: str) -> Json:
    """A valid object with every field that Holdfast reads."""
    _, document = _COMPLETE[kind]
    obj: Json = copy.deepcopy(document)
    obj["metadata"] = {"name": name, **obj.get("metadata", {})}
    if bucket(kind) and not bucket(kind).endswith(_CLUSTER_WIDE):
        obj["metadata"]["namespace"] = "default"
    return obj


def document(kind: str, name: str, dice: Random, *, stored: bool = False) -> Json:
    """A complete object with some values replaced. `stored`: built-in kinds get only values that every API server accepts,
    because it validates their quantities, times and enums."""
    obj = complete(kind, name)
    for spec in _pod_specs(obj):
        for key in dice.sample(sorted(spec.keys() - {"containers", "nodeSelector"}), dice.randint(0, 8)):
            del spec[key]
    if stored and "karpenter" not in bucket(kind):
        for parent, key in _scalars({"spec": obj.get("spec", {}), "status": obj.get("status", {})}):
            if key in _RESOURCES and dice.random() < 0.5:
                parent[key] = dice.choice(STORED_QUANTITIES)
            elif key in _NUMBER_FIELDS and dice.random() < 0.5:
                parent[key] = dice.choice(STORED_NUMBERS)
        return _annotated(obj, dice)
    scalars = [
        scalar
        for scalar in _scalars(obj)
        if scalar[1] not in ("name", "namespace", "apiVersion", "kind", "uid")
    ]
    for parent, key in dice.sample(scalars, min(len(scalars), dice.choice((1, 1, 2, 3, 6)))):
        parent[key] = _hostile_value(key, parent[key], dice)
    return _annotated(obj, dice)


def _annotated(obj: Json, dice: Random) -> Json:
    for field, keys, values in (("annotations", ANNOTATIONS, TEXTS), ("labels", LABELS, LABEL_VALUES)):
        if dice.random() < 0.6:
            entries = obj["metadata"].setdefault(field, {})
            entries |= {one: dice.choice(values) for one in dice.sample(keys, dice.randint(1, 4))}
    return obj


def _pod_specs(obj: Json) -> Iterator[Json]:
    """The spec of a pod, or of a pod template."""
    spec = obj.get("spec", {})
    if obj["kind"] == "Pod":
        yield spec
    elif "template" in spec and obj["kind"] != "NodePool":
        yield spec["template"]["spec"]


def _scalars(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(child, dict | list):
            yield from _scalars(child)
        else:
            yield value, key


def _hostile_value(key: Any, value: Any, dice: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return dice.choice(NUMBERS)
    if isinstance(key, str) and (key.endswith(("Time", "Timestamp")) or key == "timeAdded"):
        return dice.choice(TIMES)
    if key in _RESOURCES and dice.random() < 0.7:
        return dice.choice(QUANTITIES)
    return dice.choice(TEXTS)


# --- Complete objects ---------------------------------------------------------------------------------

_AMOUNTS: Final = {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "1Gi", "nvidia.com/gpu": "1"}
_SELECTOR: Final = {
    "matchLabels": {"app": "x"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
}
_NODE_TERM: Final = {
    "matchExpressions": [
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["1"]},
        {"key": names.ZONE, "operator": "In", "values": ["us-west-2a"]},
    ]
}
_POD_TERM: Final = {
    "topologyKey": names.ZONE,
    "labelSelector": _SELECTOR,
    "namespaceSelector": _SELECTOR,
    "matchLabelKeys": ["app"],
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_CONTAINER: Final = {
    "name": "c",
    "image": "i",
    "resources": {"requests": _AMOUNTS, "limits": {"cpu": "1"}},
    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP"}],
}
_POD_SPEC: Final[Json] = {
    "containers": [_CONTAINER, {"name": "d", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
    "initContainers": [
        {"name": "i", "resources": {"requests": {"cpu": "1"}}},
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
    ],
    "overhead": {"cpu": "10m", "memory": "1Mi"},
    "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "affinity": {
        "nodeAffinity": {
            _REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]},
            _PREFERRED: [{"weight": 5, "preference": _NODE_TERM}],
        },
        "podAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": _POD_TERM}]},
        "podAntiAffinity": {_REQUIRED: [{"topologyKey": names.HOSTNAME, "labelSelector": _SELECTOR}]},
    },
    "tolerations": [
        {"key": "k", "operator": "Equal", "value": "1", "effect": "NoSchedule", "tolerationSeconds": 5}
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "minDomains": 2,
            "topologyKey": names.ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": _SELECTOR,
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Ignore",
        }
    ],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "hostile-claim"}}],
    "priority": 0,
    "terminationGracePeriodSeconds": 30,
}
_TEMPLATE: Final = {"metadata": {"labels": {"app": "x"}}, "spec": _POD_SPEC}
_UNSCHEDULABLE_TEMPLATE: Final = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {**_POD_SPEC, "nodeSelector": {"example.com/none": "x"}},
}
_CONDITION: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "m",
    "lastTransitionTime": "2026-11-15T10:00:00Z",
    "observedGeneration": 1,
}
_TAINTS: Final = [{"key": "t", "value": "1", "effect": "NoSchedule"}]
_REQUIREMENTS: Final = [
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["1"], "minValues": 1},
    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
]
_CLASS_REF: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
_PROVIDER_ID: Final = "aws:///us-west-2a/i-0hostile000000000"
_CAPACITY: Final = {"cpu": "4", "memory": "16Gi", "pods": "29", "nvidia.com/gpu": "1"}
_CLUSTER_WIDE: Final = (
    "/nodes", "/nodepools", "/nodeclaims", "/ec2nodeclasses", "/persistentvolumes", "/storageclasses", "/csinodes",
    "/volumeattachments", "/namespaces", "/priorityclasses",
)  # fmt: skip


def _workload(kind: str, **spec: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "spec": {"replicas": 0, "selector": _SELECTOR, "template": _TEMPLATE} | spec,
    }


_COMPLETE: Final[dict[str, tuple[str, Json]]] = {
    "Pod": (
        "/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"labels": {"app": "x"}},
            "spec": _POD_SPEC,
            "status": {
                "phase": "Pending",
                "startTime": "2026-11-15T10:00:00Z",
                "conditions": [WAITS],
                "containerStatuses": [
                    {"name": "c", "allocatedResources": _AMOUNTS, "resources": {"requests": {"cpu": "1"}}}
                ],
            },
        },
    ),
    "Node": (
        "/nodes",
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"labels": {names.ZONE: "us-west-2a", names.INSTANCE_TYPE: "m5.large"}},
            "spec": {"providerID": _PROVIDER_ID, "taints": _TAINTS},
            "status": {
                "capacity": _CAPACITY,
                "allocatable": _CAPACITY,
                "conditions": [_CONDITION],
                "nodeInfo": {"bootID": "b"},
            },
        },
    ),
    "NodePool": (
        "karpenter.sh/nodepools",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"generation": 1},
            "spec": {
                "template": {
                    "metadata": {"labels": {"team": "x"}, "annotations": {"a": "b"}},
                    "spec": {
                        "nodeClassRef": _CLASS_REF,
                        "requirements": _REQUIREMENTS,
                        "taints": _TAINTS,
                        "startupTaints": [{"key": "s", "effect": "NoExecute"}],
                        "terminationGracePeriod": "1h",
                        "expireAfter": "720h",
                    },
                },
                "disruption": {
                    "consolidateAfter": "30s",
                    "consolidationPolicy": "WhenEmpty",
                    "budgets": [
                        {"nodes": "10%"},
                        {"nodes": "3", "schedule": "0 9 * * *", "duration": "8h", "reasons": ["Empty"]},
                    ],
                },
                "limits": {"cpu": "10", "memory": "100Gi", "nodes": "5"},
                "weight": 3,
            },
            "status": {"conditions": [_CONDITION], "nodes": 1, "resources": {"cpu": "1"}},
        },
    ),
    "NodeClaim": (
        "karpenter.sh/nodeclaims",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"generation": 1, "labels": {names.NODEPOOL: "default"}},
            "spec": {
                "nodeClassRef": _CLASS_REF,
                "requirements": _REQUIREMENTS,
                "taints": _TAINTS,
                "startupTaints": [{"key": "s", "effect": "NoExecute"}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                "terminationGracePeriod": "1h",
                "expireAfter": "720h",
            },
            "status": {
                "providerID": _PROVIDER_ID,
                "nodeName": "hostile-node",
                "capacity": _CAPACITY,
                "allocatable": _CAPACITY,
                "lastPodEventTime": "2026-11-15T10:00:00Z",
                "conditions": [
                    {**_CONDITION, "type": type_}
                    for type_ in ("Launched", "Registered", "Initialized", "Rebooting", "Drifted")
                ],
            },
        },
    ),
    "EC2NodeClass": (
        "karpenter.k8s.aws/ec2nodeclasses",
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"generation": 1},
            "spec": {
                "role": "KarpenterNodeRole-test",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "test"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "test"}}],
                "capacityReservationSelectorTerms": [{"tags": {"team": "x*"}}],
                "kubelet": {
                    "maxPods": 29,
                    "podsPerCore": 4,
                    "kubeReserved": {"cpu": "100m", "memory": "100Mi"},
                    "systemReserved": {"cpu": "100m", "memory": "100Mi"},
                    "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
                    "evictionSoft": {"memory.available": "10%"},
                    "evictionSoftGracePeriod": {"memory.available": "1m"},
                    "clusterDNS": ["10.0.0.10"],
                    "imageGCHighThresholdPercent": 85,
                    "imageGCLowThresholdPercent": 80,
                },
                "blockDeviceMappings": [
                    {
                        "deviceName": "/dev/xvda",
                        "rootVolume": True,
                        "ebs": {"volumeSize": "20Gi", "iops": 3000, "throughput": 125, "volumeType": "gp3"},
                    }
                ],
                "userData": "#!/bin/bash\ntrue\n",
                "tags": {"team": "x"},
                "metadataOptions": {"httpPutResponseHopLimit": 1},
                "detailedMonitoring": False,
            },
            "status": {"conditions": [_CONDITION]},
        },
    ),
    "PodDisruptionBudget": (
        "policy/poddisruptionbudgets",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "spec": {"selector": {"matchLabels": {"app": "nobody"}}, "maxUnavailable": 1},
            "status": {"disruptionsAllowed": 1},
        },
    ),
    # It matches no node: otherwise the planner correctly subtracts its requests from every node.
    "DaemonSet": ("apps/daemonsets", _workload("DaemonSet", template=_UNSCHEDULABLE_TEMPLATE)),
    "Deployment": ("apps/deployments", _workload("Deployment")),
    "StatefulSet": ("apps/statefulsets", _workload("StatefulSet")),
    "ReplicaSet": ("apps/replicasets", _workload("ReplicaSet")),
    "Job": ("batch/jobs", {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 0, "template": _TEMPLATE}}),
    "PersistentVolume": (
        "/persistentvolumes",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [_NODE_TERM]}},
                "storageClassName": "gp3",
                "capacity": {"storage": "1Gi"},
            },
        },
    ),
    "PersistentVolumeClaim": (
        "/persistentvolumeclaims",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "spec": {"storageClassName": "hostile-class", "volumeName": "hostile-volume"},
            "status": {"phase": "Bound"},
        },
    ),
    "StorageClass": (
        "storage.k8s.io/storageclasses",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": names.ZONE, "values": ["us-west-2a"]}]}],
        },
    ),
    "CSINode": (
        "storage.k8s.io/csinodes",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}}]},
        },
    ),
    "VolumeAttachment": (
        "storage.k8s.io/volumeattachments",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "spec": {"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            "status": {"attached": True},
        },
    ),
    "Service": (
        "/services",
        {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "x"}, "clusterIP": "10.96.0.9"}},
    ),
    # Only files contain these two kinds.
    "Catalog": (
        "",
        {
            "apiVersion": "holdfast.dev/v1alpha1",
            "kind": "Catalog",
            "spec": {
                "now": "2026-11-15T10:00:00Z",
                "settings": {"packingCandidates": 2, "reservationWait": "5m", "ledgerLag": "2m"},
                "instanceTypes": [
                    {
                        "name": "m5.large",
                        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
                        "overhead": {"cpu": "100m", "memory": "1Gi"},
                        "volumeLimits": {"ebs.csi.aws.com": 25},
                        "offerings": [
                            {"zone": "us-west-2a", "capacityType": "on-demand", "price": "0.096", "available": 5},
                            {
                                "zone": "us-west-2a",
                                "capacityType": "reserved",
                                "reservation": {"id": "cr-2", "total": 2, "available": 1},
                            },
                        ],
                    }
                ],
                "reservations": [
                    {
                        "id": "cr-1",
                        "instanceType": "m5.large",
                        "zone": "us-west-2a",
                        "total": 4,
                        "available": 2,
                        "start": "2026-11-15T10:00:00Z",
                        "end": "2026-12-15T10:00:00Z",
                        "tags": {"team": "x"},
                    }
                ],
            },
        },
    ),
    "World": (
        "",
        {
            "apiVersion": "holdfast.dev/v1alpha1",
            "kind": "World",
            "spec": {
                "start": "2026-11-15T10:00:00Z",
                "accounts": [{"id": "111122223333", "vcpuLimit": 100}],
                "pageSize": 100,
                "subnetAddresses": 100,
                "reservations": [
                    {
                        "id": "cr-0123456789abcdef0",
                        "instanceType": "m5.large",
                        "zone": "us-west-2a",
                        "total": 3,
                        "usedElsewhere": 1,
                        "start": "2026-11-15T10:00:00Z",
                        "end": "2026-12-15T10:00:00Z",
                    }
                ],
                "capacity": [{"instanceType": "m5.large", "zone": "us-west-2a", "left": 3}],
                "prices": [{"instanceType": "m5.large", "price": "0.1"}],
                "timings": {"boot": "3s", "join": "5s", "stale": "1s", "forget": "1h"},
                "faults": [
                    {"type": "Dies", "from": "1m", "until": "1h", "after": "60s", "times": 2},
                    {"type": "Taken", "reservation": "cr-0123456789abcdef0", "count": 1},
                    {"type": "Partial", "atMost": 3, "chancePercent": 50},
                ],
            },
        },
    ),
    "Lease": (
        "coordination.k8s.io/leases",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "spec": {
                "holderIdentity": "x",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 1,
                "renewTime": "2026-11-15T10:00:00.000000Z",
            },
        },
    ),
}  # fmt: skip
