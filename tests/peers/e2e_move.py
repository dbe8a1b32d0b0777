"""A cluster moves from the real Karpenter to Holdfast and back, with nodes in every state.

Run by `make e2e`, and by `make e2e-move`, which watches each direction for fifteen minutes and prints every field that
differs. The tests run in their order: Karpenter launches the nodes, Holdfast takes over and is watched, Holdfast
continues what Karpenter began and launches nodes of its own, Karpenter takes over and is watched.
"""

import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.runtime.clock import RealClock
from holdfast.sim.ec2 import faults
from peers import arena as arenas
from peers import crd_files, moving
from peers.arena import Arena, Json, deployment, is_true, node_class, pool
from peers.moving import HOLDFAST, KARPENTER, Fleet, Observed

WATCH_S = float(os.environ.get("WATCH", "30"))
THROTTLED = faults.Throttled(operation="CreateFleet")
LOST = faults.Lost(operation="CreateFleet")
ODCR, BLOCK, SOURCE, LENT = (f"cr-0123456789abcdef{n}" for n in range(4))
EITHER = ["reserved", "on-demand"]
ON_DEMAND = ["on-demand"]
UNDERUSED = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10s"}
NEVER = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
BLOCKED = {**NEVER, "budgets": [{"nodes": "0"}]}
# NodePools whose NodeClaim is launched during the watch; or deleted by either program, fifteen minutes after its launch,
# because its node does not join.
TEMPORARY = {"launching", "unregistered"} if WATCH_S > 400 else {"launching"}
# Pods by NodePool, each on a node of its own.
REPLICAS = {
    "reserved": 3, "spot": 1, "block": 1, "lent": 1, "plain": 2, "drifted": 1, "terminating": 1, "second": 1,
}  # fmt: skip
TABLE = Path(__file__).parents[2] / "docs/from-karpenter.md"


def world() -> Json:
    later = datetime.fromtimestamp(RealClock().now_s() + 5 * 3600, UTC)

    def reserved(number: str, instance_type: str, total: int = 1, **more: Any) -> Json:
        where = {"instanceType": instance_type, "zone": "us-west-2a", "instanceMatchCriteria": "targeted"}
        return {"id": number, "total": total, "tags": {"team": "e2e"}, **where, **more}

    return {
        "reservations": [
            reserved(ODCR, "m5.xlarge", 3, usedElsewhere=1),
            reserved(BLOCK, "p4d.24xlarge", type="capacity-block", end=later.isoformat()),
            reserved(SOURCE, "m6i.large", 2) | {"tags": {}},
            reserved(LENT, "m6i.large", lentFrom=SOURCE),
        ],
        "timings": {
            "boot": "1s", "shutdown": "1s", "slotRelease": "1s", "join": "1s", "ready": "1s", "devices": "0s",
        },
    }  # fmt: skip


def pools() -> list[Json]:
    found = [
        pool("reserved", capacity=EITHER, types=["m5.xlarge"], disruption=UNDERUSED),
        pool("spot", capacity=["spot"], types=["m5.large", "m5a.large", "c5.large"], disruption=UNDERUSED),
        pool("block", capacity=["reserved"], types=["p4d.24xlarge"], disruption=UNDERUSED),
        pool("lent", capacity=["reserved"], types=["m6i.large"], disruption=UNDERUSED),
        pool("plain", capacity=ON_DEMAND, types=["m5.large"], disruption=UNDERUSED),
        pool("drifted", capacity=ON_DEMAND, types=["m5.large"], disruption=BLOCKED),
        pool("terminating", capacity=ON_DEMAND, types=["m5.large"], disruption=NEVER),
        pool("unregistered", capacity=ON_DEMAND, types=["m5.large"], disruption=NEVER),
        pool("launching", capacity=ON_DEMAND, types=["c5.xlarge"], disruption=NEVER),
        pool("second", capacity=ON_DEMAND, types=["m5.large", "m5.xlarge"], disruption=UNDERUSED),
    ]
    for one in found:
        template = one["spec"]["template"]["spec"]
        if one["metadata"]["name"] == "terminating":
            del template["terminationGracePeriod"]  # the PodDisruptionBudget blocks the drain for ever
        if one["metadata"]["name"] in ("second", "unregistered"):
            template["nodeClassRef"]["name"] = one["metadata"]["name"]
    return found


