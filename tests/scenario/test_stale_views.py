"""A watch stays open and silent: what the controller does then must not end a node that runs pods."""

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


async def never_ended_under_a_pod(world: AppWorld) -> None:
    """Judged by the API server's own history: a pod that ran on a node whose instance is gone was evicted before."""
    running = {machine.id for machine in world.machines}
    nodes = {claim.status.node_name: claim.status.provider_id for claim in world.ever(NodeClaim)}
    ended = {node for node, id_ in nodes.items() if id_ and id_.rpartition("/")[2] not in running}
    for pod in (await world.kube.list(Pod)).items:
        if pod.metadata.deletion_timestamp is None and pod.status.phase == "Running":
            assert pod.spec.node_name not in ended, f"{pod.metadata.name} runs on an instance that is gone"


@pytest.mark.parametrize("heals_after_s", [60, 400])
def test_a_silent_pod_watch_ends_no_node_that_runs_pods(heals_after_s: int) -> None:
    async def program(world: AppWorld) -> None:
        await two_nodes(world)
        before = {machine.id for machine in world.machines}
        await world.scale("web", 0)
        while [pod for pod in (await world.kube.list(Pod)).items if pod.spec.node_name]:
            await world.sleep(0.5)
        await world.sleep(2)  # the controller sees two empty nodes, and
        world.line.silence("pods")  # not the pods that kube-scheduler binds to them
        await world.scale("web", 2)
        await world.until_running(2)
        await world.sleep(heals_after_s)
        await never_ended_under_a_pod(world)
        assert {machine.id for machine in world.machines} == before
        world.line.end_silence("pods")
        await world.sleep(SILENT_S + 60)
        await never_ended_under_a_pod(world)
        assert len(await world.running()) == 2
        await world.scale("web", 0)
        await world.sleep(120)
        assert not world.machines  # the watch was opened again

    app_world.run(program)


def test_a_pod_that_only_a_list_shows_is_evicted_before_the_instance_ends() -> None:
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
def test_nothing_is_decided_on_a_cache_whose_watch_is_dead(plural: str) -> None:
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


def test_garbage_collection_spares_an_instance_whose_claim_only_the_cache_lacks() -> None:
    async def program(world: AppWorld) -> None:
        await two_nodes(world)
        before = {machine.id for machine in world.machines}
        world.line.silence("nodeclaims")
        cache = world.app.caches.of(NodeClaim)
        for claim in await world.claims():
            cache.apply(Change("DELETED", claim))
        assert not len(cache)
        await world.sleep(SILENT_S - 10)  # garbage is collected every two minutes
        assert {machine.id for machine in world.machines} == before
        assert len(await world.claims()) == 2

    app_world.run(program)


def test_garbage_collection_spares_an_instance_that_a_claim_finds_by_its_token() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
        world.line.add(Refuse("InternalError"), _writes_a_claim_status, times=10**6)
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.sleep(200)  # garbage is collected every two minutes
        (claim,), (machine,) = await world.claims(), world.machines
        assert claim.status.provider_id is None
        world.line.clear()
        await world.sleep(120)  # until the launch is tried again
        (claim,) = await world.claims()
        assert (claim.status.provider_id or "").endswith(machine.id)
        assert len(world.all_machines()) == 1

    app_world.run(program)


def _writes_a_claim_status(request: Request) -> bool:
    return "/nodeclaims/" in request.path and request.path.endswith("/status")


@pytest.mark.parametrize("later_s", range(40, 71, 5))
def test_a_pod_that_is_bound_while_its_node_is_decided_on_keeps_it(later_s: int) -> None:
    """Decisions take seconds. The pod tolerates the taint of disruption, so it would not be evicted either."""

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
