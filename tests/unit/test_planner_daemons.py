"""DaemonSets and host ports: what DaemonSets use on a node before other pods are placed."""

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
TWO_ARCHS = [
    instance_type("amd", 4, 16, 1.0),
    instance_type("arm", 4, 16, 2.0, labels={names.ARCH: "arm64"}),
]
PORT_80 = (HostPort(80),)


def daemon_set(cpu_millis: int = 1000, **more: Any) -> DaemonSetView:
    return daemon(shape(cpu_millis, 0, app="logs", namespace="kube-system", **more))


def max_pods_per_node(**more: Any) -> int:
    """The most pods of half a core on one new node of four cores, of which 3.9 are allocatable."""
    plan = solve(request([pool("default", TWO_ARCHS[:1])], pods(7, shape(500, 0)), **more))
    return max(len(claim.pods) for claim in plan.claims)


# --- New nodes --------------------------------------------------------------------------------------


@pytest.mark.fact("S-57")
def test_daemonsets_reduce_the_capacity_of_every_compatible_new_node() -> None:
    assert max_pods_per_node() == 7
    assert max_pods_per_node(daemon_sets=(daemon_set(),)) == 5
    assert max_pods_per_node(daemon_sets=(daemon_set(), daemon_set(500))) == 4


@pytest.mark.parametrize("on_amd", [1000, 500])
def test_each_instance_type_has_the_requests_of_its_own_daemonsets(on_amd: int) -> None:
    """With 1000, different DaemonSets request the same."""
    on: dict[str, dict[str, Any]] = {
        arch: {"node_selector": from_labels({names.ARCH: arch})} for arch in ("amd64", "arm64")
    }
    logs = (
        daemon_set(on_amd, **on["amd64"]),
        daemon(shape(1000, 0, app="arm", namespace="kube-system", **on["arm64"]), "arm"),
    )
    pending = (*pods(1, shape(500, 0, **on["amd64"]), "amd"), *pods(1, shape(500, 0, **on["arm64"]), "arm"))
    plan = solve(request([pool("default", TWO_ARCHS)], pending, daemon_sets=logs))
    assert {one.instance_type: one.requests["cpu"] for one in plan.claims} == {
        "amd": 500 + on_amd,
        "arm": 1500,
    }


@pytest.mark.fact("S-57")
@pytest.mark.parametrize(
    ("taint", "tolerations", "left"), [(TEAM, (), 7), (TEAM, (TOLERATES,), 5), (SPARE, (), 5)]
)
def test_a_hard_taint_that_a_daemonset_does_not_tolerate_excludes_it(
    taint: Taint, tolerations: tuple[Toleration, ...], left: int
) -> None:
    tainted = pool("default", TWO_ARCHS[:1], taints=(taint,))
    of_pods = shape(500, 0, tolerations=(TOLERATES, Toleration("spare", TolerationOperator.EXISTS)))
    plan = solve(request([tainted], pods(7, of_pods), daemon_sets=(daemon_set(tolerations=tolerations),)))
    assert max(len(claim.pods) for claim in plan.claims) == left


@pytest.mark.fact("S-57")
@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ({names.ARCH: "amd64"}, 5),
        ({names.ARCH: "arm64"}, 7),  # the instance type is amd64
        ({names.NODEPOOL: "default"}, 5),
        ({names.NODEPOOL: "other"}, 7),  # the NodePool has another name
        ({names.ZONE: "z2"}, 5),  # a node of the NodePool can be in z2
        ({"team": "x"}, 7),  # no node of the NodePool has the label
    ],
)
def test_a_daemonset_counts_where_nodepool_and_instance_type_match_its_node_selector(
    wanted: dict[str, str], left: int
) -> None:
    assert max_pods_per_node(daemon_sets=(daemon_set(node_selector=from_labels(wanted)),)) == left


@pytest.mark.fact("S-13")
@pytest.mark.parametrize("label", [names.REGISTERED, names.INITIALIZED])
def test_a_daemonset_that_selects_a_lifecycle_label_counts_and_the_claim_does_not_require_it(
    label: str,
) -> None:
    waiting = daemon_set(node_selector=from_labels({label: "true"}))
    plan = solve(request([pool("default", TWO_ARCHS[:1])], pods(7, shape(500, 0)), daemon_sets=(waiting,)))
    assert max(len(claim.pods) for claim in plan.claims) == 5
    assert not any(label in claim.requirements for claim in plan.claims)


@pytest.mark.fact("S-57")
def test_one_matching_node_selector_term_of_a_daemonset_is_enough() -> None:
    terms = (from_labels({"team": "x"}), from_labels({names.ARCH: "amd64"}))
    assert max_pods_per_node(daemon_sets=(daemon_set(required_terms=terms),)) == 5
    assert max_pods_per_node(daemon_sets=(daemon_set(required_terms=terms[:1]),)) == 7


