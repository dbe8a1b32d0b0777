"""A watch stays open and silent: the controllers must not delete a node that runs pods."""

import pytest

import app_environment
import cluster_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import pool
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.api.storage import StorageClass
from holdfast.ports import Change
from holdfast.runtime.cache import SILENT_S
from holdfast.sim.api.serving.faults import Refuse
from holdfast.sim.api.serving.front import Request

EMPTY_AT_ONCE = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "20s"}
ONE_PER_NODE = {"cpu": "1500m"}


async def two_nodes(env: AppEnvironment) -> None:
    await env.node_class()
    await env.node_pool(
        requirements=[instance_types("m5.large"), capacity_types("on-demand")], disruption=EMPTY_AT_ONCE
    )
    await env.deploy("web", 2, **ONE_PER_NODE)
    await env.until_running(2)


async def assert_no_pod_on_terminated_instance(env: AppEnvironment) -> None:
    """According to the API server, no pod runs on a node whose instance is terminated."""
    running = {instance.id for instance in env.ec2_instances}
    nodes = {claim.status.node_name: claim.status.provider_id for claim in env.ever(NodeClaim)}
    terminated = {node for node, id_ in nodes.items() if id_ and id_.rpartition("/")[2] not in running}
    for pod in (await env.kube.list(Pod)).items:
        if pod.metadata.deletion_timestamp is None and pod.status.phase == "Running":
            assert pod.spec.node_name not in terminated, f"{pod.metadata.name} runs on a terminated instance"


@pytest.mark.parametrize("silent_s", [60, 400])
def test_silent_pod_watch_deletes_no_node_that_runs_pods(silent_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        await two_nodes(env)
        before = {instance.id for instance in env.ec2_instances}
        await env.scale("web", 0)
        while [pod for pod in (await env.kube.list(Pod)).items if pod.spec.node_name]:
            await env.sleep(0.5)
        await env.sleep(2)  # the cache has two empty nodes
        env.line.silence("pods")  # and lacks the pods that kube-scheduler binds to them
        await env.scale("web", 2)
        await env.until_running(2)
        await env.sleep(silent_s)
        await assert_no_pod_on_terminated_instance(env)
        assert {instance.id for instance in env.ec2_instances} == before
        env.line.end_silence("pods")
        await env.sleep(SILENT_S + 60)
        await assert_no_pod_on_terminated_instance(env)
        assert len(await env.running()) == 2
        await env.scale("web", 0)
        await env.sleep(120)
        assert not env.ec2_instances  # the watch was opened again

    app_environment.run(program)


def test_pod_that_is_missing_in_the_cache_is_evicted_before_the_instance_terminates() -> None:
    async def program(env: AppEnvironment) -> None:
        await two_nodes(env)
        claim = (await env.claims())[0]
        env.line.silence("pods")
        bound = cluster_environment.pod_spec(cpu="10m") | {"nodeName": claim.status.node_name}
        document = {"metadata": {"name": "late", "namespace": "default"}, "spec": bound}
        await env.create("/api/v1/namespaces/default/pods", document)
        await env.sleep(5)
        await env.kube.delete(claim)
        await env.sleep(100)
        late = [pod for pod in env.ever(Pod) if pod.metadata.name == "late"]
        evicted = next(pod.metadata.deletion_timestamp for pod in late if pod.metadata.deletion_timestamp)
        instance_id = (claim.status.provider_id or "").rpartition("/")[2]
        (instance,) = [one for one in env.all_ec2_instances() if one.id == instance_id]
        assert instance.state == "terminated"
        assert evicted.timestamp() <= instance.ended_s

    app_environment.run(program)


@pytest.mark.parametrize("plural", ["pods", "nodes", "nodeclaims", "nodepools"])
def test_no_nodeclaim_is_created_while_a_watch_is_silent(plural: str) -> None:
    async def program(env: AppEnvironment) -> None:
        await two_nodes(env)
        env.line.silence(plural)
        await env.sleep(SILENT_S + 30)
        claims = env.claims_ever()
        await env.scale("web", 4)
        await env.sleep(120)
        assert env.claims_ever() == claims
        env.line.end_silence(plural)
        await env.until_running(4)

    app_environment.run(program)


def test_kind_without_any_event_needs_no_bookmark() -> None:
    """Kubernetes 1.30 sends none until it has seen an event of the kind, or progress of etcd (ten minutes)."""

    async def program(env: AppEnvironment) -> None:
        env.line.silence("storageclasses")
        await two_nodes(env)
        for replicas in (3, 4, 5):
            await env.sleep(SILENT_S + 30)
            await env.scale("web", replicas)
            await env.until_running(replicas, within_s=60)

    app_environment.run(program)


def test_no_nodeclaim_is_created_after_a_watch_without_any_event_missed_one() -> None:
    async def program(env: AppEnvironment) -> None:
        env.line.silence("storageclasses")
        await two_nodes(env)
        document = {"metadata": {"name": "ssd"}, "provisioner": "ebs.csi.aws.com"}
        await env.create("/apis/storage.k8s.io/v1/storageclasses", document)
        await env.sleep(SILENT_S + 30)
        assert env.app.caches.of(StorageClass).get(("", "ssd"))  # from a list
        claims = env.claims_ever()
        await env.scale("web", 4)
        await env.sleep(60)
        assert env.claims_ever() == claims
        env.line.end_silence("storageclasses")
        await env.until_running(4, within_s=600)

    app_environment.run(program)


def test_garbage_collection_ignores_an_instance_whose_nodeclaim_is_missing_only_in_the_cache() -> None:
    async def program(env: AppEnvironment) -> None:
        await two_nodes(env)
        before = {instance.id for instance in env.ec2_instances}
        env.line.silence("nodeclaims")
        cache = env.app.caches.of(NodeClaim)
        for claim in await env.claims():
            cache.apply(Change("DELETED", claim))
        assert not len(cache)
        await env.sleep(SILENT_S - 10)  # garbage is collected every two minutes
        assert {instance.id for instance in env.ec2_instances} == before
        assert len(await env.claims()) == 2

    app_environment.run(program)


def test_garbage_collection_ignores_an_instance_whose_nodeclaim_has_only_the_launch_token() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
        env.line.add(Refuse("InternalError"), _writes_a_claim_status, times=10**6)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(200)  # garbage is collected every two minutes
        (claim,), (instance,) = await env.claims(), env.ec2_instances
        assert claim.status.provider_id is None
        env.line.clear()
        await env.sleep(120)  # until the launch is tried again
        (claim,) = await env.claims()
        assert (claim.status.provider_id or "").endswith(instance.id)
        assert len(env.all_ec2_instances()) == 1

    app_environment.run(program)


def _writes_a_claim_status(request: Request) -> bool:
    return "/nodeclaims/" in request.path and request.path.endswith("/status")


@pytest.mark.parametrize("later_s", range(40, 71, 5))
def test_node_is_not_deleted_if_a_pod_is_bound_to_it_during_the_decision(later_s: int) -> None:
    """Decisions take seconds. The pod tolerates the disruption taint, so it would not be evicted either."""

    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        await env.deploy("web", 1, **ONE_PER_NODE, tolerations=[{"operator": "Exists"}])
        await env.until_running(1)
        await env.scale("web", 0)
        await env.sleep(later_s)
        before = {pod.metadata.uid for pod in env.ever(Pod)}
        await env.scale("web", 1)
        await env.until_running(1)
        await env.sleep(300)
        assert len({pod.metadata.uid for pod in env.ever(Pod)} - before) == 1

    app_environment.run(program, plans_take_s=4)
