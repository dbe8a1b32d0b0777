"""Which changes of the cluster cause another attempt at consolidation."""

import msgspec
import pytest

from holdfast import names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.ports import Change
from holdfast.runtime.cache import Caches
from holdfast.runtime.clock import RealClock
from holdfast.state.conversion.disruption_input import Changes
from objects import NOW, node, nodeclaim, pod, read


class ClusterChanges:
    def __init__(self) -> None:
        self.caches = Caches((Pod, Node, NodeClaim, NodePool), clock=RealClock())
        self.changes = Changes(self.caches)
        self._version = 0

    def is_change(self, obj: Object, kind: str = "MODIFIED") -> bool:
        """Whether this watch event of the object counts as a change."""
        before, self._version = self.changes.number, self._version + 1
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(self._version))
        self.caches.of(type(obj)).apply(Change(kind, msgspec.structs.replace(obj, metadata=meta)))
        return self.changes.number != before


def pool(generation: int, annotations: dict[str, str]) -> NodePool:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    meta = {"generation": generation, "annotations": annotations}
    return read(NodePool, "default", meta, spec={"template": template})


@pytest.mark.fact("ST-15")
def test_a_bound_or_deleted_pod_is_a_change_and_a_pending_or_ready_pod_is_not() -> None:
    cluster = ClusterChanges()
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert not cluster.is_change(pod())
    assert cluster.is_change(pod(nodeName="n"))
    assert not cluster.is_change(pod(nodeName="n", status=ready))
    assert cluster.is_change(pod(nodeName="n"), "DELETED")


@pytest.mark.fact("ST-15")
def test_a_created_initialized_or_deleted_node_or_claim_is_a_change_and_a_heartbeat_is_not() -> None:
    cluster = ClusterChanges()
    initialized = {"labels": {names.INITIALIZED: "true"}}
    terminating = {
        "conditions": [{"type": "InstanceTerminating", "status": "True", "lastTransitionTime": NOW}]
    }
    assert cluster.is_change(node())
    assert not cluster.is_change(node(status={"conditions": [{"type": "Ready", "status": "True"}]}))
    assert cluster.is_change(node(meta=initialized))
    assert cluster.is_change(node(meta=initialized | {"deletionTimestamp": NOW}))
    assert cluster.is_change(node(meta=initialized), "DELETED")
    assert cluster.is_change(nodeclaim())
    assert not cluster.is_change(nodeclaim(status={"nodeName": "n"}))
    assert cluster.is_change(nodeclaim(status=terminating))
    assert cluster.is_change(nodeclaim(status=terminating), "DELETED")


@pytest.mark.fact("ST-15")
def test_a_new_generation_of_a_nodepool_is_a_change_and_an_annotation_is_not() -> None:
    cluster = ClusterChanges()
    assert cluster.is_change(pool(1, {}))
    assert not cluster.is_change(pool(1, {"example.com/note": "x"}))
    assert cluster.is_change(pool(2, {}))
