"""The checker's rules about pods: each accepts a correct plan and reports the same plan with one error."""

import pytest

from checker import check, samples
from checker.samples import A, B, Document, catalog, claim, node, node_class, plan, pod, pool, unplaced
from holdfast import names

BASIC = [catalog(), pool(), node_class()]
DRIVER = "ebs.csi.aws.com"


def rules(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.check(documents, found)}


def test_pod_missing_in_the_plan_is_reported() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan()) == {"pod-once"}


def test_pod_placed_twice_is_reported() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p"), claim("p"))) == {"pod-once"}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_workload_adds_pods_for_its_missing_replicas(kind: str) -> None:
    owned = pod("web-2")
    owned["metadata"]["ownerReferences"] = [{"kind": kind, "name": "web"}]
    spec = {"replicas": 3, "template": {"spec": pod("")["spec"]}}
    workload = {"kind": kind, "metadata": {"name": "web"}, "spec": spec}
    documents = [*BASIC, owned, workload]
    assert rules(documents, plan(claim("web-0", "web-1"), claim("web-2"))) == set()
    assert rules(documents, plan(claim("web-0"), claim("web-2"))) == {"pod-once"}
    assert rules(documents, plan(claim("web-0", "web-1"), claim("web-own", "web-2"))) == {"pod-unknown"}


def test_job_adds_as_many_pods_as_its_parallelism() -> None:
    spec = {"parallelism": 2, "completions": 5, "template": {"spec": pod("")["spec"]}}
    documents = [*BASIC, {"kind": "Job", "metadata": {"name": "work"}, "spec": spec}]
    assert rules(documents, plan(claim("work-0", "work-1"))) == set()
    assert rules(documents, plan(claim("work-0"))) == {"pod-once"}


def test_unknown_pod_in_the_plan_is_reported() -> None:
    assert rules([*BASIC, pod("p")], plan(claim("p", "ghost"))) == {"pod-unknown"}
    with_unknown_pod = plan(claim("p"), notReserved=[unplaced("ghost")])
    assert rules([*BASIC, pod("p")], with_unknown_pod) == {"pod-unknown"}


def test_an_unplaced_pod_has_a_reason() -> None:
    documents = [*BASIC, pod("huge", cpu="99")]
    assert rules(documents, plan(unplaced=[unplaced("huge")])) == set()
    without_reasons = {"pod": "default/huge", "reasons": []}
    assert rules(documents, plan(unplaced=[without_reasons])) == {"unplaced-reason"}


WAITING_POD = {"pod": "default/p", "reservation": "cr-1", "until": "2026-11-15T10:05:00Z", "reasons": []}


@pytest.mark.parametrize(
    "broken", [{"reservation": "cr-none"}, {"until": None}, {"until": "2026-11-15T11:00:00Z"}]
)
def test_waiting_pod_has_a_known_reservation_and_a_deadline(broken: Document) -> None:
    full = samples.reservation(available=0)
    documents = [catalog(reservations=[full], reservationWait="5m"), pool(), node_class(), pod("p")]
    assert rules(documents, plan(waiting=[WAITING_POD])) == set()
    assert rules(documents, plan(waiting=[WAITING_POD | broken])) == {"waiting"}


def test_no_pod_waits_without_reservation_wait() -> None:
    full = samples.reservation(available=0)
    documents = [catalog(reservations=[full]), pool(), node_class(), pod("p")]
    assert rules(documents, plan(waiting=[WAITING_POD])) == {"waiting"}


def test_pods_are_placed_only_on_existing_nodes_that_are_not_deleting() -> None:
    deleting = node("leaving")
    deleting["metadata"]["deletionTimestamp"] = "2026-11-15T09:59:00Z"
    documents = [*BASIC, node(), deleting, pod("p")]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == set()
    assert rules(documents, plan(nodes={"ghost": ["p"]})) == {"node-exists"}
    assert rules(documents, plan(nodes={"leaving": ["p"]})) == {"node-exists"}


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "team", "operator": "Exists"},
        {"key": "team", "value": "ml"},
        {"key": "team", "value": "ml", "effect": "NoSchedule"},
    ],
)
def test_taints_are_tolerated(toleration: Document) -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    documents = [catalog(), pool(taints=[taint]), node_class()]
    assert rules([*documents, pod("p", tolerations=[toleration])], plan(claim("p"))) == set()
    other = toleration | {"key": "other", "operator": "Equal"}
    assert rules([*documents, pod("p", tolerations=[other])], plan(claim("p"))) == {"pod-taints"}


def test_prefer_no_schedule_taint_needs_no_toleration() -> None:
    documents = [*BASIC, node(taints=[{"key": "slow", "effect": "PreferNoSchedule"}]), pod("p")]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == set()


def test_node_selector_matches_every_zone_that_the_claim_allows() -> None:
    documents = [*BASIC, pod("p", nodeSelector={names.ZONE: A})]
    assert rules(documents, plan(claim("p"))) == set()
    any_zone = claim("p")
    any_zone["requirements"] = [one for one in any_zone["requirements"] if one["key"] != names.ZONE]
    assert rules(documents, plan(any_zone)) == {"pod-selector"}
    assert rules(documents, plan(claim("p", zone=B))) == {"pod-selector"}


