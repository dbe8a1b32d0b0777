"""Objects as a real API server sends them decode to wire types and encode without loss."""

from typing import Any

import msgspec
import pytest

from holdfast.api import cluster, kinds, nodes, pods, storage, workloads
from holdfast.api.meta import Object, to_wire

META: dict[str, Any] = {
    "name": "web-7d4b9c6f5d-x2x8k",
    "generateName": "web-7d4b9c6f5d-",
    "namespace": "default",
    "uid": "0a9f8e7d-1111-2222-3333-444455556666",
    "resourceVersion": "123456",
    "creationTimestamp": "2026-03-01T08:00:00Z",
    "deletionTimestamp": None,
    "labels": {"app": "web"},
    "annotations": {"note": "x"},
    "ownerReferences": [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web-7d4b9c6f5d",
            "uid": "u1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ],
    "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:x": {}}}],
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": META,
    "spec": {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        ],
        "initContainers": [{"name": "mesh", "image": "mesh:1", "restartPolicy": "Always", "resources": {}}],
        "containers": [
            {
                "name": "web",
                "image": "nginx",
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
                "terminationMessagePolicy": "File",
            }
        ],
        "nodeSelector": {"karpenter.sh/capacity-type": "reserved"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            },
        },
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
                "minDomains": 2,
            }
        ],
        "schedulerName": "default-scheduler",
        "priority": 0,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "nodeName": "ip-10-0-0-1",
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-03-01T08:01:00Z",
            }
        ],
        "startTime": "2026-03-01T08:00:10Z",
        "containerStatuses": [{"name": "web", "ready": True, "allocatedResources": {"cpu": "500m"}}],
        "qosClass": "Burstable",
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "ip-10-0-0-1", "labels": {"karpenter.sh/nodepool": "general"}},
    "spec": {
        "providerID": "aws:///us-west-2a/i-0123456789abcdef0",
        "podCIDRs": ["10.0.1.0/24"],
        "taints": [
            {
                "key": "node.kubernetes.io/unreachable",
                "effect": "NoExecute",
                "timeAdded": "2026-03-01T08:00:00Z",
            }
        ],
    },
    "status": {
        "capacity": {"cpu": "8", "memory": "32386136Ki", "pods": "58", "hugepages-2Mi": "0"},
        "allocatable": {"cpu": "7910m", "memory": "31272024Ki", "pods": "58"},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastHeartbeatTime": "2026-03-01T08:05:00Z",
                "lastTransitionTime": "2026-03-01T08:00:30Z",
                "reason": "KubeletReady",
                "message": "kubelet is posting ready status",
            }
        ],
        "nodeInfo": {
            "bootID": "b1",
            "kubeletVersion": "v1.34.1",
            "architecture": "amd64",
            "operatingSystem": "linux",
            "machineID": "m1",
        },
        "volumesAttached": [{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1", "devicePath": ""}],
        "images": [{"names": ["pause:3.9"], "sizeBytes": 1}],
    },
}
PDB: dict[str, Any] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "minAvailable": "50%",
        "selector": {"matchLabels": {"app": "web"}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    },
    "status": {
        "currentHealthy": 4,
        "desiredHealthy": 2,
        "disruptionsAllowed": 2,
        "expectedPods": 4,
        "observedGeneration": 1,
        "conditions": [{"type": "DisruptionAllowed", "status": "True"}],
    },
}
CSI_NODE: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "ip-10-0-0-1"},
    "spec": {
        "drivers": [
            {"name": "efs.csi.aws.com", "nodeID": "i-1", "topologyKeys": None},
            {
                "name": "ebs.csi.aws.com",
                "nodeID": "i-1",
                "topologyKeys": ["topology.ebs.csi.aws.com/zone"],
                "allocatable": {"count": 26},
            },
        ]
    },
}
EVENT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "web.17a", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web", "uid": "u1", "apiVersion": "v1"},
    "reason": "FailedScheduling",
    "message": "0/3 nodes are available",
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": "2026-03-01T08:00:00.123456Z",
    "series": None,
    "action": "Scheduling",
    "reportingComponent": "default-scheduler",
    "reportingInstance": "default-scheduler-1",
    "type": "Warning",
}
OBJECTS = {obj["kind"]: obj for obj in (POD, NODE, PDB, CSI_NODE, EVENT)}


def decode(obj: dict[str, Any]) -> Object:
    return kinds.from_plain(obj, kinds.BY_NAME[obj["apiVersion"], obj["kind"]])


def encode(obj: Object) -> dict[str, Any]:
    body = msgspec.json.decode(msgspec.json.encode(to_wire(obj)))
    assert isinstance(body, dict)
    return body


@pytest.mark.parametrize("kind", OBJECTS)
def test_decoding_and_encoding_preserves_every_known_field(kind: str) -> None:
    first = decode(OBJECTS[kind])
    assert decode(encode(first)) == first


