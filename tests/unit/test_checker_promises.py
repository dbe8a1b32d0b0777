"""The checker's rules about existing nodes, free slots and preferences that a plan has to use."""

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
WITH_SLOT = [catalog(reservations=[reservation()]), pool(), node_class()]
FREE = {"slotsLeft": {"cr-1": 1}}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def rules(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.check(documents, found)}


def remarks(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.judge(documents, found).remarks}


def prefers(*expressions: Document) -> Document:
    terms = [{"weight": 1, "preference": {"matchExpressions": [one]}} for one in expressions]
    return {"affinity": {"nodeAffinity": {_PREFERRED: terms}}}


def prefers_pods(side: str, key: str = names.HOSTNAME) -> Document:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"affinity": {side: {_PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}


def alternatives(*expressions: Document) -> Document:
    terms = [{"matchExpressions": [one]} for one in expressions]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}


IN_A, IN_B = wanted(names.ZONE, "In", A), wanted(names.ZONE, "In", B)


# --- existing nodes ---------------------------------------------------------------------------------


def test_nothing_is_launched_beside_a_node_with_capacity() -> None:
    documents = [*BASIC, node(), pod("p")]
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == set()
    assert rules(documents, plan(claim("p"))) == {"node-left"}


def test_claim_beside_a_full_node_is_allowed() -> None:
    documents = [*BASIC, node(cpu="500m"), pod("p")]
    assert rules(documents, plan(claim("p"))) == set()


def test_existing_node_outside_the_preferred_zone_is_not_used() -> None:
    documents = [*BASIC, node(), pod("p", **prefers(IN_B))]
    assert rules(documents, plan(claim("p", zone=B))) == set()
    assert rules(documents, plan(nodes={"node-1": ["p"]})) == {"preference-dropped"}


# --- slots ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "constraints",
    [
        prefers(IN_A),
        alternatives(IN_B, IN_A),
        samples.neighbours("podAntiAffinity", names.HOSTNAME),
        samples.spread(names.HOSTNAME),
        prefers_pods("podAntiAffinity"),
        prefers_pods("podAffinity"),
    ],
)
def test_a_free_slot_is_used_by_pods_with_constraints_that_it_satisfies(constraints: Document) -> None:
    documents = [*WITH_SLOT, pod("p", **constraints)]
    assert rules(documents, plan(slot_claim("p"))) == set()
    found = check.judge(documents, plan(claim("p"), **FREE))
    assert {"paid-slot-left", "paid-slot-left-by-order"} & {
        one.rule for one in (*found.violations, *found.remarks)
    }


@pytest.mark.parametrize(
    ("constraints", "zone"),
    [
        (prefers(IN_B), B),
        (prefers(wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND)), A),
        (alternatives(IN_B, wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND)), B),
    ],
)
def test_slot_that_a_pod_does_not_prefer_may_stay_free(constraints: Document, zone: str) -> None:
    documents = [*WITH_SLOT, pod("p", **constraints)]
    assert rules(documents, plan(claim("p", zone=zone), **FREE)) == set()


def test_slot_is_used_if_the_preference_cannot_be_satisfied() -> None:
    unsatisfiable = prefers(wanted("example.com/rack", "In", "r1"))
    documents = [*WITH_SLOT, pod("p", **unsatisfiable)]
    assert rules(documents, plan(slot_claim("p"))) == set()
    assert "paid-slot-left" in rules(documents, plan(claim("p"), **FREE))


def test_slot_excluded_by_anti_affinity_may_stay_free() -> None:
    apart = samples.neighbours("podAntiAffinity", names.ZONE)
    running = pod("r", nodeName="node-1")
    documents = [*WITH_SLOT, node(cpu="1"), running, pod("p", **apart)]
    assert rules(documents, plan(claim("p", zone=B), **FREE)) == set()


def test_finding_that_depends_on_the_order_of_pods_is_a_remark() -> None:
    spread = samples.spread(names.ZONE)
    documents = [*WITH_SLOT, pod("p", **spread)]
    on_demand = plan(claim("p"), **FREE)
    assert "paid-slot-left" in rules(documents, on_demand)
    assert remarks(documents, on_demand) == {"paid-slot-left-by-order"}
    with_node = [*BASIC, node(), pod("p", **spread)]
    assert rules(with_node, plan(claim("p"))) == set()
    assert remarks(with_node, plan(claim("p"))) == {"node-left-by-order"}
    near = pod("p", labels={"app": "other"}, **prefers_pods("podAffinity", names.ZONE))
    together = [*BASIC, node(cpu="1"), pod("r", nodeName="node-1"), near]
    assert rules(together, plan(claim("p", zone=B))) == set()
    assert remarks(together, plan(claim("p", zone=B))) == {"preference-dropped-by-order"}


def test_no_on_demand_claim_beside_a_slot_that_fits_all_of_its_pods() -> None:
    together = samples.neighbours("podAffinity", names.HOSTNAME)
    documents = [*WITH_SLOT, pod("p", **together), pod("q", **together)]
    assert rules(documents, plan(slot_claim("p", "q"))) == set()
    assert rules(documents, plan(claim("p", "q"), **FREE)) == {"paid-slot-left"}
    third = [*documents, pod("r", cpu="2", **together)]
    assert rules(third, plan(big_claim("p", "q", "r"), **FREE)) == set()


# --- DaemonSets -------------------------------------------------------------------------------------


