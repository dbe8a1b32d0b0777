"""Real Karpenter drives our world: client-go against the embedded API server and against a real one, the Go SDK against
the simulated AWS.

Run by `make e2e`. One Karpenter for each control plane lives through the tests in the order they stand in: everything is
launched at once, then disturbed at once, then deleted, and each test looks at one part of it. The checkers of the
simulated EC2 run after every write, and whatever they find fails the test that waits for it.
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
LOOKS_AGAIN_S = 300  # after a look that found nothing, whatever happens (D-28)
UNDERUSED = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}


def world() -> Json:
    """Quick machines, pages smaller than Karpenter asks for, and throttling of every call that matters."""
    soon = datetime.fromtimestamp(RealClock().now_s() + 5 * 3600, UTC)  # well before the block's drain
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
    """With the class and the pools of this page, ready."""
    folder = tmp_path_factory.mktemp(request.param)
    with arenas.opened(folder, world(), request.param) as opened:
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
    """With everything running."""
    arena.create(*WORK.values())
    for name, work in WORK.items():
        arena.until_running(name, work["spec"]["replicas"])
        arena.until_settled(name, 3 if name == "reserved" else 1)
    return arena


@pytest.fixture(scope="module")
def disturbed(launched: Arena) -> dict[str, Json]:
    """What can happen to a node has begun to happen; the claims as they were before, by pool."""
    before = {name: launched.claims(name)[0] for name in POOLS}
    doomed = launched.instance(before["spot"])
    launched.now(lambda: control.interrupt_spot(launched.world.cloud.ec2.world, doomed.id))
    launched.aws(
        "UpdateInterruptibleCapacityReservationAllocation",
        CapacityReservationId=SOURCE,
        TargetInstanceCount=0,
    )
    launched.scale("lent", 0)  # there will be no slot for its pod
    launched.aws("CancelCapacityReservation", CapacityReservationId=ENDS)
    launched.patch("NodePool", "drifts", {"spec": {"template": {"metadata": {"labels": {"wave": "second"}}}}})
    launched.scale("empties", 0)
    return before


# --- To ready ---------------------------------------------------------------------------------------


def test_a_class_and_its_pools_are_ready_in_every_respect(arena: Arena) -> None:
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
        told = conditions(one)
        assert told.pop("NodeRegistrationHealthy") == "Unknown"  # nothing has registered yet
        assert set(told.values()) == {"True"}


def test_lists_are_read_to_the_last_of_small_pages(arena: Arena) -> None:
    for operation in ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory"):
        tokens = [call.params.get("NextToken") for call in arena.calls(operation)]
        assert len([token for token in tokens if token]) > 10, operation
    (found,) = [line for line in arena.log() if line["message"] == "discovered instance types"][:1]
    assert found["count"] > 1000


# --- Launches ---------------------------------------------------------------------------------------


def of_pool(arena: Arena, operation: str, name: str) -> list[Any]:
    """The parameters of the calls that launch for a pool, by the tags they carry."""
    tag = {"Key": "karpenter.sh/nodepool", "Value": name}
    calls = [call.params for call in arena.calls(operation)]
    return [p for p in calls if any(tag in spec["Tags"] for spec in p["TagSpecifications"])]


def requests(arena: Arena, name: str) -> tuple[Json, Json]:
    """What the launch template and the fleet of a pool's launch say of capacity."""
    template, fleet = of_pool(arena, "CreateLaunchTemplate", name)[0], of_pool(arena, "CreateFleet", name)[0]
    data = template["LaunchTemplateData"]
    about = {
        key: data[key] for key in ("CapacityReservationSpecification", "InstanceMarketOptions") if key in data
    }
    options = ("OnDemandOptions", "SpotOptions", "ReservedCapacityOptions")
    assert fleet["Type"] == "instant"
    asked = {key: fleet[key] for key in options if key in fleet}
    target = fleet["TargetCapacitySpecification"]
    return about, {"target": target["DefaultTargetCapacityType"], **asked}


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
def test_each_kind_of_capacity_is_asked_for_as_karpenter_asks(
    launched: Arena, name: str, template: Json, fleet: Json
) -> None:
    assert requests(launched, name) == (template, fleet)


def test_slots_are_taken_first_and_the_rest_is_bought(launched: Arena) -> None:
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
def test_a_claim_says_what_its_instance_is(
    launched: Arena, name: str, capacity: str, reservation: str, lifecycle: str
) -> None:
    (claim,) = launched.claims(name)
    labels = claim["metadata"]["labels"]
    assert labels["karpenter.sh/capacity-type"] == capacity
    assert labels.get("karpenter.k8s.aws/capacity-reservation-id", "") == reservation
    instance = launched.instance(claim)
    assert (instance.reservation_id, instance.lifecycle) == (reservation, lifecycle)


def test_a_node_is_registered_initialized_and_tagged(launched: Arena) -> None:
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
                mine = (claim["metadata"]["name"], claim["status"]["nodeName"])
                return (tags.get("karpenter.sh/nodeclaim"), tags.get("Name")) == mine

            launched.until(tagged, "the instance has its tags")


