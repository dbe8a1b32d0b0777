"""A watch stays open and silent: the controllers must not delete a node that runs pods."""

import pytest

import app_world
import cluster_world
from app_world import AppWorld, capacity_types, instance_types
from disruption_world import pool
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.ports import Change
from holdfast.runtime.cache import SILENT_S
from holdfast.sim.api.serving.faults import Refuse
from holdfast.sim.api.serving.front import Request

EMPTY_AT_ONCE = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "20s"}
ONE_PER_NODE = {"cpu": "1500m"}


async def two_nodes(world: AppWorld) -> None:
    await world.node_class()
    await world.node_pool(
        requirements=[instance_types("m5.large"), capacity_types("on-demand")], disruption=EMPTY_AT_ONCE
    )
    await world.deploy("web", 2, **ONE_PER_NODE)
    await world.until_running(2)


async def assert_no_pod_on_terminated_instance(world: AppWorld) -> None:
    """According to the API server, no pod runs on a node whose instance is terminated."""
    running = {instance.id for instance in world.machines}
    nodes = {claim.status.node_name: claim.status.provider_id for claim in world.ever(NodeClaim)}
    terminated = {node for node, id_ in nodes.items() if id_ and id_.rpartition("/")[2] not in running}
    for pod in (await world.kube.list(Pod)).items:
        if pod.metadata.deletion_timestamp is None and pod.status.phase == "Running":
            assert pod.spec.node_name not in terminated, f"{pod.metadata.name} runs on a terminated instance"


@pytest.mark.parametrize("silent_s", [60, 400])
def test_silent_pod_watch_deletes_no_node_that_runs_pods(silent_s: int) -> None:
    async def program(world: AppWorld) -> None:
        await two_nodes(world)
        before = {instance.id for instance in world.machines}
        await world.scale("web", 0)
        while [pod for pod in (await world.kube.list(Pod)).items if pod.spec.node_name]:
            await world.sleep(0.5)
        await world.sleep(2)  # the cache has two empty nodes
        world.line.silence("pods")  # and lacks the pods that kube-scheduler binds to them
        await world.scale("web", 2)
        await world.until_running(2)
        await world.sleep(silent_s)
        await assert_no_pod_on_terminated_instance(world)
        assert {instance.id for instance in world.machines} == before
        world.line.end_silence("pods")
        await world.sleep(SILENT_S + 60)
        await assert_no_pod_on_terminated_instance(world)
        assert len(await world.running()) == 2
        await world.scale("web", 0)
        await world.sleep(120)
        assert not world.machines  # the watch was opened again

    app_world.run(program)


def test_pod_that_is_missing_in_the_cache_is_evicted_before_the_instance_terminates() -> None:
    async def program(world: AppWorld) -> None:
        await two_nodes(world)
        claim = (await world.claims())[0]
        world.line.silence("pods")
        bound = cluster_world.pod_spec(cpu="10m") | {"nodeName": claim.status.node_name}
        document = {"metadata": {"name": "late", "namespace": "default"}, "spec": bound}
        await world.create("/api/v1/namespaces/default/pods", document)
        await world.sleep(5)
        await world.kube.delete(claim)
        await world.sleep(100)
        late = [pod for pod in world.ever(Pod) if pod.metadata.name == "late"]
        evicted = next(pod.metadata.deletion_timestamp for pod in late if pod.metadata.deletion_timestamp)
        instance_id = (claim.status.provider_id or "").rpartition("/")[2]
        (instance,) = [one for one in world.all_machines() if one.id == instance_id]
        assert instance.state == "terminated"
        assert evicted.timestamp() <= instance.ended_s

    app_world.run(program)


@pytest.mark.parametrize("plural", ["pods", "nodes", "nodeclaims", "nodepools"])
def test_no_nodeclaim_is_created_while_a_watch_is_silent(plural: str) -> None:
    async def program(world: AppWorld) -> None:
        await two_nodes(world)
        world.line.silence(plural)
        await world.sleep(SILENT_S + 30)
        claims = world.claims_ever()
        await world.scale("web", 4)
        await world.sleep(120)
        assert world.claims_ever() == claims
        world.line.end_silence(plural)
        await world.until_running(4)

    app_world.run(program)


def test_garbage_collection_ignores_an_instance_whose_nodeclaim_is_missing_only_in_the_cache() -> None:
    async def program(world: AppWorld) -> None:
        await two_nodes(world)
        before = {instance.id for instance in world.machines}
        world.line.silence("nodeclaims")
        cache = world.app.caches.of(NodeClaim)
        for claim in await world.claims():
            cache.apply(Change("DELETED", claim))
        assert not len(cache)
        await world.sleep(SILENT_S - 10)  # garbage is collected every two minutes
        assert {instance.id for instance in world.machines} == before
        assert len(await world.claims()) == 2

    app_world.run(program)


def test_garbage_collection_ignores_an_instance_whose_nodeclaim_has_only_the_launch_token() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
        world.line.add(Refuse("InternalError"), _writes_a_claim_status, times=10**6)
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.sleep(200)  # garbage is collected every two minutes
        (claim,), (instance,) = await world.claims(), world.machines
        assert claim.status.provider_id is None
        world.line.clear()
        await world.sleep(120)  # until the launch is tried again
        (claim,) = await world.claims()
        assert (claim.status.provider_id or "").endswith(instance.id)
        assert len(world.all_machines()) == 1

    app_world.run(program)


def _writes_a_claim_status(request: Request) -> bool:
    return "/nodeclaims/" in request.path and request.path.endswith("/status")


@pytest.mark.parametrize("later_s", range(40, 71, 5))
def test_node_is_not_deleted_if_a_pod_is_bound_to_it_during_the_decision(later_s: int) -> None:
    """Decisions take seconds. The pod tolerates the disruption taint, so it would not be evicted either."""

    async def program(world: AppWorld) -> None:
        await pool(world, kinds=("on-demand",))
        await world.deploy("web", 1, **ONE_PER_NODE, tolerations=[{"operator": "Exists"}])
        await world.until_running(1)
        await world.scale("web", 0)
        await world.sleep(later_s)
        before = {pod.metadata.uid for pod in world.ever(Pod)}
        await world.scale("web", 1)
        await world.until_running(1)
        await world.sleep(300)
        assert len({pod.metadata.uid for pod in world.ever(Pod)} - before) == 1

    app_world.run(program, plans_take_s=4)