def classes(image: str) -> list[Json]:
    """The instances of the last one run a script and no kubelet: they never join."""
    second = node_class(
        "second",
        amiFamily="AL2023",
        userData="#!/bin/sh\necho second\n",
        tags={"team": "second", "cost-center": "42"},
        kubelet={
            "maxPods": 50,
            "systemReserved": {"cpu": "100m"},
            "evictionHard": {"memory.available": "5%"},
        },
        blockDeviceMappings=[
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi", "volumeType": "gp3", "encrypted": True}}
        ],
        metadataOptions={"httpTokens": "required", "httpPutResponseHopLimit": 2},
        detailedMonitoring=True,
    )
    mute = {"amiFamily": "Custom", "userData": "#!/bin/sh\n", "amiSelectorTerms": [{"id": image}]}
    return [node_class(), second, node_class("unregistered", **mute)]


def budget(app: str, at_least: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app},
        "spec": {"minAvailable": at_least, "selector": {"matchLabels": {"app": app}}},
    }


def workload(name: str, replicas: int) -> Json:
    requests = {"nvidia.com/gpu": "8"} if name == "block" else {"cpu": "1200m"}
    return deployment(name, replicas, requests, apart=True)


def daemon() -> Json:
    labels = {"app": "agent"}
    spec = {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "50m"}}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Nodes that the real Karpenter launched, with Karpenter's own CRDs."""
    folder = tmp_path_factory.mktemp("move")
    (folder / "sandbox").mkdir()
    with (
        arenas.opened(folder / "sandbox", world(), "real", karpenter=False, crds=False) as arena,
        moving.stopped_at_end(Fleet(arena, folder)) as opened,
    ):
        opened.apply_crds(crd_files.of_provider())
        opened.start(KARPENTER)
        arena.create(*classes(arena.now(lambda: arena.sandbox.cloud.ec2.region.setup.images[0].id)))
        arena.until(
            lambda: all(is_true(one, "Ready") for one in arena.all("EC2NodeClass")), "the classes are ready"
        )
        arena.create(*pools(), daemon())
        arena.until(
            lambda: all(is_true(one, "Ready") for one in arena.all("NodePool")), "the pools are ready"
        )
        arena.create(budget("plain", 2), budget("terminating", 1))
        arena.create(*(workload(name, count) for name, count in REPLICAS.items()))
        for name, count in REPLICAS.items():
            arena.until_running(name, count)
            arena.until_settled(name, count)
        yield opened


def make_states(fleet: Fleet, wave: str) -> None:
    """A drifted node, one that drains, one that never registers, and a NodeClaim that is not launched."""
    arena = fleet.arena
    region = arena.sandbox.cloud.ec2.region
    arena.patch("NodePool", "drifted", {"spec": {"template": {"metadata": {"labels": {"wave": wave}}}}})
    arena.until(lambda: is_true(arena.claims("drifted")[0], "Drifted"), "the node is drifted")
    (deleted,) = arena.claims("terminating")
    arena.delete("NodeClaim", deleted["metadata"]["name"])
    arena.until(lambda: any(map(moving.is_cordoned, arena.nodes("terminating"))), "the node drains")
    arena.until(lambda: replacement_is_ready(arena, "terminating"), "the node for its pod is ready")
    arena.create(workload("unregistered", 1))
    arena.until(
        lambda: [is_true(one, "Launched") for one in arena.claims("unregistered")] == [True],
        "the instance runs without a node",
    )
    # Karpenter counts every five seconds, and not while a NodeClaim waits for its launch.
    arena.until(lambda: nodes_in_status(arena, "unregistered") == 1, "the instance is counted")
    arena.now(lambda: region.faults.add(THROTTLED))
    arena.create(workload("launching", 1))
    # The autoscaler adds the finalizer before the launch, after it has created the NodeClaim.
    arena.until(
        lambda: ["finalizers" in one["metadata"] for one in arena.claims("launching")] == [True],
        "a NodeClaim waits for its launch",
    )


def nodes_in_status(arena: Arena, name: str) -> int:
    found = arena.get("NodePool", name)
    assert found is not None
    return int(found["status"].get("nodes", 0))


def replacement_is_ready(arena: Arena, name: str) -> bool:
    found = [one for one in arena.claims(name) if "deletionTimestamp" not in one["metadata"]]
    return [is_true(one, "Initialized") for one in found] == [True]


