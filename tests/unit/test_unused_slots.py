"""The checker of unused slots reports nodes that could use one, and nothing that is allowed. No controller runs here."""

from typing import Any

import pytest

import builders
from ec2_region import Region
from holdfast.sim.api.storage.store import Store
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.faults import NoCapacity
from slot_users import BUDGETS, CLAIMS, CLASSES, DRAINS_S, POOLS
from unused_slots import HELD_DOWN_S, SLOT, TOKEN, WAITS, UnusedSlots

KNOWN_S = 150
KNOWN_OWN_S = 30
REQUIREMENT = builders.requirement
ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand"}


class Scene:
    """A NodePool for m5.large in any capacity type, and its class, which selects a reservation with one slot."""

    def __init__(self, **reservation: Any) -> None:
        self.region = Region()
        defaults: dict[str, Any] = {"total": 1, "criteria": "targeted"}
        self.slots = self.region.reserve(**(defaults | reservation))
        self.store = Store()
        self.disturbed_s = 0.0
        self.checker = UnusedSlots(
            lambda: float(self.region.clock.seconds), KNOWN_S, KNOWN_OWN_S, lambda: self.disturbed_s
        )
        self.checker.start(self.store, self.region.ec2)
        self.node_class(capacityReservationSelectorTerms=[{"id": self.slots.id}])
        self.pool()

    def node_class(self, **spec: Any) -> None:
        self._put(CLASSES, builders.ec2nodeclass_document(**spec))

    def pool(self, *requirements: dict[str, Any], **spec: Any) -> None:
        document = builders.nodepool_document(requirements=list(requirements))
        document["spec"] |= {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "10%"}]}} | spec
        self._put(POOLS, document)

    def pod(self, name: str = "p", node: str = "", cpu: str = "1", **spec: Any) -> None:
        containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
        placed = {"nodeName": node} if node else {}
        metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
        self._put(
            "/pods",
            {"metadata": metadata, "spec": {"containers": containers, **placed, **spec}, "status": {}},
        )

    def _put(self, bucket: str, document: dict[str, Any]) -> None:
        document["metadata"] = {"uid": document["metadata"]["name"]} | document["metadata"]
        self.store.put(bucket, document)

    def delete_pod(self, name: str) -> None:
        self.store.remove("/pods", ("default", name))

    def claim(
        self,
        name: str = "c",
        instance: Instance | None = None,
        zones: tuple[str, ...] = ("us-west-2a", "us-west-2b"),
        cpu: str = "1",
        annotations: dict[str, str] | None = None,
    ) -> None:
        labels = {"karpenter.sh/nodepool": "default"}
        labels |= {"node.kubernetes.io/instance-type": instance.instance_type} if instance else {}
        document = {
            "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
            "spec": {
                "nodeClassRef": {"name": "default"},
                "requirements": [REQUIREMENT("topology.kubernetes.io/zone", "In", *zones)],
                "resources": {"requests": {"cpu": cpu, "pods": "1"}},
            },
            "status": {"providerID": f"aws:///a/{instance.id}", "nodeName": f"node-{name}"}
            if instance
            else {},
        }
        self._put(CLAIMS, document)

    def launch_on_demand(self, pod: dict[str, Any] | None = None, **claim: Any) -> None:
        """A pod is pending, gets a NodeClaim without a slot, an instance and a node, and is bound to it."""
        pod = pod or {}
        self.pod(**pod)
        self.claim(**claim)
        (instance,) = self.region.launch()
        self.claim(instance=instance, **claim)
        self.pod(node="node-c", **pod)

    def launch_reserved(self, token: str = "") -> Instance:
        target = {"CapacityReservationTarget": {"CapacityReservationId": self.slots.id}}
        data: dict[str, Any] = {"CapacityReservationSpecification": target}
        if token:
            tags = {"ResourceType": "instance", "Tags": [{"Key": TOKEN, "Value": token}]}
            data["TagSpecifications"] = [tags]
        (instance,) = self.region.launch(**data)
        return instance

    def terminate(self, instance: Instance) -> None:
        """Terminates an instance and waits until its slot is released."""
        self.region.call("TerminateInstances", InstanceIds=[instance.id])
        for _ in range(2):
            self.region.wait(30)

    @property
    def unused(self) -> int:
        return self.checker.unused(self.region.state.reservations[self.slots.id])

    @property
    def violations(self) -> int:
        return len(self.checker.violations)

    @property
    def problems(self) -> int:
        return len(list(self.checker.problems()))