@pytest.mark.parametrize("kind", OBJECTS)
def test_object_decodes_directly_from_json(kind: str) -> None:
    """The client decodes directly from JSON; an object without nulls must decode to the same value."""
    plain = kinds.without_nulls(OBJECTS[kind])
    known = kinds.BY_NAME[plain["apiVersion"], kind]
    assert msgspec.json.decode(msgspec.json.encode(plain), type=known) == decode(plain)


@pytest.mark.parametrize("kind", OBJECTS)
def test_apiversion_and_kind_are_encoded_with_every_object(kind: str) -> None:
    wire = encode(decode(OBJECTS[kind]))
    assert (wire["apiVersion"], wire["kind"]) == (OBJECTS[kind]["apiVersion"], kind)


def test_pod_is_decoded() -> None:
    pod = decode(POD)
    assert isinstance(pod, pods.Pod)
    assert pod.metadata.owner_references[0].controller is True
    assert pod.metadata.deletion_timestamp is None
    assert pod.spec.containers[0].resources.requests == {"cpu": "500m", "memory": "1Gi"}
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    assert pod.spec.affinity.node_affinity.required is not None
    assert pod.spec.affinity.pod_anti_affinity is not None
    assert pod.spec.affinity.pod_anti_affinity.required[0].topology_key == "kubernetes.io/hostname"
    assert pod.spec.tolerations[0].toleration_seconds == 300
    assert pod.spec.topology_spread_constraints[0].min_domains == 2
    assert pod.status.conditions[0].type == "Ready"


def test_node_is_decoded() -> None:
    node = decode(NODE)
    assert isinstance(node, nodes.Node)
    assert node.spec.provider_id == "aws:///us-west-2a/i-0123456789abcdef0"
    assert node.spec.taints[0].time_added is not None
    assert node.status.node_info.boot_id == "b1"
    assert node.status.capacity["memory"] == "32386136Ki"


@pytest.mark.parametrize("least", [1, "50%"])
def test_min_available_is_a_number_or_a_percentage(least: int | str) -> None:
    budget = decode(PDB | {"spec": {"minAvailable": least}})
    assert isinstance(budget, cluster.PodDisruptionBudget)
    assert budget.spec.min_available == least
    assert budget.spec.selector is None


def test_csinode_may_have_null_instead_of_a_list() -> None:
    node = decode(CSI_NODE)
    assert isinstance(node, storage.CSINode)
    assert node.spec.drivers is not None
    assert node.spec.drivers[0].topology_keys is None
    decoded = msgspec.json.decode(b'{"spec": {"drivers": null}}', type=storage.CSINode)
    assert decoded.spec.drivers is None
    assert encode(decoded)["kind"] == "CSINode"


def test_event_may_have_only_an_event_time() -> None:
    event = decode(EVENT)
    assert isinstance(event, cluster.Event)
    assert event.first_timestamp is None
    assert event.event_time is not None
    assert event.event_time.microsecond == 123456


def test_null_timestamps_of_an_event_decode_directly_from_json() -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(EVENT), type=cluster.Event)
    assert decoded == decode(EVENT)


def test_numbers_are_accepted_as_quantities_in_built_in_kinds() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "web", "resources": {"requests": {"cpu": 0.5, "memory": 1}}}]
                }
            }
        },
    }
    decoded = decode(deployment)
    assert isinstance(decoded, workloads.Deployment)
    assert decoded.spec.replicas is None
    assert decoded.spec.template.spec.containers[0].resources.requests == {"cpu": 0.5, "memory": 1}


def test_a_null_is_unset_at_any_depth() -> None:
    sparse = {
        "metadata": {"name": "a", "labels": None, "ownerReferences": None},
        "spec": {"affinity": None, "containers": [{"name": "a", "resources": None, "ports": None}]},
        "status": None,
    }
    pod = kinds.from_plain(sparse, pods.Pod)
    assert isinstance(pod, pods.Pod)
    assert pod.metadata.labels == {}
    assert pod.spec.containers == (pods.Container(name="a"),)


def test_decoding_error_names_the_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.containers"):
        kinds.from_plain({"spec": {"containers": {}}}, pods.Pod)


def test_every_kind_has_its_own_name_and_plural() -> None:
    assert len(kinds.BY_NAME) == len(kinds.OURS) + len(kinds.BUILT_IN)
    for (version, name), kind in kinds.BY_NAME.items():
        assert (kind.api_version, kind.kind) == (version, name)
        assert kind.plural == kind.plural.lower()


@pytest.mark.parametrize("kind", [*kinds.OURS, *kinds.BUILT_IN])
def test_wire_objects_are_frozen(kind: type[Object]) -> None:
    assert kind.__struct_config__.frozen
