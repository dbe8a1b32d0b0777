"""Which virtual pod of a ProvisioningRequest a bound pod replaces."""

import msgspec

import provisioning_requests as documents
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.nominations import Nominations
from holdfast.state.cluster.watched_requests import LiveRequest, WatchedRequests
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pods import PodConverter
from manual_ports import ManualClock
from objects import pod, store

SMALL, LARGE = "500m", "1500m"
META = {"namespace": "default"}


class Cluster:
    """A request `train` with the uid `r`: pods of the first podSet are small, those of the second are large."""

    def __init__(self, small: int, large: int) -> None:
        clock = ManualClock()
        self.caches = Caches([Pod, NodeClaim, ProvisioningRequest, PodTemplate], clock=clock)
        self.nominations = Nominations(clock)
        converter = PodConverter(LabelRules(frozenset(), {}))
        self._requests = WatchedRequests(
            self.caches, converter, self.nominations, with_standard_classes=False
        )
        for name, cpu in (("small", SMALL), ("large", LARGE)):
            template = documents.template(name, cpu)
            template["metadata"] |= META
            store(self.caches, msgspec.convert(template, PodTemplate))
        counts = {name: count for name, count in (("small", small), ("large", large)) if count}
        request = documents.document(templates=counts)
        request["metadata"] |= META | {"uid": "r"}
        store(self.caches, msgspec.convert(request, ProvisioningRequest))

    def bind(self, name: str, node: str, cpu: str = SMALL) -> None:
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        annotations = {documents.CONSUMES: "train"}
        meta = META | {"uid": name, "annotations": annotations}
        store(self.caches, pod(name, meta, nodeName=node, containers=[container]))

    @property
    def request(self) -> LiveRequest:
        (one,) = self._requests.live()
        return one

    @property
    def left(self) -> list[str]:
        return [one.uid for one in self.request.left]


def test_a_pod_replaces_a_virtual_pod_of_its_size_on_its_node() -> None:
    cluster = Cluster(small=2, large=2)
    assert cluster.left == ["r/0-0", "r/0-1", "r/1-0", "r/1-1"]
    for uid in cluster.left:
        cluster.nominations.nominate((uid,), f"n{uid[-1]}", ready=True)
    cluster.bind("a", "n1", LARGE)
    assert cluster.left == ["r/0-0", "r/0-1", "r/1-0"]
    assert cluster.nominations.target_of("r/1-1") is None
    cluster.bind("b", "n1", LARGE)
    assert cluster.left == ["r/0-0", "r/0-1"]


def test_a_pod_of_another_size_replaces_a_virtual_pod_on_its_node() -> None:
    cluster = Cluster(small=3, large=0)
    for number, uid in enumerate(cluster.left):
        cluster.nominations.nominate((uid,), f"n{number}", ready=True)
    cluster.bind("a", "n1", "700m")
    assert cluster.left == ["r/0-0", "r/0-2"]
    cluster.bind("b", "elsewhere", "700m")
    assert cluster.left == ["r/0-2"]


def test_more_pods_than_the_request_has_replace_all_virtual_pods() -> None:
    cluster = Cluster(small=1, large=0)
    cluster.bind("a", "n0")
    cluster.bind("b", "n1")
    assert cluster.left == []
    assert cluster.request.bound == 1


def test_thousands_of_pods_are_seen_at_once_after_a_restart() -> None:
    """The time must not grow with the square of their number: with 10,000 pods the leader would lose its Lease."""
    cluster = Cluster(small=5000, large=0)
    for number in range(5000):
        cluster.bind(f"pod-{number}", f"n{number}")
    assert cluster.request.bound == 5000
