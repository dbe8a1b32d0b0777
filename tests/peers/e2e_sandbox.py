"""Real Karpenter in the sandbox: client-go against the embedded API server and against a real one, the Go SDK against the
simulated AWS.

Run by `make e2e`. One Karpenter for each control plane runs through the tests in their order: everything is launched at
once, then disrupted at once, then deleted, and each test checks one part. The invariants of the simulated EC2 are checked
after every write, and a violation fails the test that waits.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.runtime.clock import RealClock
from holdfast.sim.ec2 import control
from peers import arena as arenas
from peers.arena import WITHIN_S, Arena, Json, conditions, deployment, is_true, node_class, pool

ODCR, BLOCK, LENT, SOURCE, ENDS = (f"cr-0123456789abcdef{n}" for n in range(5))
CONTROL_PLANES = ("embedded", "real")
ON_DEMAND = ["on-demand"]
EITHER = ["reserved", "on-demand"]
AT_ONCE = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}
CONSOLIDATION_INTERVAL_S = 300  # Karpenter's interval after a consolidation pass without a result (D-28)
UNDERUSED = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}


def env() -> Json:
    """Instances that boot fast, pages smaller than Karpenter requests, and throttling of the important calls."""
    soon = datetime.fromtimestamp(RealClock().now_s() + 5 * 3600, UTC)  # long before the drain of the block
    tags = {"team": "e2e"}

    def reserved(number: str, instance_type: str, total: int = 1, **more: Any) -> Json:
        where = {"instanceType": instance_type, "zone": "us-west-2a", "instanceMatchCriteria": "targeted"}
        return {"id": number, "total": total, "tags": tags, **where, **more}

    throttled = (
        "CreateFleet",
        "CreateLaunchTemplate",
        "CreateTags",
        "DescribeInstances",
        "TerminateInstances",
    )
    return {
        "pageSize": 200,
        "reservations": [
            reserved(ODCR, "m5.xlarge", 3, usedElsewhere=1),
            reserved(BLOCK, "p4d.24xlarge", type="capacity-block", end=soon.isoformat()),
            reserved(SOURCE, "m6i.large", 2) | {"tags": {}},
            reserved(LENT, "m6i.large", lentFrom=SOURCE),
            reserved(ENDS, "c5.xlarge"),
        ],
        "timings": {
            "boot": "1s", "shutdown": "1s", "slotRelease": "1s", "interruption": "90s",
            "join": "1s", "ready": "1s", "devices": "0s",
        },
        "faults": [{"type": "Throttled", "operation": name, "times": 1} for name in throttled],
    }  # fmt: skip


POOLS = {
    "reserved": pool("reserved", capacity=EITHER, types=["m5.xlarge"]),
    "spot": pool("spot", capacity=["spot"], types=["m5.large", "m5a.large", "c5.large"]),
    "block": pool("block", capacity=["reserved"], types=["p4d.24xlarge"]),
    "lent": pool("lent", capacity=["reserved"], types=["m6i.large"]),
    "ends": pool("ends", capacity=EITHER, types=["c5.xlarge"]),
    "drifts": pool("drifts", capacity=ON_DEMAND, types=["m5.large"]),
    "packs": pool("packs", capacity=ON_DEMAND, types=["m5.large", "m5.4xlarge"]),
    "empties": pool("empties", capacity=ON_DEMAND, types=["m5.large"], disruption=AT_ONCE),
}
WORK = {
    "reserved": deployment("reserved", 3, {"cpu": "2"}, apart=True),
    "spot": deployment("spot", 1, {"cpu": "1"}),
    "block": deployment("block", 1, {"nvidia.com/gpu": "8"}),
    "lent": deployment("lent", 1, {"cpu": "1"}),
    "ends": deployment("ends", 1, {"cpu": "1"}),
    "drifts": deployment("drifts", 1, {"cpu": "1"}),
    "packs": deployment("packs", 4, {"cpu": "1500m"}),
    "empties": deployment("empties", 1, {"cpu": "1"}),
}


@pytest.fixture(scope="module", params=CONTROL_PLANES)
def arena(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A sandbox with the EC2NodeClass and the NodePools of this file, all Ready."""
    folder = tmp_path_factory.mktemp(request.param)
    with arenas.opened(folder, env(), request.param) as opened:
        opened.create(node_class())
        opened.until(
            lambda: is_true(opened.get("EC2NodeClass", "default") or {}, "Ready"), "the class is ready"
        )
        opened.create(*POOLS.values())
        opened.until(
            lambda: all(is_true(one, "Ready") for one in opened.all("NodePool")), "the pools are ready"
        )
        yield opened


