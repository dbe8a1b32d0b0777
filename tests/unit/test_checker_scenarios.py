"""The checker reads the parts of a scenario that decide which plans are possible: settings, NodePools that launch no
nodes, pods that are not planned, PersistentVolumeClaims, and pods of nodes that are being deleted."""

from typing import Any

import pytest

from checker import check, samples
from checker.samples import (
    A,
    B,
    Document,
    big_claim,
    catalog,
    claim,
    node,
    node_class,
    plan,
    pod,
    pool,
    reservation,
    slot_claim,
    unplaced,
    wanted,
)
from holdfast import names

BASIC = [catalog(), pool(), node_class()]
DRIVER = "ebs.csi.aws.com"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def rules(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.check(documents, found)}


def with_reservation(**settings: Any) -> list[Document]:
    return [catalog(reservations=[reservation()], **settings), pool(), node_class()]


# --- settings ---------------------------------------------------------------------------------------


def test_gate_off_means_that_no_reservation_is_used() -> None:
    documents = [*with_reservation(reservedCapacity=False), pod("p")]
    assert rules(documents, plan(claim("p"))) == set()
    assert "slot-usable" in rules(documents, plan(slot_claim("p")))


def test_gate_off_leaves_a_pod_that_selects_reserved_unplaced() -> None:
    documents = [
        *with_reservation(reservedCapacity=False),
        pod("p", nodeSelector={names.CAPACITY_TYPE: names.RESERVED}),
    ]
    assert rules(documents, plan(unplaced=[unplaced("p")])) == set()


def waiting(name: str, **more: Any) -> Document:
    return {"pod": f"default/{name}", "reservation": "cr-1", "until": None, "reasons": []} | more


def test_strict_mode_waits_for_a_slot_and_launches_nothing_instead() -> None:
    documents = [*with_reservation(reservedMode="strict"), pod("p", cpu="1500m"), pod("q", cpu="1500m")]
    assert rules(documents, plan(slot_claim("p"), waiting=[waiting("q")])) == set()
    assert rules(documents, plan(slot_claim("p"), claim("q"))) == {"strict-mode"}
    fallback = [*with_reservation(), pod("p", cpu="1500m"), pod("q", cpu="1500m")]
    assert rules(fallback, plan(slot_claim("p"), claim("q"))) == set()
    assert rules(fallback, plan(slot_claim("p"), waiting=[waiting("q")])) == {"waiting"}


def test_strict_mode_launches_a_pod_on_demand_that_no_reservation_serves() -> None:
    documents = [*with_reservation(reservedMode="strict"), pod("p", cpu="5")]
    assert rules(documents, plan(big_claim("p"), slotsLeft={"cr-1": 1})) == set()
    full = [catalog(reservations=[reservation(available=0)], reservedMode="strict"), *BASIC[1:], pod("p")]
    assert rules(full, plan(claim("p"))) == set()


def test_strict_mode_waits_where_only_full_reservations_serve_the_pod() -> None:
    only = pool(requirements=[wanted(names.CAPACITY_TYPE, "In", names.RESERVED)])
    full = catalog(reservations=[reservation(available=0)], reservedMode="strict")
    documents = [full, only, node_class(), pod("p")]
    assert rules(documents, plan(waiting=[waiting("p")])) == set()


def test_no_pod_waits_beside_a_free_slot() -> None:
    documents = [*with_reservation(reservedMode="strict"), pod("p")]
    assert rules(documents, plan(waiting=[waiting("p")], slotsLeft={"cr-1": 1})) == {"placeable"}


def test_no_pod_waits_for_a_reservation_that_does_not_serve_it() -> None:
    documents = [*with_reservation(reservedMode="strict"), pod("p", cpu="1500m"), pod("big", cpu="5")]
    assert rules(documents, plan(slot_claim("p"), waiting=[waiting("big")])) == {"waiting"}


# --- NodePools --------------------------------------------------------------------------------------


def static(found: Document) -> Document:
    found["spec"]["replicas"] = 2
    return found


def being_deleted(found: Document) -> Document:
    found["metadata"]["deletionTimestamp"] = "2026-11-15T09:59:00Z"
    return found


