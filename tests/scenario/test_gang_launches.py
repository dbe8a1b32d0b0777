"""The nodes of a gang are launched all or none, and open together: crashes, refusals, nodes that never join."""

from typing import Any

import app_environment
import pod_groups
from app_environment import AppEnvironment, capacity_types, instance_types
from aws_environment import ZONE_B
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation

LARGE = instance_types("m5.large")
ONE_PER_NODE: dict[str, Any] = {"cpu": "1500m"}  # of an m5.large
MINUTE_S = 60
NEVER_READY = Timings(boot_s=5, ready_s=86_400, devices_s=1, startup_taints=())


async def reserved(env: AppEnvironment, *slots: Reservation, **template: Any) -> None:
    """A NodePool with only these slots."""
    await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
    await env.node_pool(requirements=[LARGE, capacity_types("reserved")], **template)


async def train(env: AppEnvironment, replicas: int = 3) -> None:
    await env.create(pod_groups.PATH, pod_groups.document("train", replicas))
    await env.deploy("train", replicas, **ONE_PER_NODE, **pod_groups.member())


def is_forming(node: Node) -> bool:
    return any(one.key == names.FORMING_TAINT for one in node.spec.taints)


def launched_at_a_time(env: AppEnvironment) -> set[int]:
    """How many NodeClaims had an instance after each change of one."""
    claims: dict[str, NodeClaim] = {}
    counts = set()
    for claim in env.ever(NodeClaim):
        claims[claim.metadata.name] = claim
        counts.add(sum(bool(one.status.provider_id) for one in claims.values()))
    return counts


def test_no_pod_uses_a_node_of_a_gang_before_all_are_ready() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await train(env)
        await env.until_running(3, "train")
        assert not any(map(is_forming, await env.nodes()))
        ready: dict[str, bool] = {}  # by node, in the order of changes
        for node in env.ever(Node):
            ready[node.metadata.name] = any(
                one.type == "Ready" and one.status == "True" for one in node.status.conditions
            )
            registered = node.metadata.labels.get(names.REGISTERED) == "true"
            if registered and not is_forming(node):
                assert sum(ready.values()) == 3

    app_environment.run(program, gangs=True)


def test_all_nodeclaims_of_a_gang_exist_before_one_is_launched() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await train(env)
        await env.until_running(3, "train")
        writes = env.writes()
        created = [number for number, write in enumerate(writes) if write == f"POST {CLAIMS}"]
        assert len(created) == 3
        assert writes.count("CreateFleet") == 1
        assert writes.index("CreateFleet") > created[-1]
        launches = {one.metadata.annotations[names.GANG_LAUNCH] for one in await env.claims()}
        assert {one.rpartition("/")[2] for one in launches} == {"3"}
        assert len(launches) == 1

    app_environment.run(program, gangs=True)


CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


def test_nodes_of_no_gang_have_no_gang_launch() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        assert not any(names.GANG_LAUNCH in one.metadata.annotations for one in await env.claims())

    app_environment.run(program, gangs=True)


# --- Refusals -----------------------------------------------------------------------------------------


def test_slot_that_another_cluster_takes_in_between_leaves_nothing_of_a_gang() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        env.ec2.region.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        await reserved(env, slots)
        await train(env)
        await env.sleep(MINUTE_S)
        assert env.all_ec2_instances() == []
        assert await env.claims() == []
        control.give(env.ec2.region, slots.id, 1)
        await env.until_running(3, "train")
        assert len(env.all_ec2_instances()) == 3

    app_environment.run(program, gangs=True)


def test_instances_of_a_gang_are_terminated_if_another_reservation_refuses_its_part() -> None:
    """Two reservations are two calls."""

    async def program(env: AppEnvironment) -> None:
        two, one = env.reserve(total=2), env.reserve(total=1, zone_id=ZONE_B)
        env.ec2.region.faults.add(faults.Taken(reservation_id=one.id, times=1))
        await reserved(env, two, one)
        await train(env)
        await env.sleep(2 * MINUTE_S)
        assert len(env.all_ec2_instances()) == 2
        assert env.ec2_instances == []
        assert await env.claims() == []
        assert env.free(two) == 2
        control.give(env.ec2.region, one.id, 1)
        await env.until_running(3, "train")
        assert len(env.ec2_instances) == 3

    app_environment.run(program, gangs=True)


