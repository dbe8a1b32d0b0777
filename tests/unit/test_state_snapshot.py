"""A snapshot has all objects sorted by name; pods that cannot be planned are returned separately."""

import dataclasses
import random

import pytest

from builders import nodepool
from holdfast import names
from holdfast.cloud.aws.nodeclass.preflight import WELL_KNOWN_LABELS
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirements, resources
from holdfast.model.offerings import InstanceType
from holdfast.model.reasons import ReasonCode
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import CloudLabels
from holdfast.state.conversion import pod_states, snapshot
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pods import PodConverter
from holdfast.state.conversion.snapshot import Cluster, PendingDecisions, SnapshotAndRejected, Supply
from objects import NOW_S, budget, container, csi_node, daemonset, node, nodeclaim, owned, pod
from planner_builders import fake_types

LARGE = InstanceType(
    "m5.large",
    requirements.NO_REQUIREMENTS,
    resources.NOTHING,
    resources.NOTHING,
    (),
    volume_limits=(("ebs.csi.aws.com", 25),),
)
OF_POOL = {"labels": {names.NODEPOOL: "b", names.INSTANCE_TYPE: "m5.large"}}
CLUSTER = Cluster(
    node_pools=(nodepool("b"), nodepool("a"), nodepool("unready")),
    node_claims=(
        nodeclaim("c2"),
        nodeclaim("c1", OF_POOL, {"providerID": "cloud:///i", "capacity": {"cpu": "2"}}),
    ),
    nodes=(node("n2", OF_POOL), node("n1")),
    pods=(
        pod("z"),
        pod("y"),
        pod("x", nodeName="n1"),
        pod("w", nodeName="n1"),
        pod("done", status={"phase": "Succeeded"}, nodeName="n1"),
        pod("lost", nodeName="nowhere"),
        pod("wrong", nodeSelector={names.HOSTNAME: "n1"}),
    ),
    daemon_sets=(daemonset("logs"), daemonset("dns")),
    budgets=(budget("two"), budget("one")),
    csi_nodes=(csi_node("n1", ebs_csi_aws_com=11),),
)
SUPPLY = Supply(
    labels=CloudLabels(WELL_KNOWN_LABELS),
    instance_types={"a": (), "b": (LARGE,)},
    reservations=(
        Reservation("cr-2", "default", "m5.large", "z", "o", 1, 1),
        Reservation("cr-1", "default", "m5.large", "z", "o", 1, 1),
    ),
    counts_read_s=NOW_S,
)


def snapshot_of(
    cluster: Cluster = CLUSTER, decisions: PendingDecisions = snapshot.NO_DECISIONS
) -> SnapshotAndRejected:
    converter = PodConverter(LabelRules(WELL_KNOWN_LABELS))
    return snapshot.build(
        cluster, SUPPLY, converter, now_s=NOW_S, decisions=decisions, is_pending=pod_states.awaits_node
    )


def test_all_objects_are_in_the_snapshot_sorted_by_name() -> None:
    got = snapshot_of().snapshot
    assert [p.name for p in got.node_pools] == ["a", "b"]
    assert [n.name for n in got.nodes] == ["c1", "n1", "n2"]
    assert [c.name for c in got.claims] == ["c1", "c2"]
    assert [p.name for p in got.pending] == ["y", "z"]
    assert [p.name for p in got.nodes[1].pods] == ["w", "x"]
    assert [d.name for d in got.daemon_sets] == ["dns", "logs"]
    assert [b.name for b in got.budgets] == ["one", "two"]
    assert [r.id for r in got.reservations] == ["cr-1", "cr-2"]
    assert (got.taken_s, got.counts_read_s) == (NOW_S, NOW_S)


