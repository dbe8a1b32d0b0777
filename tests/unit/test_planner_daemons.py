"""DaemonSets and host ports: what a node has to keep for itself before any pod gets there."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from holdfast.model.host_ports import HostPort
from holdfast.model.pods import PodShape
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirements import from_labels, of
from holdfast.model.snapshot import DaemonSetView
from holdfast.model.taints import Effect, Taint, Toleration, TolerationOperator
from planner_builders import (
    NANO,
    daemon,
    fake_types,
    instance_type,
    is_in,
    node,
    placed,
    pods,
    pool,
    reasons,
    request,
    reservation,
    running,
    shape,
)

TEAM = Taint("team", Effect.NO_SCHEDULE, "x")
SPARE = Taint("spare", Effect.PREFER_NO_SCHEDULE)
TOLERATES = Toleration("team", TolerationOperator.EXISTS)
ARMS = [
    instance_type("amd", 4, 16, 1.0),
    instance_type("arm", 4, 16, 2.0, labels={names.ARCH: "arm64"}),
]
PORT_80 = (HostPort(80),)


def of_daemon(cpu_millis: int = 1000, **more: Any) -> DaemonSetView:
    return daemon(shape(cpu_millis, 0, app="logs", namespace="kube-system", **more))


def room_left(**more: Any) -> int:
    """How many pods of half a core find a place on new nodes of four cores (3.9 for pods), one node at a time."""
    plan = solve(request([more.pop("of_pool", pool("default", ARMS[:1]))], pods(7, shape(500, 0)), **more))
    return max(len(claim.pods) for claim in plan.claims)


# --- New nodes --------------------------------------------------------------------------------------


@pytest.mark.fact("S-57")
def test_a_daemon_set_takes_its_room_on_every_new_node_that_suits_it() -> None:
    assert room_left() == 7
    assert room_left(daemon_sets=(of_daemon(),)) == 5
    assert room_left(daemon_sets=(of_daemon(), of_daemon(500))) == 4


@pytest.mark.fact("S-57")
@pytest.mark.parametrize(
    ("taint", "tolerations", "left"), [(TEAM, (), 7), (TEAM, (TOLERATES,), 5), (SPARE, (), 5)]
)
def test_a_daemon_set_counts_where_it_tolerates_the_taints_and_preferences_are_no_obstacle(
    taint: Taint, tolerations: tuple[Toleration, ...], left: int
) -> None:
    tainted = pool("default", ARMS[:1], taints=(taint,))
    of_pods = shape(500, 0, tolerations=(TOLERATES, Toleration("spare", TolerationOperator.EXISTS)))
    plan = solve(request([tainted], pods(7, of_pods), daemon_sets=(of_daemon(tolerations=tolerations),)))
    assert max(len(claim.pods) for claim in plan.claims) == left


@pytest.mark.fact("S-57")
@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ({names.ARCH: "amd64"}, 5),
        ({names.ARCH: "arm64"}, 7),  # the type has another
        ({names.NODEPOOL: "default"}, 5),
        ({names.NODEPOOL: "other"}, 7),  # the pool has another
        ({names.ZONE: "z2"}, 5),  # some node of the pool could be there
        ({"team": "x"}, 7),  # no node of the pool has the label
    ],
)
def test_a_daemon_set_counts_where_pool_and_type_go_together_with_what_it_selects(
    wanted: dict[str, str], left: int
) -> None:
    assert room_left(daemon_sets=(of_daemon(node_selector=from_labels(wanted)),)) == left


@pytest.mark.fact("S-13")
@pytest.mark.parametrize("label", [names.REGISTERED, names.INITIALIZED])
def test_a_daemon_set_that_waits_for_a_node_to_be_ready_counts_and_no_claim_says_so(label: str) -> None:
    waiting = of_daemon(node_selector=from_labels({label: "true"}))
    plan = solve(request([pool("default", ARMS[:1])], pods(7, shape(500, 0)), daemon_sets=(waiting,)))
    assert max(len(claim.pods) for claim in plan.claims) == 5
    assert not any(label in claim.requirements for claim in plan.claims)


@pytest.mark.fact("S-57")
def test_one_alternative_of_a_daemon_set_is_enough() -> None:
    terms = (from_labels({"team": "x"}), from_labels({names.ARCH: "amd64"}))
    assert room_left(daemon_sets=(of_daemon(required_terms=terms),)) == 5
    assert room_left(daemon_sets=(of_daemon(required_terms=terms[:1]),)) == 7


@pytest.mark.fact("S-58", "S-64")
def test_types_with_other_daemon_sets_have_other_room() -> None:
    only_arm = of_daemon(2000, node_selector=from_labels({names.ARCH: "arm64"}))
    pools = [pool("default", ARMS)]
    (claim,) = solve(request(pools, pods(1, shape(3000, 0)), daemon_sets=(only_arm,))).claims
    assert claim.instance_types == ("amd",)
    (claim,) = solve(request(pools, pods(1, shape(1500, 0)), daemon_sets=(only_arm,))).claims
    assert claim.instance_types == ("amd", "arm")


@pytest.mark.fact("S-62")
def test_a_claim_asks_for_its_pods_and_the_least_that_daemon_sets_take_on_any_type_it_lists() -> None:
    everywhere = of_daemon(100, extra={"example.com/gpu": 0})
    only_arm = of_daemon(700, node_selector=from_labels({names.ARCH: "arm64"}))
    (claim,) = solve(
        request([pool("default", ARMS)], pods(1, shape(1000, 0)), daemon_sets=(everywhere, only_arm))
    ).claims
    assert claim.instance_types == ("amd", "arm")
    assert (claim.requests["cpu"], claim.requests["pods"]) == (1100, 2)
    arm = pods(1, shape(1000, 0, node_selector=from_labels({names.ARCH: "arm64"})))
    (claim,) = solve(request([pool("default", ARMS)], arm, daemon_sets=(everywhere, only_arm))).claims
    assert (claim.requests["cpu"], claim.requests["pods"]) == (1800, 3)


# --- Nodes that exist -------------------------------------------------------------------------------


def fits_existing(cpu_millis: int, **more: Any) -> bool:
    """Whether a pod of this size has room on a node of four cores; `of_node` is more about the node."""
    one = node("n1", **more.pop("of_node", {}))
    return bool(solve(request([], pods(1, shape(cpu_millis, 0)), nodes=(one,), **more)).placed)


@pytest.mark.fact("S-60")
def test_a_node_has_room_for_what_its_pods_and_the_daemon_sets_to_come_leave() -> None:
    assert fits_existing(4000)
    assert fits_existing(2500, of_node={"pods": running(1, shape(1500, 0))})
    assert not fits_existing(2501, of_node={"pods": running(1, shape(1500, 0))})
    assert fits_existing(3000, daemon_sets=(of_daemon(),))
    assert not fits_existing(3001, daemon_sets=(of_daemon(),))


@pytest.mark.fact("S-60")
def test_a_daemon_set_that_runs_is_not_counted_twice() -> None:
    def with_running(cpu_millis: int) -> dict[str, Any]:
        return {"pods": running(1, shape(cpu_millis, 0, app="logs"), from_daemon_set=True)}

    both = (of_daemon(1000),)
    assert fits_existing(3000, daemon_sets=both, of_node=with_running(1000))
    assert not fits_existing(3001, daemon_sets=both, of_node=with_running(600))  # 400 more to come
    assert fits_existing(3000, daemon_sets=both, of_node=with_running(600))
    assert fits_existing(2500, daemon_sets=both, of_node=with_running(1500))  # never less than nothing
    assert not fits_existing(2501, daemon_sets=both, of_node=with_running(1500))


@pytest.mark.fact("S-59")
def test_a_daemon_set_counts_on_a_node_whose_taints_it_tolerates_and_whose_labels_it_selects() -> None:
    for selecting, fits in (({names.ZONE: "z1"}, False), ({names.ZONE: "z2"}, True), ({"team": "x"}, True)):
        chosen = of_daemon(node_selector=from_labels(selecting))
        assert fits_existing(3500, daemon_sets=(chosen,)) is fits
    tainted: dict[str, Any] = {"taints": (Taint(names.NOT_READY_TAINT, Effect.NO_EXECUTE),)}
    anything = Toleration(operator=TolerationOperator.EXISTS)
    pending = pods(1, shape(3500, 0, tolerations=(anything,)))
    for tolerations, fits in (((), True), ((anything,), False)):
        chosen = of_daemon(tolerations=tolerations)
        plan = solve(request([], pending, nodes=(node("n1", **tainted),), daemon_sets=(chosen,)))
        assert bool(plan.placed) is fits


@pytest.mark.fact("S-59")
def test_on_a_node_that_exists_only_the_first_alternative_of_a_daemon_set_counts() -> None:
    terms = (from_labels({"team": "x"}), from_labels({names.ZONE: "z1"}))
    assert fits_existing(4000, daemon_sets=(of_daemon(required_terms=terms),))
    assert not fits_existing(4000, daemon_sets=(of_daemon(required_terms=terms[::-1]),))


@pytest.mark.fact("S-59")
def test_on_a_node_with_a_taint_that_is_a_preference_a_daemon_set_counts() -> None:
    tolerant = pods(1, shape(3500, 0, tolerations=(Toleration("spare", TolerationOperator.EXISTS),)))
    spare = node("n1", taints=(SPARE,))
    assert solve(request([], tolerant, nodes=(spare,))).placed
    assert not solve(request([], tolerant, nodes=(spare,), daemon_sets=(of_daemon(),))).placed


@pytest.mark.fact("S-54", "S-60")
def test_a_node_with_more_on_it_than_it_has_takes_nothing_more() -> None:
    overcommitted = {"pods": running(1, shape(1000, 99 * 1024))}
    assert not fits_existing(100, of_node=overcommitted)


# --- Host ports -------------------------------------------------------------------------------------


def with_ports(*ports: HostPort) -> PodShape:
    return shape(100, 0, host_ports=ports)


@pytest.mark.fact("S-87")
@pytest.mark.parametrize(
    ("one", "other", "nodes"),
    [
        (HostPort(80), HostPort(80), 2),
        (HostPort(80), HostPort(81), 1),
        (HostPort(80), HostPort(80, "UDP"), 1),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), 1),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.1"), 2),
        (HostPort(80, ip="10.0.0.1"), HostPort(80), 2),
        (HostPort(80, ip="::"), HostPort(80, ip="10.0.0.2"), 2),
    ],
)
def test_pods_whose_ports_conflict_get_nodes_of_their_own(one: HostPort, other: HostPort, nodes: int) -> None:
    pending = (*pods(1, with_ports(one), "a"), *pods(1, with_ports(other), "b"))
    assert len(solve(request([pool("default", fake_types(3))], pending)).claims) == nodes


@pytest.mark.fact("S-87")
def test_a_node_whose_port_is_taken_is_passed_over() -> None:
    nodes = (node("a", pods=running(1, with_ports(*PORT_80))), node("b"))
    plan = solve(request([], pods(1, with_ports(*PORT_80)), nodes=nodes))
    assert placed(plan) == {"b": ("pod-000000",)}


@pytest.mark.fact("S-87")
def test_pod_does_not_conflict_with_itself() -> None:
    """With two of its own ports, and with the port that it has on the node that it leaves."""
    twice = with_ports(HostPort(80, ip="10.0.0.1"), HostPort(80))
    (claim,) = solve(request([pool("default", fake_types(3))], pods(1, twice))).claims
    assert claim.pods == ("pod-000000",)
    leaving = node("a", pods=running(1, with_ports(*PORT_80)), deleting=True)
    assert placed(solve(request([], (), nodes=(leaving, node("b"))))) == {"b": ("old-000000",)}


@pytest.mark.fact("S-64", "S-87", "S-58")
def test_types_on_which_a_daemon_set_has_the_port_are_left_out() -> None:
    only_arm = of_daemon(0, node_selector=from_labels({names.ARCH: "arm64"}), host_ports=PORT_80)
    pending = pods(1, with_ports(*PORT_80))
    (claim,) = solve(request([pool("default", ARMS)], pending, daemon_sets=(only_arm,))).claims
    assert claim.instance_types == ("amd",)
    everywhere = of_daemon(0, host_ports=PORT_80)
    plan = solve(request([pool("default", ARMS)], pending, daemon_sets=(everywhere,)))
    assert reasons(plan) == {"pod-000000": [ReasonCode.HOST_PORTS]}


@pytest.mark.fact("S-64")
def test_a_type_needs_one_offering_in_which_pods_and_daemon_sets_have_room() -> None:
    (claim,) = solve(
        request(
            [pool("default", ARMS)],
            pods(1, shape(3000, 0, node_selector=of(is_in(names.ZONE, "z1", "z2")))),
            daemon_sets=(of_daemon(900),),
        )
    ).claims
    assert claim.instance_types == ("amd", "arm")
    plan = solve(request([pool("default", ARMS)], pods(1, shape(3000, 0)), daemon_sets=(of_daemon(901),)))
    assert reasons(plan) == {"pod-000000": [ReasonCode.RESOURCES]}


@pytest.mark.parametrize("packing", list(Packing))
@pytest.mark.parametrize(("capacity_type", "in_slot"), [("on-demand", True), ("reserved", False)])
def test_a_daemonset_of_one_capacity_type_takes_nothing_of_another(
    packing: Packing, capacity_type: str, *, in_slot: bool
) -> None:
    kept = [reservation("cr-1", "m5.large")]
    types = [instance_type("m5.large", 2, 8, 0.1, kept)]
    both = pool("both", types, is_in(names.CAPACITY_TYPE, "reserved", "on-demand"))
    agent = daemon(shape(1000, node_selector=from_labels({names.CAPACITY_TYPE: capacity_type})))
    plan = solve(request([both], pods(1, shape(1500)), kept, packing, daemon_sets=(agent,)))
    assert [claim.reservation_id for claim in plan.claims] == (["cr-1"] if in_slot else [None])


@pytest.mark.parametrize("packing", list(Packing))
def test_a_daemonset_on_spot_takes_nothing_of_on_demand(packing: Packing) -> None:
    types = [instance_type("m5.large", 2, 8, 0.1), instance_type("m5.xlarge", 4, 16, 0.2)]
    agent = daemon(shape(1000, node_selector=from_labels({names.CAPACITY_TYPE: "spot"})))
    plan = solve(request([pool("both", types)], pods(1, shape(1500)), packing=packing, daemon_sets=(agent,)))
    (claim,) = plan.claims
    assert claim.price_nano_usd_per_hour == round(0.4 * 0.2 * NANO)
    assert (claim.instance_type, claim.capacity_type) == ("m5.xlarge", "spot")
    assert set(claim.instance_types) == {"m5.large", "m5.xlarge"}  # on demand, the smaller one would do
