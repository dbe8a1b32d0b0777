"""Input of disruption about nodes, NodePools and pods, converted from their API objects."""

from typing import Any

import msgspec
import pytest

from builders import nodepool
from holdfast import names
from holdfast.api.nodepool import Disruption, NodePool
from holdfast.core.disruption.inputs import Budget, Drifted, NodeCondition, Policy, PoolRules
from holdfast.state.conversion import disruption_input, pod_states
from holdfast.state.conversion.disruption_input import FactsCache, Objects
from holdfast.state.conversion.nodes import NodeAndClaim
from objects import AN_HOUR_AGO, NOW_S, node, nodeclaim, pod

HOUR_S = 3600


def read(written: dict[str, Any]) -> NodePool:
    pool = nodepool()
    disruption = msgspec.convert(written, Disruption)
    return msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, disruption=disruption))


@pytest.mark.fact("D-12", "C-5", "D-49")
def test_the_disruption_rules_of_a_nodepool_are_converted() -> None:
    written = {
        "consolidationPolicy": "Balanced",
        "budgets": [
            {"nodes": "10%"},
            {"nodes": "0", "reasons": ["Drifted"], "schedule": "@daily", "duration": "1h30m"},
            {"nodes": "1", "reasons": []},
        ],
    }
    assert disruption_input.rules(read(written)) == PoolRules(
        Policy.BALANCED,
        (
            Budget("10%"),
            Budget("0", frozenset({"Drifted"}), "@daily", 5400),
            Budget("1", frozenset()),
        ),
    )
    assert disruption_input.rules(read({})) == PoolRules()


def condition(type_: str, status: str = "True", reason: str = "Because") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": AN_HOUR_AGO}


def claim(*conditions: dict[str, Any], **meta: Any) -> Any:
    status = {"conditions": list(conditions), "providerID": "cloud:///n"}
    return nodeclaim("c", {"creationTimestamp": AN_HOUR_AGO, **meta}, status=status)


def test_disruption_facts_come_from_the_node_and_its_claim() -> None:
    ready = node("n", status={"conditions": [condition("Ready", reason="KubeletReady")]})
    command = '{"id":"1","reason":"Drifted","method":"drift","why":"","at":0}'
    drifted = claim(
        condition("Drifted", reason="AMIDrift"),
        condition("Initialized"),
        condition("Rebooting", "False"),
        annotations={names.DISRUPTION_COMMAND: command, names.REBOOTS: "5"},
    )
    found = disruption_input.facts(NodeAndClaim(ready, drifted))
    assert found.ready
    assert found.queued
    assert found.drifted == Drifted("AMIDrift", NOW_S - HOUR_S)
    assert (found.initialized_s, found.created_s) == (NOW_S - HOUR_S, NOW_S - HOUR_S)
    assert found.conditions == (NodeCondition("Ready", "True", "KubeletReady", NOW_S - HOUR_S),)
    assert found.reboots_s == (5,)
    vetoes = (found.rebooting, found.ending, found.do_not_disrupt, found.do_not_repair)
    assert vetoes == (False, False, False, False)


def test_a_condition_that_is_not_true_is_ignored() -> None:
    found = disruption_input.facts(
        NodeAndClaim(node("n"), claim(condition("Drifted", "False"), condition("Rebooting", "Unknown")))
    )
    assert found.drifted is None
    assert not found.rebooting
    assert not found.ready


def test_facts_of_unchanged_objects_and_equal_facts_are_the_same_object() -> None:
    cache, same, other = FactsCache(), NodeAndClaim(node("n"), claim()), NodeAndClaim(node("m"), claim())
    first = cache.of(Objects((), {"n": same, "m": other}))
    labelled = NodeAndClaim(node("m", {"labels": {"a": "b"}}), other.claim)
    drifted = NodeAndClaim(node("d"), claim(condition("Drifted")))
    second = cache.of(Objects((), {"n": same, "m": labelled, "d": drifted}))
    assert second["n"] is first["n"]
    assert second["m"] is first["m"]
    assert second == {name: disruption_input.facts(pair) for name, pair in _pairs(same, labelled, drifted)}
    third = cache.of(Objects((), {"d": drifted}, unreadable=None))
    assert third == {"d": disruption_input.facts(drifted, None)}


def _pairs(*pairs: NodeAndClaim) -> list[tuple[str, NodeAndClaim]]:
    return [(pair.name, pair) for pair in pairs]


@pytest.mark.parametrize("key", [names.DO_NOT_DISRUPT, names.DO_NOT_REPAIR])
@pytest.mark.fact("D-6")
def test_a_veto_annotation_counts_on_node_or_claim_and_only_as_true(key: str) -> None:
    def vetoed(of_node: str, of_claim: str) -> bool:
        pair = NodeAndClaim(node("n", {"annotations": {key: of_node}}), claim(annotations={key: of_claim}))
        found = disruption_input.facts(pair)
        return found.do_not_disrupt if key == names.DO_NOT_DISRUPT else found.do_not_repair

    assert vetoed("true", "")
    assert vetoed("", "true")
    assert not vetoed("1h", "yes")


@pytest.mark.fact("D-7")
@pytest.mark.parametrize(
    ("disruption_cost", "pod_deletion_cost", "cost"),
    [
        (None, None, 0),
        (None, "7", 7),
        ("-3", "7", -3),
        ("a lot", "7", 7),
        ("2147483648", "7", 7),
        ("-2147483648", None, -(2**31)),
        (None, "1.5", 0),
    ],
)
def test_the_deletion_cost_of_a_pod_comes_from_its_annotations(
    disruption_cost: str | None, pod_deletion_cost: str | None, cost: int
) -> None:
    written = {names.DISRUPTION_COST: disruption_cost, names.POD_DELETION_COST: pod_deletion_cost}
    made = pod("p", {"annotations": {key: value for key, value in written.items() if value is not None}})
    assert pod_states.deletion_cost(made) == cost
