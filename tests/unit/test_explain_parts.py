"""The parts of the reports: rows of nodes, queries, uses of slots, and what idle slots cost in a day."""

import asyncio
import random
from typing import Final

import msgspec

import objects
from holdfast import names
from holdfast.api import aws
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.reports import NodeRow
from holdfast.explain import reservations
from holdfast.explain.idle_history import IdleHistory
from holdfast.explain.inventory import Inventory
from holdfast.explain.reports import NodeQuery
from holdfast.model.instances import Instance, InstanceState
from holdfast.ports import Change
from holdfast.runtime.cache import Caches
from manual_ports import ManualClock

DOLLAR: Final = 1_000_000_000
HOUR_S: Final = 3600


# --- What idle slots cost in a day ----------------------------------------------------------------------


def test_each_rate_holds_until_the_next_sample() -> None:
    history = IdleHistory()
    for minute, dollars in ((0, 6), (1, 6), (2, 0), (3, 60)):
        history.add(minute * 60, dollars * DOLLAR)
    assert history.nano_usd == 2 * 6 * DOLLAR // 60


def test_samples_older_than_a_day_are_dropped() -> None:
    history = IdleHistory()
    for hour in range(50):
        for minute in range(60):
            history.add(hour * HOUR_S + minute * 60, DOLLAR)
    assert history.since_s == 49 * HOUR_S + 59 * 60 - 24 * HOUR_S
    assert history.nano_usd == 24 * DOLLAR


def test_pause_of_the_process_is_not_counted_as_idle() -> None:
    history = IdleHistory()
    history.add(0, DOLLAR)
    history.add(10 * HOUR_S, DOLLAR)
    assert history.nano_usd == DOLLAR // 6


def test_sample_of_an_earlier_time_is_ignored() -> None:
    history = IdleHistory()
    history.add(100, DOLLAR)
    history.add(50, 100 * DOLLAR)
    assert (history.since_s, history.nano_usd) == (100, 0)


def test_history_without_samples_costs_nothing() -> None:
    assert (IdleHistory().since_s, IdleHistory().nano_usd) == (0, 0)


# --- Queries --------------------------------------------------------------------------------------------

ROWS: Final = (
    NodeRow(name="a", node_claim="c-a", zone="z1", capacity_type="spot", node_pool="p", state="ready"),
    NodeRow(name="b", node_claim="c-b", zone="z2", capacity_type="spot", node_pool="q", state="ready"),
    NodeRow(name="d", zone="z1", state="draining", reservation="cr-1", instance_type="m5.large"),
)


def selected(**query: str) -> list[str]:
    return [row.name for row in NodeQuery(**query).select(ROWS)]  # type: ignore[arg-type]


def test_query_selects_rows_that_match_all_of_it() -> None:
    assert selected() == ["a", "b", "d"]
    assert selected(zone="z1") == ["a", "d"]
    assert selected(zone="z1", capacity_type="spot") == ["a"]
    assert selected(node_pool="q") == ["b"]
    assert selected(state="draining") == ["d"]
    assert selected(reservation="cr-1") == ["d"]
    assert selected(search="c-") == ["a", "b"]
    assert selected(search="m5") == selected(search="cr-") == ["d"]
    assert selected(search="nothing") == []


# --- Uses of slots --------------------------------------------------------------------------------------


def instance(number: int, state: InstanceState = InstanceState.RUNNING, claim: str = "") -> Instance:
    return Instance(
        provider_id=f"i-{number}",
        instance_type="m5.large",
        zone="z1",
        capacity_type=names.RESERVED,
        state=state,
        launched_s=number,
        reservation_id="cr-1",
        claim=claim or None,
    )


def test_uses_name_nodes_and_their_states() -> None:
    rows = (
        NodeRow(name="n1", node_claim="c1", reservation="cr-1", state="ready"),
        NodeRow(name="c2", node_claim="c2", reservation="cr-1", state="launching", created=7),
        NodeRow(name="c3", node_claim="c3", reservation="cr-1", state="starting", created=8),
        NodeRow(name="n9", node_claim="c9", reservation="cr-9", state="ready"),
    )
    found = reservations.uses(
        {"cr-1", "cr-2"},
        [instance(1), instance(2, InstanceState.ENDING, "gone"), instance(3, InstanceState.GONE)],
        rows,
        {"i-1": "c1"},
    )
    assert found["cr-2"] == ()
    assert [(use.node, use.node_claim, use.state, use.since) for use in found["cr-1"]] == [
        ("n1", "c1", "running", 1),
        ("", "gone", "releasing", 2),
        ("", "c2", "launching", 7),
        ("", "c3", "running", 8),
    ]


def test_number_of_uses_is_bounded() -> None:
    found = reservations.uses({"cr-1"}, [instance(number) for number in range(1000)], (), {})
    assert len(found["cr-1"]) == reservations.USES_MAX


# --- Rows of nodes --------------------------------------------------------------------------------------


def inventory(caches: Caches) -> Inventory:
    return Inventory(caches, aws.CAPACITY_RESERVATION_ID, ManualClock())


def change(caches: Caches, dice: random.Random) -> None:
    """Adds, changes or deletes a NodeClaim, a Node or a pod."""
    number = dice.randrange(8)
    provider_id = f"aws:///z/i-{dice.choice([number, number, number + 1])}"
    labels = {names.CAPACITY_TYPE: dice.choice(names.CAPACITY_TYPES), names.ZONE: f"z{dice.randrange(2)}"}
    done = [
        {"type": type_, "status": dice.choice(["True", "False"]), "lastTransitionTime": objects.NOW}
        for type_ in ("Launched", "Initialized")
    ]
    ready = {"conditions": [{"type": "Ready", "status": dice.choice(["True", "False"])}]}
    obj = dice.choice(
        [
            objects.nodeclaim(
                f"c{number}",
                {"labels": labels},
                {"providerID": dice.choice([None, provider_id]), "conditions": done},
            ),
            objects.node(f"n{number}", {"labels": labels}, spec={"providerID": provider_id}, status=ready),
            objects.pod(f"p{number}", {"uid": f"p{number}"}, nodeName=dice.choice(["", f"n{number}"])),
        ]
    )
    if dice.random() < 0.25:
        gone = msgspec.structs.replace(obj.metadata, resource_version="999999999")
        caches.of(type(obj)).apply(Change("DELETED", msgspec.structs.replace(obj, metadata=gone)))
        caches.of(type(obj))._watched_version = 0
    else:
        objects.store(caches, obj)


def test_rows_after_changes_are_those_of_a_new_inventory() -> None:
    for seed in range(50):
        dice = random.Random(seed)
        caches = Caches((NodeClaim, Node, Pod), clock=ManualClock())
        updated = inventory(caches)
        for _ in range(40):
            change(caches, dice)
            if dice.random() < 0.5:
                asyncio.run(updated.see_changed())
        anew = inventory(caches)
        assert updated.rows() == anew.rows(), seed
        assert list(updated.waiting()) == list(anew.waiting()), seed
        for row in anew.rows():
            assert updated.of_node(row.name) == anew.of_node(row.name), seed


def test_heartbeat_of_a_node_changes_no_version() -> None:
    caches = Caches((NodeClaim, Node, Pod), clock=ManualClock())
    known = inventory(caches)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    objects.store(caches, objects.node("n", {}, status=ready))
    before = known.version
    objects.store(caches, objects.node("n", {"annotations": {"heartbeat": "2"}}, status=ready))
    assert known.version == before
    objects.store(
        caches, objects.node("n", {}, status={"conditions": [{"type": "Ready", "status": "False"}]})
    )
    assert known.version > before