@pytest.mark.fact("ST-9")
def test_a_pod_is_listed_on_the_node_that_it_is_bound_to_until_it_ends() -> None:
    pods_by_node = {node.name: [pod.full_name for pod in node.pods] for node in snapshot_of().snapshot.nodes}
    # `done` has ended, and the node of `lost` does not exist.
    assert pods_by_node["n1"] == ["default/w", "default/x"]
    assert all(not pods for name, pods in pods_by_node.items() if name != "n1")
    again = pod("w", {"uid": "another"}, nodeName="n2")  # the same name, another uid
    other_pods = tuple(each for each in CLUSTER.pods if each.metadata.name != "w")
    moved = snapshot_of(dataclasses.replace(CLUSTER, pods=(*other_pods, again))).snapshot.nodes
    assert {node.name: [pod.full_name for pod in node.pods] for node in moved if node.pods} == {
        "n1": ["default/x"],
        "n2": ["default/w"],
    }


@pytest.mark.fact("ST-8")
def test_free_resources_of_a_node_exclude_the_requests_of_its_pods() -> None:
    ported = container(cpu="1") | {"ports": [{"containerPort": 80, "hostPort": 8080}]}
    cluster = Cluster(
        nodes=(node("n1", status={"allocatable": {"cpu": "4", "pods": "10"}}),),
        pods=(
            pod("web", nodeName="n1", containers=[ported]),
            pod("agent", owned("DaemonSet", "ds"), nodeName="n1", containers=[container(cpu="500m")]),
        ),
    )
    (view,) = snapshot_of(cluster).snapshot.nodes
    assert view.free["cpu"] == 2500
    assert view.used_by_daemons["cpu"] == 500
    assert [port.port for shape in view.shapes for port in shape.host_ports] == [8080]


def test_a_pod_that_cannot_be_planned_is_rejected_with_its_reasons() -> None:
    (rejected,) = snapshot_of().rejected
    assert rejected.pod == "default/wrong"
    assert [reason.code for reason in rejected.reasons] == [ReasonCode.INVALID]


def test_nodes_have_volume_limits_and_nodepools_have_their_usage() -> None:
    got = snapshot_of().snapshot
    assert [dict(n.volume_limits) for n in got.nodes] == [
        {"ebs.csi.aws.com": 25},
        {"ebs.csi.aws.com": 11},
        {"ebs.csi.aws.com": 25},
    ]
    assert got.node_pools[1].used == resources.of({"cpu": 6000, "nodes": 2})


def test_pending_decisions_apply_before_the_api_server_has_them() -> None:
    got = snapshot_of(
        decisions=PendingDecisions(deleting=frozenset({"n2"}), nominated=frozenset({"n1"}))
    ).snapshot
    assert [(n.deleting, n.nominated) for n in got.nodes] == [(False, False), (False, True), (True, False)]
    assert got.node_pools[1].used == resources.of({"cpu": 2000, "nodes": 1})


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_objects_does_not_matter(seed: int) -> None:
    rng = random.Random(seed)

    def shuffled(name: str) -> object:
        items = list(getattr(CLUSTER, name))
        rng.shuffle(items)
        return tuple(items)

    mixed = Cluster(**{name: shuffled(name) for name in Cluster.__slots__})  # type: ignore[arg-type]
    assert snapshot_of(mixed) == snapshot_of()


@pytest.mark.fact("S-12")
def test_a_nodepool_whose_instance_types_could_not_be_listed_is_left_out() -> None:
    """A NodePool with an empty list stays, so that the events of its pods can name it."""
    pending = Cluster(node_pools=(nodepool("a"), nodepool("b"), nodepool("broken")), pods=(pod("p"),))
    supply = Supply(
        labels=CloudLabels(WELL_KNOWN_LABELS),
        instance_types={"a": fake_types(3), "b": ()},
        counts_read_s=NOW_S,
    )
    converter = PodConverter(LabelRules(WELL_KNOWN_LABELS))
    result = snapshot.build(pending, supply, converter, now_s=NOW_S, is_pending=pod_states.awaits_node)
    assert [one.name for one in result.snapshot.node_pools] == ["a", "b"]
    (claim,) = solve(SolveRequest(result.snapshot)).claims
    assert claim.node_pool == "a"