def test_a_throttled_call_is_made_again(launched: Arena) -> None:
    for operation in ("CreateFleet", "CreateLaunchTemplate", "CreateTags", "DescribeInstances"):
        assert len(launched.calls(operation, "RequestLimitExceeded")) >= 1, operation


# --- What happens to nodes --------------------------------------------------------------------------


def replaced(arena: Arena, before: Json, name: str) -> Callable[[], list[Json]]:
    def new() -> list[Json]:
        found = arena.claims(name)
        settled = [one for one in found if is_true(one, "Initialized")]
        gone = before["metadata"]["uid"] not in [one["metadata"]["uid"] for one in found]
        return settled if gone and len(found) == 1 and settled else []

    return new


def test_a_spot_node_that_is_interrupted_is_replaced(launched: Arena, disturbed: dict[str, Json]) -> None:
    launched.until(replaced(launched, disturbed["spot"], "spot"), "another spot node")
    launched.until_running("spot", 1)
    assert "EC2 Spot Instance Interruption Warning" not in queue(launched)


def test_lent_slots_that_are_taken_back_are_left_ahead_of_time(
    launched: Arena, disturbed: dict[str, Json]
) -> None:
    was = disturbed["lent"]
    launched.until(
        lambda: was["metadata"]["uid"] not in [one["metadata"]["uid"] for one in launched.claims("lent")],
        "the node in the lent slot is gone",
    )
    launched.until(lambda: launched.free_slots(SOURCE) == 2, "both slots are back where they came from")


def test_a_drifted_node_is_replaced(launched: Arena, disturbed: dict[str, Json]) -> None:
    (after,) = launched.until(replaced(launched, disturbed["drifts"], "drifts"), "a node of the new template")
    assert after["metadata"]["labels"]["wave"] == "second"
    launched.until_running("drifts", 1)


@pytest.mark.usefixtures("disturbed")
def test_an_empty_node_is_removed(launched: Arena) -> None:
    launched.until_empty("empties")
    launched.until(lambda: not launched.instances("empties"), "its instance is terminated")


def test_a_node_that_is_too_large_is_replaced_by_a_cheaper_one(
    launched: Arena, disturbed: dict[str, Json]
) -> None:
    was = disturbed["packs"]
    launched.scale("packs", 1)
    launched.until_running("packs", 1)
    # Only now, and with patience: a node that Karpenter found no way for, it does not look at again for five minutes.
    launched.patch("NodePool", "packs", {"spec": {"disruption": UNDERUSED}})
    assert was["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m5.4xlarge"
    (after,) = launched.until(replaced(launched, was, "packs"), "a smaller node", LOOKS_AGAIN_S + WITHIN_S)
    assert after["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m5.large"
    launched.until_running("packs", 1)


def test_a_node_outlives_its_cancelled_reservation_and_is_on_demand(
    launched: Arena, disturbed: dict[str, Json]
) -> None:
    was = disturbed["ends"]

    def relabelled() -> bool:
        labels = [one["metadata"]["labels"] for one in launched.claims("ends")]
        return [one["karpenter.sh/capacity-type"] for one in labels] == ["on-demand"]

    launched.until(relabelled, "the claim says on-demand")
    (claim,) = launched.claims("ends")
    assert claim["metadata"]["uid"] == was["metadata"]["uid"]
    assert "karpenter.k8s.aws/capacity-reservation-id" not in claim["metadata"]["labels"]
    (node,) = launched.nodes("ends")
    assert node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "on-demand"
    assert launched.instance(claim).state == "running"
    assert len(launched.running("ends")) == 1


# --- The end ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("disturbed")
def test_all_of_it_can_be_deleted_and_every_slot_is_free_again(launched: Arena) -> None:
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
def test_karpenter_asked_for_nothing_unknown_and_understood_every_answer(launched: Arena) -> None:
    cloud = launched.world.cloud
    launched.now(cloud.ec2.check_all)
    launched.now(launched.check)
    assert launched.now(cloud.endpoint.unknown_actions) == {}
    assert [line for line in launched.log() if is_unexpected(line)] == []


# What Karpenter itself logs as an error on either control plane, with nothing wrong in the world around it.
EXPECTED = (
    # A claim that is still on its way out when its NodePool is gone: the counting of its pool is tried until it is too.
    re.compile(r'NodePool\.karpenter\.sh "\w+" not found \(nodeclaim='),
    # A NodePool that was changed a moment ago, and whose conditions are of its last generation.
    re.compile(r"^ignoring nodepool, not ready"),
)


def is_unexpected(line: Json) -> bool:
    said = (line.get("error", ""), line["message"])
    if line["level"] in ("DEBUG", "INFO"):
        return "deserialization" in said[0]  # an answer that the Go SDK cannot read
    return not any(known.search(text) for known in EXPECTED for text in said)


def queue(arena: Arena) -> list[str]:
    """What nobody has taken from the queue yet."""
    return arena.now(lambda: arena.world.cloud.sqs.dump().decode(errors="replace")).split('"')
