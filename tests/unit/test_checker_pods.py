"""The checker's rules about pods: each holds its peace on a good plan and speaks up on the same plan broken."""

import pytest

from checker import check, samples
from checker.samples import A, B, Document, catalog, claim, node, node_class, plan, pod, pool, unplaced
from holdfast import names

BASIC = [catalog(), pool(), node_class()]
DRIVER = "ebs.csi.aws.com"


def rules(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.check(documents, found)}


def test_a_pod_that_the_plan_forgets_is_missed() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan()) == {"pod-once"}


def test_a_pod_that_is_placed_twice_is_seen() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p"), claim("p"))) == {"pod-once"}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_a_workload_stands_for_the_replicas_that_it_has_no_pods_for(kind: str) -> None:
    owned = pod("web-2")
    owned["metadata"]["ownerReferences"] = [{"kind": kind, "name": "web"}]
    spec = {"replicas": 3, "template": {"spec": pod("")["spec"]}}
    workload = {"kind": kind, "metadata": {"name": "web"}, "spec": spec}
    documents = [*BASIC, owned, workload]
    assert rules(documents, plan(claim("web-0", "web-1"), claim("web-2"))) == set()
    assert rules(documents, plan(claim("web-0"), claim("web-2"))) == {"pod-once"}
    assert rules(documents, plan(claim("web-0", "web-1"), claim("web-own", "web-2"))) == {"pod-unknown"}


def test_a_job_stands_for_as_many_pods_as_run_at_once() -> None:
    spec = {"parallelism": 2, "completions": 5, "template": {"spec": pod("")["spec"]}}
    documents = [*BASIC, {"kind": "Job", "metadata": {"name": "work"}, "spec": spec}]
    assert rules(documents, plan(claim("work-0", "work-1"))) == set()
    assert rules(documents, plan(claim("work-0"))) == {"pod-once"}


def test_a_pod_that_nobody_asked_for_is_seen() -> None:
    assert rules([*BASIC, pod("p")], plan(claim("p", "ghost"))) == {"pod-unknown"}
    told = plan(claim("p"), notReserved=[unplaced("ghost")])
    assert rules([*BASIC, pod("p")], told) == {"pod-unknown"}


def test_an_unplaced_pod_has_a_reason() -> None:
    documents = [*BASIC, pod("huge", cpu="99")]
    assert rules(documents, plan(unplaced=[unplaced("huge")])) == set()
    silent = {"pod": "default/huge", "reasons": []}
    assert rules(documents, plan(unplaced=[silent])) == {"unplaced-reason"}


WAITS = {"pod": "default/p", "reservation": "cr-1", "until": "2026-11-15T10:05:00Z", "reasons": []}


@pytest.mark.parametrize(
    "broken", [{"reservation": "cr-none"}, {"until": None}, {"until": "2026-11-15T11:00:00Z"}]
)
def test_a_pod_waits_for_a_reservation_and_not_for_ever(broken: Document) -> None:
    full = samples.reservation(available=0)
    documents = [catalog(reservations=[full], reservationWait="5m"), pool(), node_class(), pod("p")]
    assert rules(documents, plan(waiting=[WAITS])) == set()
    assert rules(documents, plan(waiting=[WAITS | broken])) == {"waiting"}


def test_no_pod_waits_where_nobody_asked_for_it() -> None:
    full = samples.reservation(available=0)
    documents = [catalog(reservations=[full]), pool(), node_class(), pod("p")]
    assert rules(documents, plan(waiting=[WAITS])) == {"waiting"}