def test_gang_is_launched_later_if_ec2_is_denied_at_first() -> None:
    """An error that is not about capacity keeps the NodeClaims: planning again would not help."""

    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await env.sleep(5)
        env.ec2.region.faults.add(faults.Denied(operation="CreateFleet", times=3))
        await train(env)
        await env.until_running(3, "train")
        assert len(env.claims_ever()) == len(env.all_ec2_instances()) == 3

    app_environment.run(program, gangs=True)


def test_gang_is_launched_once_if_the_answer_of_ec2_is_lost() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await env.sleep(5)
        env.ec2.region.faults.add(faults.Lost(operation="CreateFleet", times=2))
        await train(env)
        await env.until_running(3, "train")
        assert len(env.all_ec2_instances()) == 3

    app_environment.run(program, gangs=True)


# --- Nodes that do not become ready -------------------------------------------------------------------


def test_node_that_never_joins_is_replaced_and_the_gang_then_runs() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=4)
        await reserved(env, slots)
        env.ec2.region.faults.add(faults.NeverBoots(times=1))
        await train(env)
        await env.sleep(14 * MINUTE_S)
        assert not await env.running("train")
        assert len(await env.claims()) == 3
        await env.until_running(3, "train")
        await env.sleep(10 * MINUTE_S)
        assert len(await env.claims()) == env.in_reservation(slots) == 3

    app_environment.run(program, gangs=True)


def test_nodes_of_a_gang_are_deleted_if_no_capacity_replaces_one_that_never_joins() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await reserved(env, slots)
        env.ec2.region.faults.add(faults.NeverBoots(times=1))
        await train(env)
        await env.sleep(10 * MINUTE_S)
        control.take(env.ec2.region, slots.id, 3)
        (silent,) = [one for one in await env.claims() if not one.status.node_name]
        await env.sleep(6 * MINUTE_S)
        control.take(env.ec2.region, slots.id, 3)  # the slot of the deleted instance
        assert silent.metadata.name not in {one.metadata.name for one in await env.claims()}
        await env.until(lambda: _no_claims(env), within_s=20 * MINUTE_S)
        assert env.ec2_instances == []

    app_environment.run(program, gangs=True)


async def _no_claims(env: AppEnvironment) -> bool:
    return not await env.claims()


def test_nodes_open_without_one_that_stays_not_ready() -> None:
    """Karpenter has no limit on how long a registered node may take to be ready. The others must not stay idle."""

    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await train(env)
        await env.until(lambda: _has_nodes(env, 3))
        await env.sleep(30)
        first, second, _ = sorted(await env.nodes(), key=lambda one: one.metadata.name)
        for node in (first, second):
            current = await env.kube.get(Node, node.metadata.name)
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await env.kube.patch(current, ready, status=True, only_if_unchanged=True)
        await env.sleep(10 * MINUTE_S)
        assert sum(map(is_forming, await env.nodes())) == 3
        await env.sleep(6 * MINUTE_S)
        assert not any(map(is_forming, await env.nodes()))
        messages = [one.message or "" for one in await env.events("GangNotReady")]
        assert any("did not become ready within 900 s" in one for one in messages)

    app_environment.run(program, gangs=True, timings=NEVER_READY)


def test_daemonset_that_does_not_tolerate_the_taint_can_make_the_nodes_of_a_gang_usable() -> None:
    """It removes another startup taint, or registers devices, so the taint must not wait for it."""

    async def program(env: AppEnvironment) -> None:
        agent = {"key": "example.com/agent", "effect": "NoSchedule"}
        await reserved(env, env.reserve(total=3), startupTaints=[agent])
        await train(env)
        await env.until(lambda: _has_nodes(env, 3))
        await env.sleep(30)
        assert not any(map(is_forming, await env.nodes()))
        assert not await env.running("train")
        for node in await env.nodes():
            await env.kube.patch(node, {"spec": {"taints": []}}, only_if_unchanged=True)
        await env.until_running(3, "train")

    app_environment.run(program, gangs=True)


async def _has_nodes(env: AppEnvironment, count: int) -> bool:
    return len(await env.nodes()) == count
