"""The checker's rules about where pods are to one another, and its search for places that were overlooked."""

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


def test_a_zone_that_was_crowded_before_is_nobodys_fault() -> None:
    running = [pod(f"r{index}", cpu="100m", nodeName="node-1") for index in range(3)]
    documents = [*BASIC, node(), *running, pod("p", **spread(names.ZONE))]
    assert rules(documents, plan(claim("p", zone=B))) == set()


def test_pods_that_nothing_holds_back_may_have_come_last() -> None:
    documents = [*BASIC, pod("p", **spread(names.ZONE)), pod("free")]
    assert rules(documents, plan(claim("p", "free"))) == set()


def test_too_few_domains_count_as_an_empty_one() -> None:
    first = pod("r", nodeName="node-1")
    second = pod("s", nodeName="node-2")
    documents = [*BASIC, node(cpu="1"), first, node("node-2", cpu="1", zone=B), second]
    strict = pod("p", **spread(names.ZONE, minDomains=3))
    assert rules([*documents, pod("p", **spread(names.ZONE))], plan(claim("p"))) == set()
    assert rules([*documents, strict], plan(claim("p"))) == {"spread"}
    assert rules([*documents, strict], plan(unplaced=[unplaced("p", "Topology")])) == set()


def test_the_emptiest_zone_of_any_alternative_counts() -> None:
    in_b = {"matchExpressions": [wanted(names.ZONE, "In", B)]}
    not_in_c = {"matchExpressions": [wanted(names.ZONE, "NotIn", "zone-c")]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [in_b, not_in_c]}}
    only_b = pool(requirements=[wanted(names.ZONE, "In", B)])
    running = [node(cpu="1"), node("node-2", cpu="1", zone=B), pod("r", nodeName="node-2")]
    waits = pod("p", affinity={"nodeAffinity": terms}, **spread(names.ZONE))
    documents = [catalog(), only_b, node_class(), *running, waits, pod("q", nodeName="node-1", labels={})]
    assert rules(documents, plan(unplaced=[unplaced("p", "Topology")])) == set()


def test_a_zone_whose_last_node_is_being_deleted_holds_no_pod_back() -> None:
    going = node("going", zone="zone-c")
    going["metadata"]["deletionTimestamp"] = "2026-11-15T09:59:00Z"
    pods = [pod(name, **spread(names.ZONE)) for name in "pqrs"]
    both = plan(claim("p"), claim("q"), claim("r", zone=B), claim("s", zone=B))
    assert rules([*BASIC, going, *pods], both) == set()
    going["metadata"].pop("deletionTimestamp")
    assert "spread" in rules([*BASIC, going, *pods], both)