def finish_states(fleet: Fleet, *, nodes_max: int = 1) -> None:
    """Removes what blocks the drain, and expects the drain and the launch to be completed. `nodes_max`: for the pod of
    the drained node. Its replacement is ready, but Karpenter may launch another one before kube-scheduler binds the pod."""
    arena = fleet.arena
    (draining,) = [one for one in arena.claims("terminating") if "deletionTimestamp" in one["metadata"]]
    ids = fleet.instances()
    arena.delete("PodDisruptionBudget", "terminating")
    arena.until_running("launching", 1)
    arena.until_settled("launching", 1)
    assert len(arena.instances("launching")) == 1
    arena.until(
        lambda: arena.get("NodeClaim", draining["metadata"]["name"]) is None, "the drain is completed"
    )
    arena.until_running("terminating", 1)
    arena.until(
        lambda: all(map(is_initialized, arena.claims("terminating"))), "all nodes of terminating are ready"
    )
    assert 1 <= len(arena.claims("terminating")) <= nodes_max
    ended = draining["status"]["providerID"].rpartition("/")[2]
    temporary = {one.id for one in fleet.launched("unregistered")}
    assert set(ids) - set(fleet.instances()) - temporary == {ended}
    arena.delete("Deployment", "launching")
    arena.delete("Deployment", "unregistered")
    for name in ("launching", "unregistered"):
        arena.until(lambda name=name: not arena.running(name), f"no pod of {name} is left")  # type: ignore[misc]
        for claim in arena.claims(name):
            arena.delete("NodeClaim", claim["metadata"]["name"])
        arena.until_empty(name)


def is_initialized(claim: Json) -> bool:
    return is_true(claim, "Initialized") and "deletionTimestamp" not in claim["metadata"]


class Moved(NamedTuple):
    """The cluster before and after the other program took over."""

    instances: set[str]
    draining: set[str]  # nodes that were cordoned before
    before: dict[str, Json]
    after: dict[str, Json]
    observed: Observed


def documents(fleet: Fleet) -> dict[str, Json]:
    """All objects but those of NodeClaims that are launched or deleted meanwhile, by either program."""
    ids = {one.id for name in TEMPORARY for one in fleet.launched(name)}
    nodes = {node["metadata"]["name"] for name in TEMPORARY for node in fleet.arena.nodes(name)}

    def is_temporary(key: str) -> bool:
        name = key.partition("/")[2]
        return name in ids | nodes or name.partition("-")[0] in TEMPORARY

    return {key: value for key, value in fleet.documents().items() if not is_temporary(key)}


def moved(fleet: Fleet, name: str) -> Moved:
    instances, before = set(fleet.instances()), documents(fleet)
    draining = {one["metadata"]["name"] for one in fleet.arena.all("Node") if moving.is_cordoned(one)}
    fleet.move(name)
    observed = fleet.watch(WATCH_S)
    found = Moved(instances, draining, before, documents(fleet), observed)
    if "WATCH" in os.environ:
        sys.stdout.write(report(name, found))
    return found


def report(name: str, found: Moved) -> str:
    fields = [
        f"{what} ({len(where)}), such as {where[0][:200]}"
        for what, where in moving.changed(found.before, found.after).items()
    ]
    about = f"to {name}: {len(found.instances)} instances, watched for {WATCH_S:.0f} s"
    return "\n".join(["", about, *fields, str(found.observed), ""])


def check_kept(fleet: Fleet, found: Moved) -> None:
    """No instance, no pod and no node changed, except the node that was drained before and, in a long watch, the instance
    that does not join."""
    observed = found.observed
    temporary = {one.id for name in TEMPORARY - {"launching"} for one in fleet.launched(name)}
    assert len(found.instances) >= 12
    assert observed.terminated <= temporary
    assert observed.launched <= temporary
    assert set(fleet.instances()) - temporary == found.instances - temporary
    assert observed.gone_pods == {}
    assert observed.cordoned == found.draining
    lasting = {
        name for name in observed.deleted_claims if not name.startswith(("unregistered-", "launching-"))
    }
    assert len(lasting) == len(found.draining) == 1
    assert observed.deleted_claims == lasting or temporary