def test_on_demand_node_next_to_an_unused_slot_is_reported() -> None:
    scene = Scene()
    scene.launch_on_demand()
    (violation,) = scene.checker.violations
    assert violation.startswith("c was launched as i-")
    assert violation.endswith(f"while 1 slots of {scene.slots.id} (m5.large) were unused")
    (problem,) = scene.checker.problems()
    assert problem.startswith("NodeClaim c runs on demand (m5.large)")


@pytest.mark.parametrize(
    "reservation",
    [
        {"elsewhere": 1},
        {"instance_type": "m5.xlarge", "zone": "c"},
        {"state": "cancelled"},
        {"target": 0},  # an interruptible reservation that its owner reclaims
        {"start_s": 1_800_000_100},
        {"kind": "capacity-block", "end_s": 1_800_000_000 + DRAINS_S},
    ],
)
def test_slot_that_nothing_can_use_is_not_reported(reservation: dict[str, Any]) -> None:
    scene = Scene(**reservation)
    if reservation.get("zone"):
        scene.pool(REQUIREMENT("topology.kubernetes.io/zone", "In", "us-west-2a"))
    scene.launch_on_demand()
    assert (scene.violations, scene.problems) == (0, 0)


@pytest.mark.parametrize(
    "requirement",
    [
        REQUIREMENT("karpenter.sh/capacity-type", "In", "on-demand"),
        REQUIREMENT("karpenter.sh/capacity-type", "NotIn", "reserved"),
        REQUIREMENT("node.kubernetes.io/instance-type", "In", "m5.xlarge"),
        REQUIREMENT("topology.kubernetes.io/zone", "In", "us-west-2b"),
    ],
)
def test_slot_that_the_nodepool_does_not_allow_is_not_reported(requirement: dict[str, Any]) -> None:
    scene = Scene()
    scene.pool(requirement)
    scene.launch_on_demand()
    assert (scene.violations, scene.problems) == (0, 0)


def test_slot_that_the_class_does_not_select_is_not_reported() -> None:
    scene = Scene()
    scene.node_class(capacityReservationSelectorTerms=[{"id": "cr-another"}])
    scene.launch_on_demand()
    assert (scene.violations, scene.problems) == (0, 0)


@pytest.mark.parametrize(
    ("pod", "claim"),
    [
        ({"nodeSelector": ON_DEMAND}, {}),
        ({"nodeSelector": {"topology.kubernetes.io/zone": "us-west-2b"}}, {"zones": ("us-west-2b",)}),
        ({"cpu": "1900m"}, {"cpu": "1900m"}),  # with the overhead of a node it may not fit
        ({"affinity": {"nodeAffinity": {}}}, {}),
        ({"nodeSelector": {"karpenter.k8s.aws/capacity-reservation-id": "cr-another"}}, {}),
    ],
)
def test_slot_that_the_pods_cannot_use_is_not_reported(pod: dict[str, Any], claim: dict[str, Any]) -> None:
    scene = Scene()
    scene.launch_on_demand(pod, **claim)
    assert (scene.violations, scene.problems) == (0, 0)


@pytest.mark.parametrize("limits", [{"cpu": "3"}, {"memory": "1Gi"}])
def test_slot_beyond_the_limits_of_the_nodepool_is_not_reported(limits: dict[str, str]) -> None:
    scene = Scene(instance_type="m5.xlarge")
    scene.pool(limits=limits)
    scene.launch_on_demand()
    assert (scene.violations, scene.problems) == (0, 0)


