"""The checker's rules about topology spread and pod affinity, and its search for nodes for unplaced pods."""

from checker import check, samples
from checker.samples import (
    A,
    B,
    Document,
    big_claim,
    catalog,
    claim,
    neighbours,
    node,
    node_class,
    plan,
    pod,
    pool,
    spread,
    unplaced,
    wanted,
)
from holdfast import names
from holdfast.api import aws

BASIC = [catalog(), pool(), node_class()]


def rules(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.check(documents, found)}


def test_pods_are_spread_over_zones() -> None:
    documents = [*BASIC, *(pod(name, **spread(names.ZONE)) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q", zone=B))) == set()
    assert rules(documents, plan(claim("p"), claim("q"))) == {"spread"}


def test_pods_that_run_already_count_for_the_spread() -> None:
    running = pod("r", nodeName="node-1")
    documents = [*BASIC, node(), running, pod("p", **spread(names.ZONE))]
    assert rules(documents, plan(claim("p", zone=B))) == set()
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == {"spread"}


def test_skew_that_existed_before_the_plan_is_not_reported() -> None:
    running = [pod(f"r{index}", cpu="100m", nodeName="node-1") for index in range(3)]
    documents = [*BASIC, node(), *running, pod("p", **spread(names.ZONE))]
    assert rules(documents, plan(claim("p", zone=B))) == set()


def test_pods_without_constraints_may_be_placed_last() -> None:
    documents = [*BASIC, pod("p", **spread(names.ZONE)), pod("free")]
    assert rules(documents, plan(claim("p", "free"))) == set()


def test_min_domains_treats_missing_domains_as_empty() -> None:
    first = pod("r", nodeName="node-1")
    second = pod("s", nodeName="node-2")
    documents = [*BASIC, node(cpu="1"), first, node("node-2", cpu="1", zone=B), second]
    strict = pod("p", **spread(names.ZONE, minDomains=3))
    assert rules([*documents, pod("p", **spread(names.ZONE))], plan(claim("p"))) == set()
    assert rules([*documents, strict], plan(claim("p"))) == {"spread"}
    assert rules([*documents, strict], plan(unplaced=[unplaced("p", "Topology")])) == set()


def test_minimum_is_taken_over_the_zones_of_every_node_affinity_term() -> None:
    in_b = {"matchExpressions": [wanted(names.ZONE, "In", B)]}
    not_in_c = {"matchExpressions": [wanted(names.ZONE, "NotIn", "zone-c")]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [in_b, not_in_c]}}
    only_b = pool(requirements=[wanted(names.ZONE, "In", B)])
    running = [node(cpu="1"), node("node-2", cpu="1", zone=B), pod("r", nodeName="node-2")]
    spread_pod = pod("p", affinity={"nodeAffinity": terms}, **spread(names.ZONE))
    documents = [
        catalog(),
        only_b,
        node_class(),
        *running,
        spread_pod,
        pod("q", nodeName="node-1", labels={}),
    ]
    assert rules(documents, plan(unplaced=[unplaced("p", "Topology")])) == set()


def test_zone_whose_last_node_is_deleting_is_no_domain() -> None:
    deleting = node("going", zone="zone-c")
    deleting["metadata"]["deletionTimestamp"] = "2026-11-15T09:59:00Z"
    pods = [pod(name, **spread(names.ZONE)) for name in "pqrs"]
    both = plan(claim("p"), claim("q"), claim("r", zone=B), claim("s", zone=B))
    assert rules([*BASIC, deleting, *pods], both) == set()
    deleting["metadata"].pop("deletionTimestamp")
    assert "spread" in rules([*BASIC, deleting, *pods], both)


def test_every_node_is_a_domain_of_hostnames() -> None:
    documents = [*BASIC, *(pod(name, cpu="100m", **spread(names.HOSTNAME)) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()
    assert rules(documents, plan(claim("p", "q"))) == {"spread"}


def test_spread_over_a_label_of_the_nodepool_is_checked() -> None:
    racks = wanted("rack", "In", "r1", "r2")
    documents = [catalog(), pool(requirements=[racks]), node_class()]
    documents += [pod(name, **spread("rack")) for name in "pq"]
    one, two = ([wanted("rack", "In", rack)] for rack in ("r1", "r2"))
    assert rules(documents, plan(claim("p", extra=one), claim("q", extra=two))) == set()
    assert rules(documents, plan(claim("p", extra=one), claim("q", extra=one))) == {"spread"}


def test_the_zone_of_a_node_whose_taints_are_not_tolerated_counts_unless_taints_are_honored() -> None:
    here = pool(requirements=[wanted(names.ZONE, "In", A)])
    taints = [{"key": "team", "effect": "NoSchedule"}]
    documents = [catalog(), here, pool("there", taints=taints), node_class()]
    alike = [pod(name, **spread(names.ZONE)) for name in "pq"]
    assert rules([*documents, *alike], plan(claim("p"), claim("q"))) == set()  # no node is in the other zone
    documents += [node(zone=B, taints=taints)]
    honors = [pod(name, **spread(names.ZONE, nodeTaintsPolicy="Honor")) for name in "pq"]
    ignores = [pod(name, **spread(names.ZONE)) for name in "pq"]
    assert rules([*documents, *honors], plan(claim("p"), claim("q"))) == set()
    assert rules([*documents, *ignores], plan(claim("p"), claim("q"))) == {"spread"}


def test_node_affinity_policy_decides_whether_other_nodes_count() -> None:
    arm_node = node(**{names.ARCH: "arm64"})
    documents = [*BASIC, arm_node, pod("r", nodeName="node-1")]
    selector = {names.ARCH: "amd64"}
    honors = pod("p", nodeSelector=selector, **spread(names.ZONE))
    ignores = pod("p", nodeSelector=selector, **spread(names.ZONE, nodeAffinityPolicy="Ignore"))
    assert rules([*documents, honors], plan(claim("p"))) == set()
    assert rules([*documents, ignores], plan(claim("p"))) == {"spread"}


def test_policy_ignore_counts_zones_that_the_pod_cannot_use() -> None:
    selector = {names.ZONE: A}
    ignored = spread(names.ZONE, nodeAffinityPolicy="Ignore")
    honors = [pod(name, nodeSelector=selector, **spread(names.ZONE)) for name in "pq"]
    ignores = [pod(name, nodeSelector=selector, **ignored) for name in "pq"]
    unplaced_q = unplaced("q", "Topology")
    assert rules([*BASIC, *honors], plan(claim("p"), claim("q"))) == set()
    assert rules([*BASIC, *honors], plan(claim("p"), unplaced=[unplaced_q])) == {"placeable-topology"}
    assert rules([*BASIC, *ignores], plan(claim("p"), claim("q"))) == {"spread"}
    assert rules([*BASIC, *ignores], plan(claim("p"), unplaced=[unplaced_q])) == set()


def test_claim_that_may_not_match_the_node_selector_does_not_raise_the_minimum() -> None:
    """Pod q fits in zone A only if r in zone B counts: the node of r must match the node selector of q."""
    selector = {aws.INSTANCE_CPU: "8"}
    is_large = [wanted(aws.INSTANCE_CPU, "In", "8")]
    spread_pods = [pod(name, cpu="5", nodeSelector=selector, **spread(names.ZONE)) for name in "pq"]
    first, unplaced_q = big_claim("p", extra=is_large), unplaced("q", "Topology")
    documents = [*BASIC, *spread_pods, pod("r", cpu="5", nodeSelector={names.ZONE: B})]
    surely_large, maybe_small = big_claim("r", zone=B, extra=is_large), big_claim("r", zone=B)
    assert rules(documents, plan(first, surely_large, unplaced=[unplaced_q])) == {"placeable-topology"}
    assert rules(documents, plan(first, maybe_small, unplaced=[unplaced_q])) == set()


def test_claim_is_evaluated_with_the_added_pod() -> None:
    """Adding q limits the claim to the large type. That node matches the node selector of q, so r counts."""
    first = claim("r", instanceTypes=["small", "large"])
    near = neighbours("podAffinity", names.HOSTNAME)
    for skew, found in ((1, set()), (2, {"placeable-topology"})):
        q = pod("q", nodeSelector={aws.INSTANCE_CPU: "8"}, **spread(names.HOSTNAME, maxSkew=skew), **near)
        assert rules([*BASIC, pod("r"), q], plan(first, unplaced=[unplaced("q", "Topology")])) == found


def test_pods_of_another_revision_are_not_counted_with_match_label_keys() -> None:
    running = pod("r", nodeName="node-1", labels={"app": "web", "rev": "1"})
    documents = [*BASIC, node(cpu="1"), running]
    keys = spread(names.ZONE, matchLabelKeys=["rev"])
    assert rules([*documents, pod("p", labels={"app": "web", "rev": "2"}, **keys)], plan(claim("p"))) == set()
    same = pod("p", labels={"app": "web", "rev": "1"}, **keys)
    assert rules([*documents, same], plan(claim("p"))) == {"spread"}


def test_schedule_anyway_is_not_enforced() -> None:
    preferred = spread(names.ZONE, whenUnsatisfiable="ScheduleAnyway")
    documents = [*BASIC, *(pod(name, **preferred) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()


def test_claim_with_spread_pods_allows_only_one_zone() -> None:
    documents = [*BASIC, pod("p", **spread(names.ZONE))]
    any_zone = claim("p")
    any_zone["requirements"] = [one for one in any_zone["requirements"] if one["key"] != names.ZONE]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(any_zone)) == {"topology-pinned"}


def test_pod_affinity_needs_a_matching_pod_in_the_zone() -> None:
    near = neighbours("podAffinity", names.ZONE)
    other = pod("p", labels={"app": "other"}, **near)
    documents = [*BASIC, other, pod("web")]
    assert rules(documents, plan(claim("p"), claim("web"))) == set()
    assert rules(documents, plan(claim("p"), claim("web", zone=B))) == {"affinity"}


def test_first_pod_that_matches_its_own_affinity_needs_no_other_pod() -> None:
    near = neighbours("podAffinity", names.ZONE)
    documents = [*BASIC, *(pod(name, **near) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()
    assert rules(documents, plan(claim("p"), claim("q", zone=B))) == {"affinity"}


def test_affinity_is_satisfied_if_some_order_of_pods_satisfies_it() -> None:
    near = neighbours("podAffinity", names.HOSTNAME)
    documents = [*BASIC, pod("p", **near), pod("q", cpu="100m", **near), pod("free", cpu="100m")]
    assert rules(documents, plan(claim("p"), claim("q", "free"))) == set()
    assert rules(documents, plan(claim("p"), claim("q"), claim("free"))) == {"affinity"}


def test_pods_with_affinity_to_each_other_are_not_placed() -> None:
    first = pod("p", labels={"app": "db"}, **neighbours("podAffinity", names.ZONE))
    towards = {"labelSelector": {"matchLabels": {"app": "db"}}}
    second = pod("q", **neighbours("podAffinity", names.ZONE, **towards))
    documents = [*BASIC, first, second]
    assert rules(documents, plan(claim("p"), claim("q"))) == {"affinity"}
    assert rules(documents, plan(unplaced=[unplaced("p", "Topology"), unplaced("q", "Topology")])) == set()


def test_namespaces_of_an_anti_affinity_term_select_the_pods() -> None:
    spaces = [
        {"kind": "Namespace", "metadata": {"name": name, "labels": {"env": name}}}
        for name in ("default", "shop")
    ]
    running = pod("r", namespace="shop", nodeName="node-1")
    documents = [*BASIC, *spaces, node(cpu="1"), running]
    apart = [
        neighbours("podAntiAffinity", names.ZONE),
        neighbours("podAntiAffinity", names.ZONE, namespaces=["shop"]),
        neighbours("podAntiAffinity", names.ZONE, namespaceSelector={}),
        neighbours("podAntiAffinity", names.ZONE, namespaceSelector={"matchLabels": {"env": "shop"}}),
        neighbours("podAntiAffinity", names.ZONE, namespaceSelector={"matchLabels": {"env": "default"}}),
    ]
    found = [rules([*documents, pod("p", **one)], plan(claim("p"))) for one in apart]
    bad = {"anti-affinity"}
    assert found == [set(), bad, bad, bad, set()]


def test_anti_affinity_separates_pods() -> None:
    apart = neighbours("podAntiAffinity", names.HOSTNAME)
    documents = [*BASIC, *(pod(name, cpu="100m", **apart) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()
    assert rules(documents, plan(claim("p", "q"))) == {"anti-affinity"}


def test_anti_affinity_of_a_running_pod_is_checked() -> None:
    running = pod("r", nodeName="node-1", labels={"app": "db"}, **neighbours("podAntiAffinity", names.ZONE))
    documents = [*BASIC, node(), running, pod("p")]
    assert rules(documents, plan(claim("p", zone=B))) == set()
    assert rules(documents, plan(claim("p"))) == {"anti-affinity"}


def test_anti_affinity_is_checked_in_every_zone_that_a_claim_allows() -> None:
    running = pod("r", nodeName="node-1", labels={"app": "db"}, **neighbours("podAntiAffinity", names.ZONE))
    documents = [*BASIC, node(), running, pod("p")]
    any_zone = claim("p", zone=B)
    any_zone["requirements"] = [one for one in any_zone["requirements"] if one["key"] != names.ZONE]
    assert rules(documents, plan(any_zone)) == {"anti-affinity"}


# --- unplaced pods that fit -------------------------------------------------------------------------


def test_unplaced_pod_that_fits_a_new_node_is_reported() -> None:
    without_pod = plan(unplaced=[unplaced("p")])
    assert rules([*BASIC, pod("p")], without_pod) == {"placeable"}
    assert rules([*BASIC, pod("p", cpu="99")], without_pod) == set()


def test_unplaced_pod_that_fits_a_node_or_a_claim_is_reported() -> None:
    none = pool(requirements=[wanted(names.ARCH, "In", "arm64")])
    documents = [catalog(), none, node_class(), node(), pod("p")]
    assert rules(documents, plan(unplaced=[unplaced("p")])) == {"placeable"}
    full = [catalog(), pool(limits={"nodes": "1"}), node_class(), pod("p"), pod("q")]
    assert rules(full, plan(claim("p"), unplaced=[unplaced("q", "Limits")])) == {"placeable"}
    big = [catalog(), pool(limits={"nodes": "1"}), node_class(), pod("p"), pod("q", cpu="7500m")]
    assert rules(big, plan(claim("p"), unplaced=[unplaced("q", "Limits")])) == set()


def test_unplaced_pod_that_fits_by_topology_is_reported_by_another_rule() -> None:
    documents = [*BASIC, pod("p", **spread(names.ZONE)), pod("q", **spread(names.ZONE))]
    without_pod = plan(claim("p"), unplaced=[unplaced("q", "Topology")])
    assert rules(documents, without_pod) == {"placeable-topology"}


def test_both_searches_for_an_unplaced_pod_find_the_same_node() -> None:
    documents = [*BASIC, node(cpu="500m"), pod("p"), pod("q", cpu="300m")]
    without_pod = plan(big_claim("p"), unplaced=[unplaced("q")])
    found = check.check(documents, without_pod)
    assert {violation.rule for violation in found} == {"placeable"}
    assert len(found) == 1, "both searches report the same node first"
    alone = [*BASIC, pod("p", nodeSelector={names.ZONE: samples.B})]
    violations = check.check(alone, plan(unplaced=[unplaced("p")]))
    assert {violation.what for violation in violations} == {
        "default/p could go on a new node of default: small in zone-b, on-demand",
        "default/p could go on a new node of default: small in zone-b",
    }