def test_one_matching_node_affinity_term_is_enough() -> None:
    terms = [
        {"matchExpressions": [samples.wanted(names.ARCH, "In", "arm64")]},
        {"matchExpressions": [samples.wanted("karpenter.k8s.aws/instance-cpu", "Gt", "3")]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    documents = [*BASIC, pod("p", affinity={"nodeAffinity": required})]
    assert rules(documents, plan(samples.big_claim("p"))) == set()
    assert rules(documents, plan(claim("p"))) == {"pod-selector"}


def test_node_selector_does_not_match_a_node_without_the_label() -> None:
    documents = [*BASIC, node(team="ml"), node("node-2"), pod("p", nodeSelector={"team": "ml"})]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == set()
    assert rules(documents, plan(nodes={"node-2": ["p"]})) == {"pod-selector"}


def test_pods_fit_beside_the_running_pods_of_a_node() -> None:
    running = pod("r", cpu="500m", nodeName="node-1")
    documents = [*BASIC, node(), running, pod("p", cpu="1500m"), pod("q", cpu="100m")]
    assert rules(documents, plan(claim("q"), nodes={"node-1": ["p"]})) == set()
    assert rules(documents, plan(nodes={"node-1": ["p", "q"]})) == {"node-resources"}


def test_capacity_is_needed_for_a_daemonset_pod_that_does_not_run_yet() -> None:
    template = {"spec": pod("", cpu="600m")["spec"]}
    daemon = {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"template": template}}
    documents = [*BASIC, node(), daemon, pod("p", cpu="1500m")]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == {"node-resources"}
    daemon_pod = pod("agent-x", cpu="300m", nodeName="node-1")
    daemon_pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent"}]
    assert rules([*documents, daemon_pod], plan(nodes={"node-1": ["p"]})) == set()


def test_requests_of_init_containers_count() -> None:
    init = {"name": "init", "resources": {"requests": {"cpu": "3"}}}
    documents = [*BASIC, node(), pod("p", initContainers=[init])]
    assert rules(documents, plan(samples.big_claim("p"))) == set()
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == {"node-resources"}


def test_no_two_pods_of_a_node_have_the_same_host_port() -> None:
    def host_port(address: str, protocol: str = "TCP") -> Document:
        return {"ports": [{"hostPort": 80, "hostIP": address, "protocol": protocol}]}

    documents = [*BASIC, pod("p", cpu="100m", **host_port("10.0.0.1"))]
    together = plan(claim("p", "q"))
    assert rules([*documents, pod("q", cpu="100m", **host_port("10.0.0.2"))], together) == set()
    assert rules([*documents, pod("q", cpu="100m", **host_port("10.0.0.1", "UDP"))], together) == set()
    assert rules([*documents, pod("q", cpu="100m", **host_port("10.0.0.1"))], together) == {"host-ports"}
    assert rules([*documents, pod("q", cpu="100m", **host_port(""))], together) == {"host-ports"}


def test_daemonset_uses_its_host_port_on_a_new_node() -> None:
    template = {"spec": pod("", cpu="100m", ports=[{"hostPort": 80}])["spec"]}
    daemon = {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"template": template}}
    documents = [*BASIC, daemon]
    assert rules([*documents, pod("p", ports=[{"hostPort": 81}])], plan(claim("p"))) == set()
    assert rules([*documents, pod("p", ports=[{"hostPort": 80}])], plan(claim("p"))) == {"host-ports"}


def volume(name: str, zone: str) -> list[Document]:
    terms = [{"matchExpressions": [samples.wanted(names.ZONE, "In", zone)]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    spec = {"csi": {"driver": DRIVER}, "nodeAffinity": affinity}
    persistent_volume = {"kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"}, "spec": spec}
    volume_claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"volumeName": f"pv-{name}"},
    }
    return [persistent_volume, volume_claim]


def using(name: str) -> Document:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def test_pods_are_placed_in_the_zone_of_their_volumes() -> None:
    documents = [*BASIC, *volume("data", A), pod("p", **using("data"))]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(claim("p", zone=B))) == {"pod-volumes"}
    without_volume = [*BASIC, pod("p", **using("data"))]
    assert rules(without_volume, plan(unplaced=[unplaced("p", "Volumes")])) == set()
    assert rules(without_volume, plan(claim("p"))) == {"pod-volumes"}


def test_unbound_volume_claim_follows_the_topologies_of_its_storage_class() -> None:
    zones = [{"matchLabelExpressions": [{"key": names.ZONE, "values": [A]}]}]
    storage = {"kind": "StorageClass", "metadata": {"name": "s"}, "allowedTopologies": zones}
    spec = {"storageClassName": "s"}
    volume_claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    documents = [*BASIC, storage, volume_claim, pod("p", **using("data"))]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(claim("p", zone=B))) == {"pod-volumes"}


def test_node_attaches_no_more_volumes_than_its_driver_allows() -> None:
    drivers = [{"name": DRIVER, "allocatable": {"count": 1}}]
    csi = {"kind": "CSINode", "metadata": {"name": "node-1"}, "spec": {"drivers": drivers}}
    pods = [pod("p", cpu="100m", **using("one")), pod("q", cpu="100m", **using("two"))]
    documents = [*BASIC, csi, node(), *volume("one", A), *volume("two", A), *pods]
    assert rules(documents, plan(claim("q"), nodes={"node-1": ["p"]})) == set()
    assert rules(documents, plan(nodes={"node-1": ["p", "q"]})) == {"volume-limits"}


def test_claim_requests_are_those_of_its_pods() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p", requests={"cpu": "1", "pods": "1"}))) == set()
    assert rules(documents, plan(claim("p", requests={"cpu": "999m", "pods": "1"}))) == {"claim-requests"}