def test_every_node_is_a_domain_of_hostnames() -> None:
    documents = [*BASIC, *(pod(name, cpu="100m", **spread(names.HOSTNAME)) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()
    assert rules(documents, plan(claim("p", "q"))) == {"spread"}


def test_a_spread_may_be_over_a_label_of_the_pool() -> None:
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


def test_only_nodes_that_suit_the_pod_count_unless_it_says_otherwise() -> None:
    odd = node(**{names.ARCH: "arm64"})
    documents = [*BASIC, odd, pod("r", nodeName="node-1")]
    selector = {names.ARCH: "amd64"}
    honors = pod("p", nodeSelector=selector, **spread(names.ZONE))
    ignores = pod("p", nodeSelector=selector, **spread(names.ZONE, nodeAffinityPolicy="Ignore"))
    assert rules([*documents, honors], plan(claim("p"))) == set()
    assert rules([*documents, ignores], plan(claim("p"))) == {"spread"}


def test_zones_that_a_pod_cannot_use_are_emptier_ones_where_its_choice_of_nodes_is_ignored() -> None:
    chosen = {names.ZONE: A}
    ignored = spread(names.ZONE, nodeAffinityPolicy="Ignore")
    honors = [pod(name, nodeSelector=chosen, **spread(names.ZONE)) for name in "pq"]
    ignores = [pod(name, nodeSelector=chosen, **ignored) for name in "pq"]
    waits = unplaced("q", "Topology")
    assert rules([*BASIC, *honors], plan(claim("p"), claim("q"))) == set()
    assert rules([*BASIC, *honors], plan(claim("p"), unplaced=[waits])) == {"placeable-topology"}
    assert rules([*BASIC, *ignores], plan(claim("p"), claim("q"))) == {"spread"}
    assert rules([*BASIC, *ignores], plan(claim("p"), unplaced=[waits])) == set()


def test_a_claim_that_may_become_what_a_pod_does_not_look_at_lifts_no_minimum() -> None:
    """The pod q can follow p to zone A once somebody is in B, on a node that q will surely look at."""
    selector = {aws.INSTANCE_CPU: "8"}
    is_large = [wanted(aws.INSTANCE_CPU, "In", "8")]
    picky = [pod(name, cpu="5", nodeSelector=selector, **spread(names.ZONE)) for name in "pq"]
    first, waits = big_claim("p", extra=is_large), unplaced("q", "Topology")
    documents = [*BASIC, *picky, pod("r", cpu="5", nodeSelector={names.ZONE: B})]
    sure, unsure = big_claim("r", zone=B, extra=is_large), big_claim("r", zone=B)
    assert rules(documents, plan(first, sure, unplaced=[waits])) == {"placeable-topology"}
    assert rules(documents, plan(first, unsure, unplaced=[waits])) == set()


def test_a_claim_is_counted_as_what_it_would_be_with_one_more_pod() -> None:
    """The pod q makes its node a large one, and then looks at it: it finds that r is there."""
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


def test_schedule_anyway_is_only_a_wish() -> None:
    wish = spread(names.ZONE, whenUnsatisfiable="ScheduleAnyway")
    documents = [*BASIC, *(pod(name, **wish) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()


def test_a_claim_with_spread_pods_can_land_in_one_domain_only() -> None:
    documents = [*BASIC, pod("p", **spread(names.ZONE))]
    loose = claim("p")
    loose["requirements"] = [one for one in loose["requirements"] if one["key"] != names.ZONE]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(loose)) == {"topology-pinned"}


def test_pods_are_near_those_they_need() -> None:
    near = neighbours("podAffinity", names.ZONE)
    other = pod("p", labels={"app": "other"}, **near)
    documents = [*BASIC, other, pod("web")]
    assert rules(documents, plan(claim("p"), claim("web"))) == set()
    assert rules(documents, plan(claim("p"), claim("web", zone=B))) == {"affinity"}


def test_the_first_of_its_kind_needs_no_neighbour() -> None:
    near = neighbours("podAffinity", names.ZONE)
    documents = [*BASIC, *(pod(name, **near) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()
    assert rules(documents, plan(claim("p"), claim("q", zone=B))) == {"affinity"}


def test_whoever_went_first_may_have_gone_before_the_neighbours_of_others_came() -> None:
    near = neighbours("podAffinity", names.HOSTNAME)
    documents = [*BASIC, pod("p", **near), pod("q", cpu="100m", **near), pod("free", cpu="100m")]
    assert rules(documents, plan(claim("p"), claim("q", "free"))) == set()
    assert rules(documents, plan(claim("p"), claim("q"), claim("free"))) == {"affinity"}


def test_two_that_wait_for_each_other_are_never_placed() -> None:
    first = pod("p", labels={"app": "db"}, **neighbours("podAffinity", names.ZONE))
    towards = {"labelSelector": {"matchLabels": {"app": "db"}}}
    second = pod("q", **neighbours("podAffinity", names.ZONE, **towards))
    documents = [*BASIC, first, second]
    assert rules(documents, plan(claim("p"), claim("q"))) == {"affinity"}
    assert rules(documents, plan(unplaced=[unplaced("p", "Topology"), unplaced("q", "Topology")])) == set()


def test_namespaces_decide_who_is_a_neighbour() -> None:
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


def test_pods_that_cannot_stand_each_other_are_apart() -> None:
    apart = neighbours("podAntiAffinity", names.HOSTNAME)
    documents = [*BASIC, *(pod(name, cpu="100m", **apart) for name in "pq")]
    assert rules(documents, plan(claim("p"), claim("q"))) == set()
    assert rules(documents, plan(claim("p", "q"))) == {"anti-affinity"}


def test_a_pod_that_runs_already_is_not_joined_by_one_it_cannot_stand() -> None:
    running = pod("r", nodeName="node-1", labels={"app": "db"}, **neighbours("podAntiAffinity", names.ZONE))
    documents = [*BASIC, node(), running, pod("p")]
    assert rules(documents, plan(claim("p", zone=B))) == set()
    assert rules(documents, plan(claim("p"))) == {"anti-affinity"}


def test_every_zone_that_a_claim_may_land_in_counts_as_taken() -> None:
    running = pod("r", nodeName="node-1", labels={"app": "db"}, **neighbours("podAntiAffinity", names.ZONE))
    documents = [*BASIC, node(), running, pod("p")]
    loose = claim("p", zone=B)
    loose["requirements"] = [one for one in loose["requirements"] if one["key"] != names.ZONE]
    assert rules(documents, plan(loose)) == {"anti-affinity"}


# --- what was overlooked ----------------------------------------------------------------------------


def test_an_unplaced_pod_has_no_place() -> None:
    told = plan(unplaced=[unplaced("p")])
    assert rules([*BASIC, pod("p")], told) == {"placeable"}
    assert rules([*BASIC, pod("p", cpu="99")], told) == set()


def test_a_place_on_a_node_or_on_a_claim_counts_too() -> None:
    none = pool(requirements=[wanted(names.ARCH, "In", "arm64")])
    documents = [catalog(), none, node_class(), node(), pod("p")]
    assert rules(documents, plan(unplaced=[unplaced("p")])) == {"placeable"}
    full = [catalog(), pool(limits={"nodes": "1"}), node_class(), pod("p"), pod("q")]
    assert rules(full, plan(claim("p"), unplaced=[unplaced("q", "Limits")])) == {"placeable"}
    big = [catalog(), pool(limits={"nodes": "1"}), node_class(), pod("p"), pod("q", cpu="7500m")]
    assert rules(big, plan(claim("p"), unplaced=[unplaced("q", "Limits")])) == set()


def test_a_place_that_depends_on_other_pods_is_told_apart() -> None:
    documents = [*BASIC, pod("p", **spread(names.ZONE)), pod("q", **spread(names.ZONE))]
    told = plan(claim("p"), unplaced=[unplaced("q", "Topology")])
    assert rules(documents, told) == {"placeable-topology"}


def test_writing_the_pod_in_by_hand_finds_the_same_places() -> None:
    documents = [*BASIC, node(cpu="500m"), pod("p"), pod("q", cpu="300m")]
    told = plan(big_claim("p"), unplaced=[unplaced("q")])
    found = check.check(documents, told)
    assert {violation.rule for violation in found} == {"placeable"}
    assert len(found) == 1, "both searches name the same place first"
    alone = [*BASIC, pod("p", nodeSelector={names.ZONE: samples.B})]
    named = check.check(alone, plan(unplaced=[unplaced("p")]))
    assert {violation.what for violation in named} == {
        "default/p could go on a new node of default: small in zone-b, on-demand",
        "default/p could go on a new node of default: small in zone-b",
    }