@pytest.fixture(scope="module")
def launched(arena: Arena) -> Arena:
    """The sandbox with all workloads running."""
    arena.create(*WORK.values())
    for name, work in WORK.items():
        arena.until_running(name, work["spec"]["replicas"])
        arena.until_settled(name, 3 if name == "reserved" else 1)
    return arena


@pytest.fixture(scope="module")
def disturbed(launched: Arena) -> dict[str, Json]:
    """Starts every kind of disruption; returns the NodeClaims before it, by NodePool."""
    before = {name: launched.claims(name)[0] for name in POOLS}
    spot_instance = launched.instance(before["spot"])
    launched.now(lambda: control.interrupt_spot(launched.sandbox.cloud.ec2.region, spot_instance.id))
    launched.aws(
        "UpdateInterruptibleCapacityReservationAllocation",
        CapacityReservationId=SOURCE,
        TargetInstanceCount=0,
    )
    launched.scale("lent", 0)  # no slot will be free for its pod
    launched.aws("CancelCapacityReservation", CapacityReservationId=ENDS)
    launched.patch("NodePool", "drifts", {"spec": {"template": {"metadata": {"labels": {"wave": "second"}}}}})
    launched.scale("empties", 0)
    return before


# --- Readiness --------------------------------------------------------------------------------------


def test_nodeclass_and_nodepools_have_all_conditions_true(arena: Arena) -> None:
    found = arena.get("EC2NodeClass", "default")
    assert found is not None
    assert set(conditions(found)) >= {
        "AMIsReady", "CapacityReservationsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady",
        "ValidationSucceeded", "Ready",
    }  # fmt: skip
    assert set(conditions(found).values()) == {"True"}
    selected = {one["id"]: one for one in found["status"]["capacityReservations"]}
    assert sorted(selected) == [ODCR, BLOCK, LENT, ENDS]
    assert (selected[BLOCK]["reservationType"], selected[LENT]["interruptible"]) == ("capacity-block", True)
    for one in arena.all("NodePool"):
        statuses = conditions(one)
        assert statuses.pop("NodeRegistrationHealthy") == "Unknown"  # nothing has registered yet
        assert set(statuses.values()) == {"True"}


def test_karpenter_reads_all_pages_of_a_list(arena: Arena) -> None:
    for operation in ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory"):
        tokens = [call.params.get("NextToken") for call in arena.calls(operation)]
        assert len([token for token in tokens if token]) > 10, operation
    (found,) = [line for line in arena.log() if line["message"] == "discovered instance types"][:1]
    assert found["count"] > 1000


# --- Launches ---------------------------------------------------------------------------------------


def of_pool(arena: Arena, operation: str, name: str) -> list[Any]:
    """The parameters of the launch calls of a NodePool, found by their tags."""
    tag = {"Key": "karpenter.sh/nodepool", "Value": name}
    calls = [call.params for call in arena.calls(operation)]
    return [p for p in calls if any(tag in spec["Tags"] for spec in p["TagSpecifications"])]


def requests(arena: Arena, name: str) -> tuple[Json, Json]:
    """The capacity options of the launch template and of the fleet of a NodePool."""
    template, fleet = of_pool(arena, "CreateLaunchTemplate", name)[0], of_pool(arena, "CreateFleet", name)[0]
    data = template["LaunchTemplateData"]
    about = {
        key: data[key] for key in ("CapacityReservationSpecification", "InstanceMarketOptions") if key in data
    }
    options = ("OnDemandOptions", "SpotOptions", "ReservedCapacityOptions")
    assert fleet["Type"] == "instant"
    fleet_options = {key: fleet[key] for key in options if key in fleet}
    target = fleet["TargetCapacitySpecification"]
    return about, {"target": target["DefaultTargetCapacityType"], **fleet_options}


def only(reservation: str) -> Json:
    return {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": reservation},
    }


LOWEST = {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}
NONE = {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}