def daemon_on(capacity_type: str) -> Document:
    spec = pod("", cpu="1500m")["spec"] | {"nodeSelector": {names.CAPACITY_TYPE: capacity_type}}
    return {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"template": {"spec": spec}}}


def test_daemonset_of_another_capacity_type_uses_no_capacity_of_a_slot() -> None:
    documents = [*WITH_SLOT, daemon_on(names.ON_DEMAND), pod("p")]
    assert rules(documents, plan(slot_claim("p"))) == set()
    assert "paid-slot-left" in rules(documents, plan(big_claim("p"), **FREE))
    only = pool(requirements=[wanted(names.CAPACITY_TYPE, "In", names.RESERVED)])
    reserved = [documents[0], only, *documents[2:]]
    assert rules(reserved, plan(unplaced=[unplaced("p")], **FREE)) == {"placeable"}


def test_a_daemonset_of_reserved_nodes_is_counted_in_a_slot() -> None:
    documents = [*WITH_SLOT, daemon_on(names.RESERVED), pod("p")]
    assert rules(documents, plan(claim("p"), **FREE)) == set()
    assert "claim-fits" in rules(documents, plan(slot_claim("p")))


# --- preferences ------------------------------------------------------------------------------------


def test_preferred_anti_affinity_puts_pods_on_separate_nodes() -> None:
    documents = [*BASIC, *(pod(name, cpu="100m", **prefers_pods("podAntiAffinity")) for name in "pqr")]
    assert rules(documents, plan(claim("p"), claim("q"), claim("r"))) == set()
    assert rules(documents, plan(claim("p", "q", "r"))) == {"preference-dropped"}


def test_preferred_anti_affinity_is_dropped_at_the_limit_of_nodes() -> None:
    one_node = pool(limits={"nodes": "1"})
    pods = [pod(name, cpu="100m", **prefers_pods("podAntiAffinity")) for name in "pqr"]
    assert rules([catalog(), one_node, node_class(), *pods], plan(claim("p", "q", "r"))) == set()


def test_pod_placed_later_does_not_violate_the_preference_of_an_earlier_one() -> None:
    documents = [*BASIC, pod("p", cpu="100m", **prefers_pods("podAntiAffinity")), pod("q", cpu="100m")]
    assert rules(documents, plan(claim("p", "q"))) == set()


def test_prefer_no_schedule_taint_is_avoided_if_possible() -> None:
    slow = pool("slow", taints=[{"key": "slow", "effect": "PreferNoSchedule"}])
    documents = [*BASIC, slow, pod("p")]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(claim("p", nodePool="slow"))) == {"preference-dropped"}
    only_slow = [catalog(), slow, node_class(), pod("p")]
    assert rules(only_slow, plan(claim("p", nodePool="slow"))) == set()


def test_preferences_are_not_checked_with_policy_ignore() -> None:
    documents = [catalog(preferencePolicy="Ignore"), *BASIC[1:], pod("p", **prefers(IN_B))]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules([*BASIC, *documents[3:]], plan(claim("p"))) == {"preference-dropped"}


def fewer(documents: list[Document], found: Document, first_fit: Document) -> set[str]:
    return {violation.rule for violation in check.fewer_preferences(documents, found, first_fit)}


def test_cheaper_packing_satisfies_as_many_preferences_as_first_fit() -> None:
    documents = [*BASIC, *(pod(name, cpu="100m", **prefers_pods("podAntiAffinity")) for name in "pqr")]
    apart, together = plan(claim("p"), claim("q"), claim("r")), plan(claim("p", "q"), claim("r"))
    assert fewer(documents, apart, together) == set()
    assert fewer(documents, together, plan(claim("p"), claim("q", "r"))) == set()
    assert fewer(documents, together, apart) == {"preferences-fewer"}


def test_preferred_anti_affinity_counts_running_pods() -> None:
    running = [node(cpu="1"), pod("r", cpu="100m", nodeName="node-1")]
    documents = [*BASIC, *running, pod("p", cpu="100m", **prefers_pods("podAntiAffinity", names.ZONE))]
    elsewhere = plan(claim("p", zone=B))
    assert fewer(documents, elsewhere, plan(claim("p"))) == set()
    assert fewer(documents, plan(claim("p")), elsewhere) == {"preferences-fewer"}


def test_chosen_zone_decides_whether_a_preference_is_satisfied() -> None:
    documents = [*BASIC, pod("p", **prefers(IN_B))]
    either = claim("p", zone=B) | {"requirements": [wanted(names.ZONE, "In", A, B)]}
    assert fewer(documents, plan(either), plan(claim("p", zone=B))) == set()
    assert fewer(documents, plan(claim("p")), plan(either)) == {"preferences-fewer"}


def test_packing_that_places_more_pods_may_satisfy_fewer_preferences() -> None:
    documents = [*BASIC, pod("p", **prefers(IN_B)), pod("q")]
    first_fit: Any = plan(claim("p", zone=B), unplaced=[unplaced("q")])
    assert fewer(documents, plan(claim("p", "q")), first_fit) == set()


def test_pods_that_wait_behind_a_gang_are_not_compared() -> None:
    documents = [*BASIC, pod("p", **prefers(IN_B)), pod("q", cpu="100m", **prefers(IN_B))]
    first_fit: Any = plan(claim("p", zone=B), unplaced=[unplaced("q")])
    behind = unplaced("p", "BehindGang")
    assert fewer(documents, plan(claim("q", zone=B), unplaced=[unplaced("p")]), first_fit)
    assert fewer(documents, plan(claim("q", zone=B), unplaced=[behind]), first_fit) == set()