@pytest.mark.fact("S-58", "S-64")
def test_each_instance_type_is_checked_with_its_own_daemonsets() -> None:
    only_arm = daemon_set(2000, node_selector=from_labels({names.ARCH: "arm64"}))
    pools = [pool("default", TWO_ARCHS)]
    (claim,) = solve(request(pools, pods(1, shape(3000, 0)), daemon_sets=(only_arm,))).claims
    assert claim.instance_types == ("amd",)
    (claim,) = solve(request(pools, pods(1, shape(1500, 0)), daemon_sets=(only_arm,))).claims
    assert claim.instance_types == ("amd", "arm")


@pytest.mark.fact("S-62")
def test_claim_requests_are_its_pods_plus_the_smallest_daemonset_overhead_of_its_types() -> None:
    everywhere = daemon_set(100, extra={"example.com/gpu": 0})
    only_arm = daemon_set(700, node_selector=from_labels({names.ARCH: "arm64"}))
    (claim,) = solve(
        request([pool("default", TWO_ARCHS)], pods(1, shape(1000, 0)), daemon_sets=(everywhere, only_arm))
    ).claims
    assert claim.instance_types == ("amd", "arm")
    assert (claim.requests["cpu"], claim.requests["pods"]) == (1100, 2)
    arm = pods(1, shape(1000, 0, node_selector=from_labels({names.ARCH: "arm64"})))
    (claim,) = solve(request([pool("default", TWO_ARCHS)], arm, daemon_sets=(everywhere, only_arm))).claims
    assert (claim.requests["cpu"], claim.requests["pods"]) == (1800, 3)


# --- Existing nodes ---------------------------------------------------------------------------------


def fits_existing(cpu_millis: int, **more: Any) -> bool:
    """Whether a pod of this size fits on a node of four cores; `of_node` has further arguments of the node."""
    one = node("n1", **more.pop("of_node", {}))
    return bool(solve(request([], pods(1, shape(cpu_millis, 0)), nodes=(one,), **more)).placed)


@pytest.mark.fact("S-60")
def test_pods_and_expected_daemonsets_reduce_the_capacity_of_an_existing_node() -> None:
    assert fits_existing(4000)
    assert fits_existing(2500, of_node={"pods": running(1, shape(1500, 0))})
    assert not fits_existing(2501, of_node={"pods": running(1, shape(1500, 0))})
    assert fits_existing(3000, daemon_sets=(daemon_set(),))
    assert not fits_existing(3001, daemon_sets=(daemon_set(),))


@pytest.mark.fact("S-60")
def test_a_running_daemonset_pod_is_not_counted_twice() -> None:
    def with_running(cpu_millis: int) -> dict[str, Any]:
        return {"pods": running(1, shape(cpu_millis, 0, app="logs"), from_daemon_set=True)}

    logs = (daemon_set(1000),)
    assert fits_existing(3000, daemon_sets=logs, of_node=with_running(1000))
    assert not fits_existing(3001, daemon_sets=logs, of_node=with_running(600))  # 400m are not used yet
    assert fits_existing(3000, daemon_sets=logs, of_node=with_running(600))
    assert fits_existing(2500, daemon_sets=logs, of_node=with_running(1500))  # overhead is never negative
    assert not fits_existing(2501, daemon_sets=logs, of_node=with_running(1500))


@pytest.mark.fact("S-59")
def test_a_daemonset_counts_on_existing_nodes_that_it_tolerates_and_selects() -> None:
    for selecting, fits in (({names.ZONE: "z1"}, False), ({names.ZONE: "z2"}, True), ({"team": "x"}, True)):
        chosen = daemon_set(node_selector=from_labels(selecting))
        assert fits_existing(3500, daemon_sets=(chosen,)) is fits
    tainted: dict[str, Any] = {"taints": (Taint(names.NOT_READY_TAINT, Effect.NO_EXECUTE),)}
    anything = Toleration(operator=TolerationOperator.EXISTS)
    pending = pods(1, shape(3500, 0, tolerations=(anything,)))
    for tolerations, fits in (((), True), ((anything,), False)):
        chosen = daemon_set(tolerations=tolerations)
        plan = solve(request([], pending, nodes=(node("n1", **tainted),), daemon_sets=(chosen,)))
        assert bool(plan.placed) is fits


@pytest.mark.fact("S-59")
def test_on_an_existing_node_only_the_first_node_selector_term_of_a_daemonset_counts() -> None:
    terms = (from_labels({"team": "x"}), from_labels({names.ZONE: "z1"}))
    assert fits_existing(4000, daemon_sets=(daemon_set(required_terms=terms),))
    assert not fits_existing(4000, daemon_sets=(daemon_set(required_terms=terms[::-1]),))


@pytest.mark.fact("S-59")
def test_a_daemonset_counts_on_an_existing_node_with_a_prefer_no_schedule_taint() -> None:
    tolerant = pods(1, shape(3500, 0, tolerations=(Toleration("spare", TolerationOperator.EXISTS),)))
    spare = node("n1", taints=(SPARE,))
    assert solve(request([], tolerant, nodes=(spare,))).placed
    assert not solve(request([], tolerant, nodes=(spare,), daemon_sets=(daemon_set(),))).placed