@pytest.mark.parametrize(
    ("name", "template", "fleet"),
    [
        (
            "reserved",
            {"CapacityReservationSpecification": only(ODCR)},
            {"target": "on-demand", **LOWEST},
        ),
        ("drifts", NONE, {"target": "on-demand", **LOWEST}),
        ("spot", NONE, {"target": "spot", "SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}),
        (
            "block",
            {
                "CapacityReservationSpecification": only(BLOCK),
                "InstanceMarketOptions": {"MarketType": "capacity-block"},
            },
            {"target": "capacity-block"},
        ),
        (
            "lent",
            {
                "CapacityReservationSpecification": only(LENT),
                "InstanceMarketOptions": {"MarketType": "interruptible-capacity-reservation"},
            },
            {
                "target": "reserved-capacity",
                "ReservedCapacityOptions": {"ReservationTypes": ["interruptible-capacity-reservation"]},
            },
        ),
    ],
)
def test_launch_requests_of_each_capacity_type(
    launched: Arena, name: str, template: Json, fleet: Json
) -> None:
    assert requests(launched, name) == (template, fleet)


def test_free_slots_are_used_before_on_demand(launched: Arena) -> None:
    claims = launched.claims("reserved")
    types = sorted(claim["metadata"]["labels"]["karpenter.sh/capacity-type"] for claim in claims)
    assert types == ["on-demand", "reserved", "reserved"]
    inside = [launched.instance(claim).reservation_id for claim in claims]
    assert sorted(inside) == ["", ODCR, ODCR]
    assert launched.free_slots(ODCR) == 0


@pytest.mark.parametrize(
    ("name", "capacity", "reservation", "lifecycle"),
    [
        ("drifts", "on-demand", "", ""),
        ("spot", "spot", "", "spot"),
        ("block", "reserved", BLOCK, "capacity-block"),
        ("lent", "reserved", LENT, "interruptible-capacity-reservation"),
        ("ends", "reserved", ENDS, ""),
    ],
)
def test_labels_of_a_nodeclaim_match_its_instance(
    launched: Arena, name: str, capacity: str, reservation: str, lifecycle: str
) -> None:
    (claim,) = launched.claims(name)
    labels = claim["metadata"]["labels"]
    assert labels["karpenter.sh/capacity-type"] == capacity
    assert labels.get("karpenter.k8s.aws/capacity-reservation-id", "") == reservation
    instance = launched.instance(claim)
    assert (instance.reservation_id, instance.lifecycle) == (reservation, lifecycle)


def test_node_is_registered_and_initialized_and_its_instance_is_tagged(launched: Arena) -> None:
    for name in POOLS:
        for claim in launched.claims(name):
            assert set(conditions(claim).values()) == {"True"}, claim["metadata"]["name"]
            node = launched.get("Node", claim["status"]["nodeName"])
            assert node is not None
            labels = node["metadata"]["labels"]
            assert (labels["karpenter.sh/registered"], labels["karpenter.sh/initialized"]) == ("true", "true")
            assert not [t for t in node["spec"].get("taints", ()) if "unregistered" in t["key"]]

            def tagged(claim: Json = claim) -> bool:
                tags = launched.instance(claim).tags
                expected = (claim["metadata"]["name"], claim["status"]["nodeName"])
                return (tags.get("karpenter.sh/nodeclaim"), tags.get("Name")) == expected

            launched.until(tagged, "the instance has its tags")


def test_throttled_call_is_retried(launched: Arena) -> None:
    for operation in ("CreateFleet", "CreateLaunchTemplate", "CreateTags", "DescribeInstances"):
        assert len(launched.calls(operation, "RequestLimitExceeded")) >= 1, operation


# --- Disruption -------------------------------------------------------------------------------------


def replaced(arena: Arena, before: Json, name: str) -> Callable[[], list[Json]]:
    def new() -> list[Json]:
        found = arena.claims(name)
        settled = [one for one in found if is_true(one, "Initialized")]
        is_deleted = before["metadata"]["uid"] not in [one["metadata"]["uid"] for one in found]
        return settled if is_deleted and len(found) == 1 and settled else []

    return new


def test_interrupted_spot_node_is_replaced(launched: Arena, disturbed: dict[str, Json]) -> None:
    launched.until(replaced(launched, disturbed["spot"], "spot"), "another spot node")
    launched.until_running("spot", 1)
    assert "EC2 Spot Instance Interruption Warning" not in queue(launched)


def test_node_in_a_reclaimed_interruptible_reservation_is_drained_before_the_reclaim(
    launched: Arena, disturbed: dict[str, Json]
) -> None:
    before_claim = disturbed["lent"]
    launched.until(
        lambda: (
            before_claim["metadata"]["uid"] not in [one["metadata"]["uid"] for one in launched.claims("lent")]
        ),
        "the node in the lent slot is gone",
    )
    launched.until(lambda: launched.free_slots(SOURCE) == 2, "both slots are back where they came from")


def test_drifted_node_is_replaced(launched: Arena, disturbed: dict[str, Json]) -> None:
    (after,) = launched.until(replaced(launched, disturbed["drifts"], "drifts"), "a node of the new template")
    assert after["metadata"]["labels"]["wave"] == "second"
    launched.until_running("drifts", 1)


@pytest.mark.usefixtures("disturbed")
def test_empty_node_is_deleted(launched: Arena) -> None:
    launched.until_empty("empties")
    launched.until(lambda: not launched.instances("empties"), "its instance is terminated")


def test_underutilized_node_is_replaced_by_a_cheaper_one(launched: Arena, disturbed: dict[str, Json]) -> None:
    before_claim = disturbed["packs"]
    launched.scale("packs", 1)
    launched.until_running("packs", 1)
    # Only now, and with a long timeout: Karpenter skips a node that it could not consolidate for five minutes.
    launched.patch("NodePool", "packs", {"spec": {"disruption": UNDERUSED}})
    assert before_claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m5.4xlarge"
    (after,) = launched.until(
        replaced(launched, before_claim, "packs"), "a smaller node", CONSOLIDATION_INTERVAL_S + WITHIN_S
    )
    assert after["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m5.large"
    launched.until_running("packs", 1)


def test_node_of_a_cancelled_reservation_becomes_on_demand(
    launched: Arena, disturbed: dict[str, Json]
) -> None:
    before_claim = disturbed["ends"]

    def relabelled() -> bool:
        labels = [one["metadata"]["labels"] for one in launched.claims("ends")]
        return [one["karpenter.sh/capacity-type"] for one in labels] == ["on-demand"]

    launched.until(relabelled, "the claim says on-demand")
    (claim,) = launched.claims("ends")
    assert claim["metadata"]["uid"] == before_claim["metadata"]["uid"]
    assert "karpenter.k8s.aws/capacity-reservation-id" not in claim["metadata"]["labels"]
    (node,) = launched.nodes("ends")
    assert node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "on-demand"
    assert launched.instance(claim).state == "running"
    assert len(launched.running("ends")) == 1


# --- Deletion ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("disturbed")
def test_all_objects_can_be_deleted_and_all_slots_are_free_again(launched: Arena) -> None:
    for name in WORK:
        launched.delete("Deployment", name)
    for name in POOLS:
        launched.delete("NodePool", name)
    launched.until(lambda: not launched.all("NodeClaim"), "no claim is left")
    launched.until(lambda: not any(launched.instances(name) for name in POOLS), "no instance is left")
    launched.until(
        lambda: (launched.free_slots(ODCR), launched.free_slots(BLOCK)) == (2, 1), "slots are free"
    )
    launched.delete("EC2NodeClass", "default")
    launched.until(lambda: not launched.all("EC2NodeClass"), "the class is gone")
    assert launched.calls("DeleteInstanceProfile")
    assert not launched.all("Node")


@pytest.mark.usefixtures("disturbed")
def test_karpenter_makes_no_unknown_calls_and_decodes_every_response(launched: Arena) -> None:
    cloud = launched.sandbox.cloud
    launched.now(cloud.ec2.check_all)
    launched.now(launched.check)
    assert launched.now(cloud.endpoint.unknown_actions) == {}
    assert [line for line in launched.log() if is_unexpected(line)] == []


# Errors that Karpenter logs on either control plane although the sandbox works correctly.
EXPECTED = (
    # A NodeClaim that is being deleted after its NodePool: Karpenter retries the counting of the NodePool until then.
    re.compile(r'NodePool\.karpenter\.sh "\w+" not found \(nodeclaim='),
    # A NodePool that has just changed, and whose conditions are of its last generation.
    re.compile(r"^ignoring nodepool, not ready"),
)


def is_unexpected(line: Json) -> bool:
    texts = (line.get("error", ""), line["message"])
    if line["level"] in ("DEBUG", "INFO"):
        return "deserialization" in texts[0]  # a response that the Go SDK cannot decode
    return not any(known.search(text) for known in EXPECTED for text in texts)


def queue(arena: Arena) -> list[str]:
    """The messages that are still in the queue."""
    return arena.now(lambda: arena.sandbox.cloud.sqs.dump().decode(errors="replace")).split('"')
