"""The checker of the fault simulation reports each kind of problem. One that reports nothing would hide all bugs."""

import dataclasses
from typing import Any

import pytest

import objects
from fault_simulation import oracle
from fault_simulation.generate import App, FaultSchedule, Pool, Slots
from fault_simulation.oracle import Scene
from fault_simulation.watch import Watch
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2.entities import Instance, Reservation, Spec

SLOTS = Slots("slots", "m5.large", "us-west-2a", 1, 0, 0, open=False)
POOL = Pool("pool", ("m5.large",), ("reserved",), ("slots",), 0, None, tainted=False)
APP = App("app", 1, 1400, (), tolerates=False)
PROVIDER_ID = "aws:///us-west-2a/i-1"


def pod(*, running: bool = True, node: str = "") -> Pod:
    status = {"conditions": [{"type": "Ready", "status": "True" if running else "False"}]}
    spec = {"nodeName": node} if node else {}
    return Pod(metadata=ObjectMeta(name="a", labels={"app": "app"}), spec=spec, status=status)


def claim(
    capacity_type: str = "reserved", *, ready: str = "True", deleting: bool = False, reason: str = "Ready"
) -> NodeClaim:
    labels = {
        "karpenter.sh/nodepool": "pool",
        "karpenter.sh/capacity-type": capacity_type,
        "node.kubernetes.io/instance-type": "m5.large",
    }
    now = "2026-01-01T00:00:00Z"
    condition = {"type": reason, "status": ready, "lastTransitionTime": now, "reason": "R"}
    meta = {"labels": labels} | ({"deletionTimestamp": now} if deleting else {})
    status = {"providerID": PROVIDER_ID, "nodeName": "n", "conditions": [condition]}
    return objects.nodeclaim("c", meta, status)


def instance(reservation: str = "cr-1") -> Instance:
    return Instance(
        id="i-1",
        account="1",
        instance_type="m5.large",
        zone_id="usw2-az2",
        subnet_id="subnet-1",
        spec=Spec(image_id="ami-1", architecture="x86_64"),
        reservation_id=reservation,
        launched_s=0,
        batch_id="r-1",
        private_ip="10.0.0.1",
        interface_id="eni-1",
    )


def reservation(**fields: Any) -> Reservation:
    plain = {"total": 1, "available": 0, "created_s": 0, "start_s": 0}
    return Reservation(id="cr-1", owner="1", instance_type="m5.large", zone_id="usw2-az2", **(plain | fields))


def schedule(pool: Pool = POOL, app: App = APP) -> FaultSchedule:
    return FaultSchedule(1, (SLOTS,), (pool,), (app,), (), (), 1)


VALID = Scene(
    schedule=schedule(),
    wanted={"app": 1},
    pods=(pod(),),
    claims=(claim(),),
    nodes=(objects.node("n", spec={"providerID": PROVIDER_ID}),),
    instances=(instance(),),
    reservations={"slots": reservation()},
)
EMPTY = dataclasses.replace(VALID, pods=(pod(running=False),), claims=(), nodes=(), instances=())
FREE = {"slots": reservation(available=1)}


def test_a_valid_scene_has_no_problems() -> None:
    assert oracle.problems(VALID) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pods": ()}, "app has 0 pods of 1"),
        ({"claims": ()}, "instance i-1 has 0 claims"),
        ({"claims": (claim(), claim())}, "instance i-1 has 2 claims"),
        ({"instances": ()}, "claim c has no instance"),
        ({"nodes": ()}, "instance i-1 has no node"),
        ({"claims": (claim(ready="Unknown"),)}, "claim c is not Ready"),
        ({"claims": (claim(deleting=True),)}, "claim c is still being deleted"),
        ({"claims": (claim(deleting=True),), "held": frozenset({"app"})}, "claim c is still being deleted"),
        ({"claims": (claim("on-demand"),)}, "wrong about being reserved: cr-1"),
        ({"instances": (instance(""),)}, "wrong about being reserved: it is not"),
        (
            {"reservations": {"slots": reservation(elsewhere=1)}},
            "1 instances and 1 of other clusters in 1 slots",
        ),
    ],
)
def test_each_problem_is_reported(change: dict[str, Any], message: str) -> None:
    assert any(message in problem for problem in oracle.problems(dataclasses.replace(VALID, **change)))