def test_node_in_a_slot_is_not_reported() -> None:
    scene = Scene()
    scene.region.reserve(total=1, criteria="open")
    scene.launch_on_demand()  # matches the open reservation
    assert (scene.violations, scene.problems) == (0, 0)


def test_pod_that_cannot_use_the_slot_may_be_the_one_that_a_node_is_launched_for() -> None:
    scene = Scene()
    scene.pod("other", nodeSelector=ON_DEMAND)
    scene.launch_on_demand()
    scene.pod("other", nodeSelector=ON_DEMAND, node="another")
    assert scene.violations == 0


# --- What Holdfast knows ----------------------------------------------------------------------------


@pytest.mark.parametrize(("after_s", "violations"), [(KNOWN_S - 1, 0), (KNOWN_S, 1)])
def test_slot_that_another_account_released_is_known_after_the_next_count(
    after_s: int, violations: int
) -> None:
    scene = Scene(elsewhere=1)
    control.give(scene.region.state, scene.slots.id, 1)
    scene.region.wait(after_s)
    scene.launch_on_demand()
    assert (scene.violations, scene.problems) == (violations, 1)


@pytest.mark.parametrize(("after_s", "violations"), [(KNOWN_OWN_S - 1, 0), (KNOWN_OWN_S, 1)])
def test_slot_that_an_instance_of_the_cluster_left_is_known_soon(after_s: int, violations: int) -> None:
    scene = Scene()
    scene.terminate(scene.launch_reserved())
    scene.region.wait(after_s)
    scene.launch_on_demand()
    assert scene.violations == violations


def test_slots_that_became_free_recently_do_not_hide_an_older_one() -> None:
    scene = Scene(total=2, elsewhere=1)
    control.give(scene.region.state, scene.slots.id, 1)
    scene.launch_on_demand()
    assert scene.violations == 1


def test_older_slot_that_a_nodeclaim_took_is_not_taken_for_one_that_became_free_recently() -> None:
    scene = Scene(total=2, elsewhere=1)
    scene.claim("other", annotations={SLOT: scene.slots.id})
    control.give(scene.region.state, scene.slots.id, 1)
    scene.launch_on_demand()
    assert scene.violations == 0


@pytest.mark.parametrize(("ago_s", "violations"), [(KNOWN_S - 1, 0), (KNOWN_S, 1)])
def test_slot_is_not_known_while_counts_cannot_be_read(ago_s: int, violations: int) -> None:
    scene = Scene()
    scene.disturbed_s = scene.region.clock.seconds - ago_s
    scene.launch_on_demand()
    assert scene.violations == violations


@pytest.mark.parametrize(
    ("after_s", "violations"), [(HELD_DOWN_S + KNOWN_S - 1, 0), (HELD_DOWN_S + KNOWN_S, 1)]
)
def test_reservation_into_which_ec2_refuses_launches_is_not_used_for_a_while(
    after_s: int, violations: int
) -> None:
    scene = Scene()
    scene.region.state.faults.add(NoCapacity(market="on-demand", times=1))
    assert scene.region.launch() == []
    scene.region.wait(after_s)
    scene.launch_on_demand()
    assert scene.violations == violations


# --- Slots that are held ----------------------------------------------------------------------------


def test_slot_that_a_nodeclaim_holds_is_used() -> None:
    scene = Scene()
    scene.claim("holder", annotations={SLOT: scene.slots.id})
    scene.launch_on_demand()
    assert (scene.violations, scene.problems) == (0, 0)


def test_nodeclaim_holds_no_slot_besides_that_of_its_instance() -> None:
    scene = Scene(total=2)
    scene.claim("holder", annotations={SLOT: scene.slots.id, TOKEN: "t"})
    scene.launch_reserved("t")
    assert scene.unused == 1
    scene.launch_on_demand()
    assert scene.violations == 1, "the other slot was unused all the time"


