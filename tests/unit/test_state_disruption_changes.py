"""What counts as a change that could make consolidation worth a try."""

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


class Watched:
    def __init__(self) -> None:
        self.caches = Caches((Pod, Node, NodeClaim, NodePool), clock=RealClock())
        self.changes = Changes(self.caches)
        self._version = 0

    def moves(self, obj: Object, kind: str = "MODIFIED") -> bool:
        """Whether that an object came, changed or went is a change."""
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
def test_pods_that_are_bound_or_go_are_a_change_and_pods_that_wait_or_get_ready_are_not() -> None:
    seen = Watched()
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert not seen.moves(pod())
    assert seen.moves(pod(nodeName="n"))
    assert not seen.moves(pod(nodeName="n", status=ready))
    assert seen.moves(pod(nodeName="n"), "DELETED")


@pytest.mark.fact("ST-15")
def test_nodes_and_claims_that_come_go_are_initialized_or_are_to_go_are_a_change_and_heartbeats_are_not() -> (
    None
):
    seen = Watched()
    initialized = {"labels": {names.INITIALIZED: "true"}}
    ending = {"conditions": [{"type": "InstanceTerminating", "status": "True", "lastTransitionTime": NOW}]}
    assert seen.moves(node())
    assert not seen.moves(node(status={"conditions": [{"type": "Ready", "status": "True"}]}))
    assert seen.moves(node(meta=initialized))
    assert seen.moves(node(meta=initialized | {"deletionTimestamp": NOW}))
    assert seen.moves(node(meta=initialized), "DELETED")
    assert seen.moves(nodeclaim())
    assert not seen.moves(nodeclaim(status={"nodeName": "n"}))
    assert seen.moves(nodeclaim(status=ending))
    assert seen.moves(nodeclaim(status=ending), "DELETED")


@pytest.mark.fact("ST-15")
def test_another_spec_of_a_pool_is_a_change_and_what_is_counted_of_it_is_not() -> None:
    seen = Watched()
    assert seen.moves(pool(1, {}))
    assert not seen.moves(pool(1, {"example.com/note": "x"}))
    assert seen.moves(pool(2, {}))