def documented(heading: str) -> list[re.Pattern[str]]:
    """The fields in a table of the page about the move; a star stands for anything."""
    section = TABLE.read_text(encoding="utf-8").split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| (\w+) \| `([^`]+)` \| ([\w, ]+) \|", section, re.MULTILINE)
    return [
        re.compile(re.escape(f"{kind} {path}: ").replace(r"\*", ".*") + f"({'|'.join(what.split(', '))})")
        for kind, path, what in rows
    ]


def undocumented(found: Moved, heading: str) -> list[str]:
    known = documented(heading)
    assert known
    return [
        f"{what}: {where[0]}"
        for what, where in moving.changed(found.before, found.after).items()
        if not any(one.fullmatch(what) for one in known)
    ]


# --- From Karpenter to Holdfast -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def predicted(fleet: Fleet) -> dict[str, list[Json]]:
    """The results of `holdfast adopt --check` while Karpenter runs, by object."""
    make_states(fleet, "second")
    before = fleet.documents()
    results = fleet.check_adoption(seconds=30)
    # Karpenter goes on: it writes status, and launch templates for the NodeClaim that is not launched.
    written = moving.changed(before, fleet.documents())
    assert [what for what in written if "status" not in what and "LaunchTemplate" not in what] == []
    found: dict[str, list[Json]] = {}
    for one in results:
        found.setdefault(one["object"], []).append(one)
    return found


def test_check_predicts_what_holdfast_does_to_each_object(
    fleet: Fleet, predicted: dict[str, list[Json]]
) -> None:
    """The tests below show that it does just that."""
    assert [one for results in predicted.values() for one in results if one["level"] == "error"] == []
    for claim in fleet.arena.all("NodeClaim"):
        name, pool_name = claim["metadata"]["name"], claim["metadata"]["labels"]["karpenter.sh/nodepool"]
        (one,) = predicted[f"NodeClaim/{name}"]
        expected = {
            "drifted": "is drifted (NodePoolDrifted); Holdfast replaces it when the budgets",
            "launching": "is not launched yet",
            "unregistered": "is launched and its Node is not registered",
        }.get(pool_name, "is kept, with instance i-")
        if "deletionTimestamp" in claim["metadata"]:
            expected = "is terminating; Holdfast continues"
        assert one["found"].startswith(expected)
    for pool_document in fleet.arena.all("NodePool"):
        assert predicted[f"NodePool/{pool_document['metadata']['name']}"][0]["found"] == "is used as it is"


@pytest.fixture(scope="module")
def to_holdfast(fleet: Fleet, predicted: dict[str, list[Json]]) -> Moved:
    """Karpenter is killed after the launch of the last NodeClaim, before it has written the instance to it."""
    assert predicted
    arena, region = fleet.arena, fleet.arena.sandbox.cloud.ec2.region

    def lose_answers() -> None:
        region.faults.add(LOST)
        region.faults.remove(THROTTLED)

    arena.now(lose_answers)
    arena.until(lambda: arena.instances("launching"), "Karpenter launches an instance and gets no answer")
    fleet.stop(kill=True)
    arena.now(lambda: region.faults.remove(LOST))
    assert [one.get("status", {}).get("providerID") for one in arena.claims("launching")] == [None]
    return moved(fleet, HOLDFAST)


def test_holdfast_launches_nothing_twice(fleet: Fleet, to_holdfast: Moved) -> None:
    """The NodeClaim takes the instance that Karpenter had launched for it."""
    (claim,) = fleet.arena.claims("launching")
    assert fleet.arena.instance(claim).id in to_holdfast.instances
    assert {one.id for one in fleet.launched("launching")} <= to_holdfast.instances
    fleet.arena.until_running("launching", 1)


def test_holdfast_keeps_every_node_of_karpenter(fleet: Fleet, to_holdfast: Moved) -> None:
    check_kept(fleet, to_holdfast)


def test_every_field_that_differs_is_documented(to_holdfast: Moved) -> None:
    assert undocumented(to_holdfast, "From Karpenter to Holdfast") == []


@pytest.mark.usefixtures("to_holdfast")
def test_holdfast_continues_what_karpenter_began(fleet: Fleet) -> None:
    finish_states(fleet)


# --- And back -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def to_karpenter(fleet: Fleet, to_holdfast: Moved) -> Moved:
    """Holdfast launches nodes of each kind before: some run beside those that Karpenter launched."""
    assert to_holdfast.instances
    arena = fleet.arena
    arena.create(budget("terminating", 1))
    for name in ("spot", "plain", "second"):
        arena.scale(name, REPLICAS[name] + 1)
    for name in ("block", "lent", "reserved"):  # a slot is free again, and a new node takes it
        claims = [
            c
            for c in arena.claims(name)
            if c["metadata"]["labels"]["karpenter.sh/capacity-type"] == "reserved"
        ]
        arena.delete("NodeClaim", claims[0]["metadata"]["name"])
    for name, count in REPLICAS.items():
        wanted = count + (name in ("spot", "plain", "second"))
        arena.until_running(name, wanted)
        arena.until_settled(name, wanted)
    make_states(fleet, "third")
    return moved(fleet, KARPENTER)


def test_karpenter_keeps_every_node_of_holdfast(fleet: Fleet, to_karpenter: Moved) -> None:
    check_kept(fleet, to_karpenter)


def test_every_field_that_differs_on_the_way_back_is_documented(to_karpenter: Moved) -> None:
    assert undocumented(to_karpenter, "From Holdfast to Karpenter") == []


@pytest.mark.usefixtures("to_karpenter")
def test_karpenter_continues_what_holdfast_began(fleet: Fleet) -> None:
    fleet.arena.now(lambda: fleet.arena.sandbox.cloud.ec2.region.faults.remove(THROTTLED))
    finish_states(fleet, nodes_max=2)