def test_pods_go_on_nodes_that_exist_and_stay() -> None:
    leaving = node("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-15T09:59:00Z"
    documents = [*BASIC, node(), leaving, pod("p")]
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


def test_prefer_no_schedule_is_only_a_wish() -> None:
    documents = [*BASIC, node(taints=[{"key": "slow", "effect": "PreferNoSchedule"}]), pod("p")]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == set()


def test_a_node_selector_holds_wherever_the_claim_may_land() -> None:
    documents = [*BASIC, pod("p", nodeSelector={names.ZONE: A})]
    assert rules(documents, plan(claim("p"))) == set()
    loose = claim("p")
    loose["requirements"] = [one for one in loose["requirements"] if one["key"] != names.ZONE]
    assert rules(documents, plan(loose)) == {"pod-selector"}
    assert rules(documents, plan(claim("p", zone=B))) == {"pod-selector"}


def test_one_alternative_of_a_node_affinity_is_enough() -> None:
    terms = [
        {"matchExpressions": [samples.wanted(names.ARCH, "In", "arm64")]},
        {"matchExpressions": [samples.wanted("karpenter.k8s.aws/instance-cpu", "Gt", "3")]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    documents = [*BASIC, pod("p", affinity={"nodeAffinity": required})]
    assert rules(documents, plan(samples.big_claim("p"))) == set()
    assert rules(documents, plan(claim("p"))) == {"pod-selector"}


def test_a_label_that_a_node_lacks_is_not_there() -> None:
    documents = [*BASIC, node(team="ml"), node("node-2"), pod("p", nodeSelector={"team": "ml"})]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == set()
    assert rules(documents, plan(nodes={"node-2": ["p"]})) == {"pod-selector"}


def test_pods_fit_on_the_node_beside_what_runs_there() -> None:
    running = pod("r", cpu="500m", nodeName="node-1")
    documents = [*BASIC, node(), running, pod("p", cpu="1500m"), pod("q", cpu="100m")]
    assert rules(documents, plan(claim("q"), nodes={"node-1": ["p"]})) == set()
    assert rules(documents, plan(nodes={"node-1": ["p", "q"]})) == {"node-resources"}


def test_a_daemon_set_that_is_still_to_come_needs_its_room() -> None:
    template = {"spec": pod("", cpu="600m")["spec"]}
    daemon = {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"template": template}}
    documents = [*BASIC, node(), daemon, pod("p", cpu="1500m")]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == {"node-resources"}
    there = pod("agent-x", cpu="300m", nodeName="node-1")
    there["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent"}]
    assert rules([*documents, there], plan(nodes={"node-1": ["p"]})) == set()


def test_a_start_that_needs_more_than_running_counts() -> None:
    init = {"name": "init", "resources": {"requests": {"cpu": "3"}}}
    documents = [*BASIC, node(), pod("p", initContainers=[init])]
    assert rules(documents, plan(samples.big_claim("p"))) == set()
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == {"node-resources"}


def test_no_two_pods_of_a_node_have_the_same_host_port() -> None:
    def on(address: str, protocol: str = "TCP") -> Document:
        return {"ports": [{"hostPort": 80, "hostIP": address, "protocol": protocol}]}

    documents = [*BASIC, pod("p", cpu="100m", **on("10.0.0.1"))]
    together = plan(claim("p", "q"))
    assert rules([*documents, pod("q", cpu="100m", **on("10.0.0.2"))], together) == set()
    assert rules([*documents, pod("q", cpu="100m", **on("10.0.0.1", "UDP"))], together) == set()
    assert rules([*documents, pod("q", cpu="100m", **on("10.0.0.1"))], together) == {"host-ports"}
    assert rules([*documents, pod("q", cpu="100m", **on(""))], together) == {"host-ports"}


def test_a_daemon_set_keeps_its_host_port_on_a_new_node() -> None:
    template = {"spec": pod("", cpu="100m", ports=[{"hostPort": 80}])["spec"]}
    daemon = {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"template": template}}
    documents = [*BASIC, daemon]
    assert rules([*documents, pod("p", ports=[{"hostPort": 81}])], plan(claim("p"))) == set()
    assert rules([*documents, pod("p", ports=[{"hostPort": 80}])], plan(claim("p"))) == {"host-ports"}


def volume(name: str, zone: str) -> list[Document]:
    terms = [{"matchExpressions": [samples.wanted(names.ZONE, "In", zone)]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    spec = {"csi": {"driver": DRIVER}, "nodeAffinity": affinity}
    bound = {"kind": "PersistentVolume", "metadata": {"name": f"pv-{name}"}, "spec": spec}
    own = {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {"volumeName": f"pv-{name}"}}
    return [bound, own]


def using(name: str) -> Document:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def test_pods_are_where_their_volumes_are() -> None:
    documents = [*BASIC, *volume("data", A), pod("p", **using("data"))]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(claim("p", zone=B))) == {"pod-volumes"}
    lost = [*BASIC, pod("p", **using("data"))]
    assert rules(lost, plan(unplaced=[unplaced("p", "Volumes")])) == set()
    assert rules(lost, plan(claim("p"))) == {"pod-volumes"}


def test_a_claim_without_a_volume_goes_where_its_class_allows() -> None:
    zones = [{"matchLabelExpressions": [{"key": names.ZONE, "values": [A]}]}]
    storage = {"kind": "StorageClass", "metadata": {"name": "s"}, "allowedTopologies": zones}
    spec = {"storageClassName": "s"}
    own = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    documents = [*BASIC, storage, own, pod("p", **using("data"))]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(claim("p", zone=B))) == {"pod-volumes"}


def test_a_node_attaches_only_so_many_volumes() -> None:
    drivers = [{"name": DRIVER, "allocatable": {"count": 1}}]
    csi = {"kind": "CSINode", "metadata": {"name": "node-1"}, "spec": {"drivers": drivers}}
    pods = [pod("p", cpu="100m", **using("one")), pod("q", cpu="100m", **using("two"))]
    documents = [*BASIC, csi, node(), *volume("one", A), *volume("two", A), *pods]
    assert rules(documents, plan(claim("q"), nodes={"node-1": ["p"]})) == set()
    assert rules(documents, plan(nodes={"node-1": ["p", "q"]})) == {"volume-limits"}


def test_a_claim_asks_for_what_its_pods_need() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p", requests={"cpu": "1", "pods": "1"}))) == set()
    assert rules(documents, plan(claim("p", requests={"cpu": "999m", "pods": "1"}))) == {"claim-requests"}