@pytest.mark.fact("S-54", "S-60")
def test_an_overcommitted_node_gets_no_more_pods() -> None:
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
def test_pods_with_conflicting_host_ports_get_separate_nodes(
    one: HostPort, other: HostPort, nodes: int
) -> None:
    pending = (*pods(1, with_ports(one), "a"), *pods(1, with_ports(other), "b"))
    assert len(solve(request([pool("default", fake_types(3))], pending)).claims) == nodes


@pytest.mark.fact("S-87")
def test_a_node_whose_host_port_is_in_use_is_skipped() -> None:
    nodes = (node("a", pods=running(1, with_ports(*PORT_80))), node("b"))
    plan = solve(request([], pods(1, with_ports(*PORT_80)), nodes=nodes))
    assert placed(plan) == {"b": ("pod-000000",)}


@pytest.mark.fact("S-87")
def test_a_pod_does_not_conflict_with_its_own_host_ports() -> None:
    """Its two ports do not conflict, nor does its port on the node that is being deleted."""
    twice = with_ports(HostPort(80, ip="10.0.0.1"), HostPort(80))
    (claim,) = solve(request([pool("default", fake_types(3))], pods(1, twice))).claims
    assert claim.pods == ("pod-000000",)
    deleting_node = node("a", pods=running(1, with_ports(*PORT_80)), deleting=True)
    assert placed(solve(request([], (), nodes=(deleting_node, node("b"))))) == {"b": ("old-000000",)}


@pytest.mark.fact("S-64", "S-87", "S-58")
def test_instance_types_on_which_a_daemonset_uses_the_host_port_are_excluded() -> None:
    only_arm = daemon_set(0, node_selector=from_labels({names.ARCH: "arm64"}), host_ports=PORT_80)
    pending = pods(1, with_ports(*PORT_80))
    (claim,) = solve(request([pool("default", TWO_ARCHS)], pending, daemon_sets=(only_arm,))).claims
    assert claim.instance_types == ("amd",)
    everywhere = daemon_set(0, host_ports=PORT_80)
    plan = solve(request([pool("default", TWO_ARCHS)], pending, daemon_sets=(everywhere,)))
    assert reasons(plan) == {"pod-000000": [ReasonCode.HOST_PORTS]}


@pytest.mark.fact("S-64")
def test_an_instance_type_must_fit_pods_and_daemonsets() -> None:
    (claim,) = solve(
        request(
            [pool("default", TWO_ARCHS)],
            pods(1, shape(3000, 0, node_selector=of(is_in(names.ZONE, "z1", "z2")))),
            daemon_sets=(daemon_set(900),),
        )
    ).claims
    assert claim.instance_types == ("amd", "arm")
    plan = solve(
        request([pool("default", TWO_ARCHS)], pods(1, shape(3000, 0)), daemon_sets=(daemon_set(901),))
    )
    assert reasons(plan) == {"pod-000000": [ReasonCode.RESOURCES]}


@pytest.mark.parametrize("packing", list(Packing))
@pytest.mark.parametrize(("capacity_type", "in_slot"), [("on-demand", True), ("reserved", False)])
def test_a_daemonset_of_one_capacity_type_uses_no_capacity_of_another(
    packing: Packing, capacity_type: str, *, in_slot: bool
) -> None:
    reservations = [reservation("cr-1", "m5.large")]
    types = [instance_type("m5.large", 2, 8, 0.1, reservations)]
    both = pool("both", types, is_in(names.CAPACITY_TYPE, "reserved", "on-demand"))
    agent = daemon(shape(1000, node_selector=from_labels({names.CAPACITY_TYPE: capacity_type})))
    plan = solve(request([both], pods(1, shape(1500)), reservations, packing, daemon_sets=(agent,)))
    assert [claim.reservation_id for claim in plan.claims] == (["cr-1"] if in_slot else [None])


@pytest.mark.parametrize("packing", list(Packing))
def test_a_daemonset_on_spot_uses_no_capacity_of_on_demand_nodes(packing: Packing) -> None:
    types = [instance_type("m5.large", 2, 8, 0.1), instance_type("m5.xlarge", 4, 16, 0.2)]
    agent = daemon(shape(1000, node_selector=from_labels({names.CAPACITY_TYPE: "spot"})))
    plan = solve(request([pool("both", types)], pods(1, shape(1500)), packing=packing, daemon_sets=(agent,)))
    (claim,) = plan.claims
    assert claim.price_nano_usd_per_hour == round(0.4 * 0.2 * NANO)
    assert (claim.instance_type, claim.capacity_type) == ("m5.xlarge", "spot")
    assert set(claim.instance_types) == {"m5.large", "m5.xlarge"}  # on demand, m5.large is large enough