def not_ready(found: Document) -> Document:
    return found | {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def of_another_autoscaler(found: Document) -> Document:
    found["spec"]["template"]["spec"]["nodeClassRef"]["group"] = "example.com"
    return found


@pytest.mark.parametrize("change", [static, being_deleted, not_ready, of_another_autoscaler])
def test_nodepool_that_launches_no_nodes_has_no_claims(change: Any) -> None:
    documents = [catalog(), change(pool()), node_class(), pod("p")]
    assert rules(documents, plan(unplaced=[unplaced("p", "NoNodePool")])) == set()
    assert rules(documents, plan(claim("p"))) == {"claim-pool"}


def test_a_static_nodepool_has_no_domains_for_a_spread() -> None:
    in_a = pool(requirements=[wanted(names.ZONE, "In", A)])
    in_b = pool("fixed", requirements=[wanted(names.ZONE, "In", B)])
    pods = [pod(f"p{index}", **samples.spread(names.ZONE)) for index in range(2)]
    both = plan(claim("p0"), claim("p1"))
    assert rules([catalog(), in_a, static(in_b), node_class(), *pods], both) == set()


# --- pods -------------------------------------------------------------------------------------------


def test_pod_level_resources_replace_those_of_the_containers() -> None:
    large = {"requests": {"cpu": "3"}}
    documents = [*BASIC, pod("p", resources=large)]
    assert rules(documents, plan(big_claim("p"))) == set()
    assert rules(documents, plan(claim("p"))) == {"claim-fits"}
    small = {"limits": {"cpu": "3"}, "requests": {"cpu": "500m"}}
    lean = [*BASIC, pod("p", cpu="100m", resources=small), pod("q", cpu="1500m")]
    assert rules(lean, plan(claim("p", "q"))) == set()


def test_pod_level_limits_are_used_without_container_requests() -> None:
    one = pod("p", resources={"limits": {"cpu": "3"}})
    one["spec"]["containers"][0]["resources"] = {}
    assert rules([*BASIC, one], plan(big_claim("p"))) == set()
    assert rules([*BASIC, one], plan(claim("p"))) == {"claim-fits"}


def version(name: str) -> Document:
    return {"labels": {"app": "web", "version": name}}


def test_match_label_keys_limit_an_anti_affinity_to_its_version() -> None:
    apart = samples.neighbours("podAntiAffinity", names.HOSTNAME, matchLabelKeys=["version"])
    old, new = (
        pod("old", cpu="100m", **version("1"), **apart),
        pod("new", cpu="100m", **version("2"), **apart),
    )
    also_old = pod("also", cpu="100m", **version("1"), **apart)
    assert rules([*BASIC, old, new], plan(claim("old", "new"))) == set()
    assert rules([*BASIC, old, also_old], plan(claim("old", "also"))) == {"anti-affinity"}


def test_mismatch_label_keys_exclude_the_own_version() -> None:
    apart = samples.neighbours("podAntiAffinity", names.HOSTNAME, mismatchLabelKeys=["version"])
    old, new = (
        pod("old", cpu="100m", **version("1"), **apart),
        pod("new", cpu="100m", **version("2"), **apart),
    )
    also_old = pod("also", cpu="100m", **version("1"), **apart)
    assert rules([*BASIC, old, also_old], plan(claim("old", "also"))) == set()
    assert rules([*BASIC, old, new], plan(claim("old", "new"))) == {"anti-affinity"}


def required_terms(*terms: Document) -> Document:
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def test_match_fields_exclude_new_and_other_nodes() -> None:
    on_node = {"matchFields": [wanted("metadata.name", "In", "node-1")]}
    documents = [*BASIC, node(), node("node-2"), pod("p", **required_terms(on_node))]
    assert rules(documents, plan(unplaced=[unplaced("p", "Invalid")])) == set()
    assert rules(documents, plan(claim("p"))) == {"pod-selector"}
    assert rules(documents, plan(nodes={"node-2": ["p"]})) == {"pod-selector"}


def test_a_node_affinity_term_without_conditions_matches_no_node() -> None:
    in_b = {"matchExpressions": [wanted(names.ZONE, "In", B)]}
    documents = [*BASIC, pod("p", **required_terms({}, in_b))]
    assert rules(documents, plan(claim("p", zone=B))) == set()
    assert rules(documents, plan(claim("p"))) == {"pod-selector"}


GATES: Document = {"schedulingGates": [{"name": "example.com/quota"}]}


def test_a_pod_behind_a_scheduling_gate_is_not_planned() -> None:
    documents = [*BASIC, pod("p", **GATES)]
    assert rules(documents, plan()) == set()
    assert rules(documents, plan(claim("p"))) == {"pod-unknown"}


def test_scheduling_gates_of_a_template_apply_to_its_pods() -> None:
    spec = {"replicas": 2, "template": {"spec": pod("", **GATES)["spec"]}}
    documents = [*BASIC, {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}]
    assert rules(documents, plan()) == set()
    assert rules(documents, plan(claim("web-0"))) == {"pod-unknown"}


def test_pods_that_are_nominated_or_being_deleted_are_not_planned() -> None:
    nominated = pod("n") | {"status": {"nominatedNodeName": "node-1"}}
    documents = [*BASIC, node(), nominated, being_deleted(pod("d"))]
    assert rules(documents, plan()) == set()
    assert rules(documents, plan(claim("n"))) == {"pod-unknown"}
    assert rules(documents, plan(claim("d"))) == {"pod-unknown"}


# --- nodes that are being deleted -------------------------------------------------------------------


def deleted_with_its_nodeclaim(*pods: Document) -> list[Document]:
    """A node whose NodeClaim is being deleted, and its pods."""
    deleting = node("going")
    deleting["spec"]["providerID"] = "i-1"
    nodeclaim: Document = {"kind": "NodeClaim", "metadata": {"name": "going"}, "spec": {}}
    return [*BASIC, deleting, being_deleted(nodeclaim | {"status": {"providerID": "i-1"}}), *pods]


def test_pods_of_a_nodeclaim_that_is_being_deleted_are_planned() -> None:
    documents = deleted_with_its_nodeclaim(pod("p", nodeName="going"))
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan()) == {"pod-once"}
    other = deleted_with_its_nodeclaim(pod("q"))
    assert rules(other, plan(claim("q"))) == set()
    assert rules(other, plan(nodes={"going": ["q"]})) == {"node-exists"}