def test_nodeclaim_that_waits_for_an_instance_holds_its_slot_once_it_is_released() -> None:
    scene = Scene(total=2)
    instance = scene.launch_reserved()
    scene.claim("waiting", annotations={SLOT: scene.slots.id, WAITS: f"aws:///a/{instance.id}"})
    assert scene.unused == 1
    scene.terminate(instance)
    assert (scene.region.available(scene.slots), scene.unused) == (2, 1)


def test_slot_that_is_released_does_not_replace_the_one_that_the_same_plan_takes() -> None:
    scene = Scene(total=2, elsewhere=1)
    scene.pod()
    scene.claim()
    scene.claim("holder", annotations={SLOT: scene.slots.id})
    control.give(scene.region.state, scene.slots.id, 1)
    (instance,) = scene.region.launch()
    scene.claim(instance=instance)
    scene.pod(node="node-c")
    assert (scene.unused, scene.violations) == (1, 0)


def test_slot_that_a_nodeclaim_of_the_same_plan_takes_is_used() -> None:
    """One plan creates NodeClaims in any order."""
    scene = Scene()
    scene.pod()
    scene.claim()
    scene.claim("holder", annotations={SLOT: scene.slots.id})
    (instance,) = scene.region.launch()
    scene.claim(instance=instance)
    scene.pod(node="node-c")
    assert scene.violations == 0


def test_launch_is_undecided_while_a_pod_is_pending_that_could_use_the_slot() -> None:
    scene = Scene()
    scene.pod("other")
    scene.launch_on_demand()
    assert scene.violations == 0
    scene.pod("other", node="node-c")
    assert scene.violations == 1


def test_launch_is_not_reported_if_the_pod_that_could_use_the_slot_is_deleted() -> None:
    scene = Scene()
    scene.pod("other")
    scene.launch_on_demand()
    scene.delete_pod("other")
    assert scene.violations == 0


def test_pending_pod_that_is_too_large_for_the_slot_decides_nothing() -> None:
    scene = Scene()
    scene.pod("huge", cpu="90")
    scene.launch_on_demand()
    assert scene.violations == 1


# --- The settled state ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "disruption",
    [
        {"consolidateAfter": "Never"},
        {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"},
        {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}, {"nodes": "0"}]},
    ],
)
def test_node_that_consolidation_may_not_move_is_no_problem(disruption: dict[str, Any]) -> None:
    scene = Scene()
    scene.pool(disruption=disruption)
    scene.launch_on_demand()
    assert (scene.violations, scene.problems) == (1, 0)


@pytest.mark.parametrize(("allowed", "app", "problems"), [(0, "p", 0), (1, "p", 1), (0, "another", 1)])
def test_node_with_a_pod_that_may_not_be_evicted_is_no_problem(allowed: int, app: str, problems: int) -> None:
    scene = Scene()
    budget = {
        "metadata": {"name": "b", "namespace": "default", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }
    scene.store.put(BUDGETS, budget)
    scene.launch_on_demand()
    assert scene.problems == problems


@pytest.mark.parametrize(("zone", "problems"), [("a", 1), ("b", 0)])
def test_pod_with_a_volume_moves_only_within_its_zone(zone: str, problems: int) -> None:
    scene = Scene(zone=zone)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "v"}}
    scene.launch_on_demand({"volumes": [volume]}, zones=("us-west-2a",))
    assert scene.problems == problems


def test_pods_that_do_not_fit_in_the_slot_together_stay() -> None:
    scene = Scene()
    scene.launch_on_demand()
    scene.pod("other", node="node-c")
    assert scene.problems == 0


def test_node_may_move_only_within_the_limits_of_the_nodepool() -> None:
    """The replacement is launched before the node is deleted."""
    scene = Scene()
    scene.pool(limits={"cpu": "3"})
    scene.launch_on_demand()
    assert (scene.violations, scene.problems) == (1, 0)