@pytest.mark.parametrize(
    ("pool", "app", "reservations", "can_run"),
    [
        ({}, {}, FREE, True),
        ({}, {}, {"slots": reservation(available=0)}, False),
        ({}, {}, {"slots": reservation(available=1, state="scheduled")}, False),
        ({"slots": ()}, {}, FREE, False),
        ({"instance_types": ("c5.large",)}, {}, FREE, False),
        ({}, {"selector": (("topology.kubernetes.io/zone", "us-west-2b"),)}, FREE, False),
        ({}, {"selector": (("karpenter.sh/capacity-type", "spot"),)}, FREE, False),
        ({}, {"cpu_millis": 2900}, FREE, False),
        ({"tainted": True}, {}, FREE, False),
        ({"tainted": True}, {"tolerates": True}, FREE, True),
        ({"vcpu_limit": 1}, {}, FREE, False),
        ({"capacity_types": ("on-demand",)}, {}, {"slots": reservation()}, True),
    ],
)
def test_a_pending_pod_is_a_problem_if_it_could_run(
    pool: dict[str, Any], app: dict[str, Any], reservations: dict[str, Reservation], *, can_run: bool
) -> None:
    made = schedule(dataclasses.replace(POOL, **pool), dataclasses.replace(APP, **app))
    scene = dataclasses.replace(EMPTY, schedule=made, reservations=reservations)
    assert any("could run" in problem for problem in oracle.problems(scene)) is can_run


def test_a_deleting_node_that_a_disruption_budget_blocks_is_no_problem() -> None:
    deleting = dataclasses.replace(VALID, claims=(claim(deleting=True),), pods=(pod(node="n"),))
    assert oracle.problems(dataclasses.replace(deleting, held=frozenset({"app"}))) == []


@pytest.mark.parametrize(("zone", "can_run"), [("us-west-2a", True), ("us-west-2b", False)])
def test_a_pod_can_run_only_in_the_zone_of_its_disk(zone: str, *, can_run: bool) -> None:
    scene = dataclasses.replace(EMPTY, reservations=FREE, disks={"a": zone})
    assert any("could run" in problem for problem in oracle.problems(scene)) is can_run


@pytest.mark.parametrize(("now_s", "can_run"), [(599, True), (600, False)])
def test_a_pod_cannot_run_in_a_draining_capacity_block(now_s: int, *, can_run: bool) -> None:
    made = dataclasses.replace(schedule(), slots=(dataclasses.replace(SLOTS, block=True),))
    block = {"slots": reservation(available=1, kind="capacity-block", end_s=3000)}
    scene = dataclasses.replace(EMPTY, schedule=made, reservations=block, now_s=now_s)
    assert any("could run" in problem for problem in oracle.problems(scene)) is can_run


def test_disrupted_nodes_are_counted_per_nodepool() -> None:
    watch = Watch(schedule(dataclasses.replace(POOL, away_max=0)))
    watch.see(claim(), is_gone=False)
    assert watch.problems([]) == []
    watch.see(claim(reason="DisruptionReason"), is_gone=False)
    watch.see(claim(), is_gone=True)
    assert watch.problems([]) == ["1 nodes of pool were being disrupted at once, of at most 0"]


def test_a_pod_deleted_without_eviction_is_a_problem_unless_a_capacity_block_ends() -> None:
    evicted, deleted = "POST /namespaces/default/pods/a/eviction", "DELETE /namespaces/default/pods/a"
    (problem,) = Watch(schedule()).problems([evicted, deleted])
    assert problem == f"a pod was deleted instead of evicted: {deleted}"
    block = dataclasses.replace(schedule(), slots=(dataclasses.replace(SLOTS, block=True),))
    assert Watch(block).problems([deleted]) == []