def daemon_pod() -> Document:
    found = pod("p", nodeName="going")
    found["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent"}]
    return found


def not_to_be_disrupted() -> Document:
    found = pod("p", nodeName="going")
    found["metadata"]["annotations"] = {names.DO_NOT_DISRUPT: "true"}
    return found


@pytest.mark.parametrize("make_pod", [daemon_pod, not_to_be_disrupted])
def test_pods_that_stay_on_a_deleted_node_are_not_planned(make_pod: Any) -> None:
    documents = deleted_with_its_nodeclaim(make_pod())
    assert rules(documents, plan()) == set()
    assert rules(documents, plan(claim("p"))) == {"pod-unknown"}


def budget(**spec: Any) -> Document:
    selector = {"matchLabels": {"app": "web"}}
    return {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": selector} | spec}


def test_pods_that_a_pod_disruption_budget_protects_are_not_planned() -> None:
    documents = deleted_with_its_nodeclaim(pod("p", nodeName="going"))
    assert rules([*documents, budget(maxUnavailable=0)], plan()) == set()
    assert rules([*documents, budget(maxUnavailable=0)], plan(claim("p"))) == {"pod-unknown"}
    assert rules([*documents, budget(maxUnavailable=1)], plan(claim("p"))) == set()


def test_terminating_pod_uses_its_node_and_does_not_count_for_anti_affinity() -> None:
    terminating = being_deleted(pod("gone", cpu="1500m", nodeName="node-1"))
    documents = [
        *BASIC,
        node(),
        terminating,
        pod("p", **samples.neighbours("podAntiAffinity", names.HOSTNAME)),
    ]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == {"node-resources"}
    terminating["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == set()


def test_a_nodeclaim_that_is_deleted_before_its_launch_holds_no_slot() -> None:
    annotations = {names.RESERVATION_ID: "cr-1"}
    holder: Document = {
        "kind": "NodeClaim",
        "metadata": {"name": "h", "annotations": annotations},
        "spec": {},
    }
    documents = [*with_reservation(), pod("p")]
    assert rules([*documents, being_deleted(holder)], plan(slot_claim("p"))) == set()


# --- reservations -----------------------------------------------------------------------------------


def named_in_an_offering(**more: Any) -> list[Document]:
    documents = [*with_reservation(), pod("p"), pod("q")]
    offering = {"zone": A, "capacityType": names.RESERVED, "reservation": {"id": "cr-1"}} | more
    documents[0]["spec"]["instanceTypes"][0]["offerings"].append(offering)
    return documents


def test_reservation_in_an_offering_and_in_the_catalog_is_counted_once() -> None:
    assert rules(named_in_an_offering(), plan(slot_claim("p"), claim("q"))) == set()
    assert rules(named_in_an_offering(), plan(slot_claim("p"), slot_claim("q"))) == {"slot-oversold"}


def test_an_offering_that_names_a_reservation_decides_whether_it_is_healthy() -> None:
    documents = named_in_an_offering(healthy=False)
    assert rules(documents, plan(claim("p"), claim("q"))) == set()
    assert "slot-usable" in rules(documents, plan(slot_claim("p"), claim("q")))


def test_a_reservation_is_open_unless_it_is_targeted() -> None:
    documents = [*with_reservation(), pod("p")]
    terms = [{"ownerID": "111122223333", "instanceMatchCriteria": "open"}]
    documents[2] = node_class(capacityReservationSelectorTerms=terms)
    assert rules(documents, plan(slot_claim("p"))) == set()


# --- volumes ----------------------------------------------------------------------------------------


def storage_class(**more: Any) -> Document:
    found = {"kind": "StorageClass", "metadata": {"name": "ebs"}, "provisioner": DRIVER}
    return found | {"volumeBindingMode": "WaitForFirstConsumer"} | more


def unbound(name: str, **more: Any) -> Document:
    found = {"kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    return found | {"spec": {"storageClassName": "ebs"}} | more


def using(name: str) -> Document:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def test_a_new_node_attaches_only_as_many_unbound_claims_as_its_type_allows() -> None:
    one_volume = samples.small() | {"volumeLimits": {DRIVER: 1}}
    pods = [pod("p", cpu="100m", **using("one")), pod("q", cpu="100m", **using("two"))]
    documents = [catalog(one_volume), *BASIC[1:], storage_class(), unbound("one"), unbound("two"), *pods]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()
    assert rules(documents, plan(claim("p", "q"))) == {"volume-limits"}
    shared = [*documents[:-1], pod("q", cpu="100m", **using("one"))]
    assert rules(shared, plan(claim("p", "q"))) == set()


def test_type_without_volume_attachments_does_not_fit_the_pod() -> None:
    none = samples.small() | {"volumeLimits": {DRIVER: 0}}
    documents = [catalog(none), *BASIC[1:], storage_class(), unbound("one"), pod("p", **using("one"))]
    assert rules(documents, plan(unplaced=[unplaced("p", "Volumes")])) == set()


def test_a_node_uses_the_limit_of_its_type_until_its_driver_reports() -> None:
    none = samples.small() | {"volumeLimits": {DRIVER: 0}}
    existing = node(**{names.INSTANCE_TYPE: "small"})
    pods = [storage_class(), unbound("one"), pod("p", **using("one"))]
    documents = [catalog(none, samples.large()), *BASIC[1:], existing, *pods]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == {"volume-limits"}
    csi = {"kind": "CSINode", "metadata": {"name": "node-1"}, "spec": {"drivers": [{"name": DRIVER}]}}
    assert rules([*documents, csi], plan(nodes={"node-1": ["p"]})) == set()


def test_volume_claims_of_a_statefulset_count_for_each_of_its_pods() -> None:
    one_volume = samples.small() | {"volumeLimits": {DRIVER: 1}}
    spec = {
        "replicas": 2,
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": pod("", cpu="100m")["spec"]},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "ebs"}}],
    }
    database = {"kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}
    documents = [catalog(one_volume), *BASIC[1:], storage_class(), database]
    assert rules(documents, plan(claim("db-0"), claim("db-1"))) == set()
    assert rules(documents, plan(claim("db-0", "db-1"))) == {"volume-limits"}


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": {"name": "one", "deletionTimestamp": "2026-11-15T09:59:00Z"}},
        {"status": {"phase": "Lost"}},
        {"spec": {"storageClassName": "missing"}},
        {"spec": {}},
        {"spec": {"volumeName": "missing"}},
    ],
)
def test_a_pod_whose_volume_claim_cannot_be_served_is_not_placed(broken: Document) -> None:
    documents = [*BASIC, storage_class(), unbound("one", **broken), pod("p", **using("one"))]
    assert rules(documents, plan(unplaced=[unplaced("p", "Volumes")])) == set()
    assert rules(documents, plan(claim("p"))) == {"pod-volumes"}


def test_pod_with_an_unbound_immediate_volume_claim_is_not_placed() -> None:
    immediate = storage_class(volumeBindingMode="Immediate")
    documents = [*BASIC, immediate, unbound("one"), pod("p", **using("one"))]
    assert rules(documents, plan(unplaced=[unplaced("p", "Volumes")])) == set()
    assert rules(documents, plan(claim("p"))) == {"pod-volumes"}
