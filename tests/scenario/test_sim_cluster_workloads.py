"""The workload controllers of the simulated cluster: Deployments, StatefulSets, Jobs and DaemonSets."""

from typing import Any

from cluster_world import World, run, workload
from holdfast.sim.cluster import pods, timings
from holdfast.sim.cluster.kinds import (
    Attachment,
    Claim,
    DaemonSet,
    Deployment,
    Job,
    Node,
    Pod,
    ReplicaSet,
    StatefulSet,
    Volume,
)

QUICK = timings.Timings(boot_s=1, ready_s=1, devices_s=1)
APPS = "/apis/apps/v1/namespaces/default"
DISKS = {
    "metadata": {"name": "disks"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def test_rolling_update_respects_max_surge_and_max_unavailable() -> None:
    async def program(world: World) -> None:
        world.launch("m5.2xlarge")
        await world.nodes_ready(1)
        await world.deploy(replicas=4, cpu="100m")
        await world.until_running(4)
        old = {pod.metadata.uid for pod in await world.pods()}
        deployment = await world.kube.get(Deployment, "web", "default")
        labels = {"app": "web", "version": "2"}
        await world.kube.patch(deployment, {"spec": {"template": {"metadata": {"labels": labels}}}})
        fewest, most = 4, 4
        for _ in range(60):
            await world.sleep(1)
            fewest = min(fewest, len(await world.running()))
            most = max(most, len(await world.pods()))
        assert (fewest, most) == (3, 5)  # a quarter of four, either way
        now = await world.running()
        assert [pod.metadata.labels["version"] for pod in now] == ["2"] * 4
        assert not old & {pod.metadata.uid for pod in now}
        assert sorted(one.spec["replicas"] for one in await world.all(ReplicaSet)) == [0, 4]

    run(program, timings=QUICK)


def test_deleted_deployment_deletes_its_pods() -> None:
    async def program(world: World) -> None:
        world.launch()
        await world.deploy(replicas=2)
        await world.until_running(2)
        await world.kube.delete(await world.kube.get(Deployment, "web", "default"))
        await world.sleep(10)
        assert await world.all(Pod) == ()
        assert await world.all(ReplicaSet) == ()

    run(program, timings=QUICK)


def test_deleted_pod_is_removed_after_its_grace_period() -> None:
    async def program(world: World) -> None:
        world.launch()
        slow = {timings.STOPS_AFTER: "100", timings.READY_AFTER: "20"}
        await world.create(f"{APPS}/deployments", workload("web", annotations=slow))

        async def started() -> bool:
            return [pod.status["phase"] for pod in await world.pods()] == ["Running"]

        await world.until(started)
        assert 18 <= await world.until_running(1) <= 22
        (pod,) = await world.running()
        await world.kube.delete(pod)
        await world.sleep(28)
        assert not await world.gone(Pod, pod.metadata.name, "default")
        await world.sleep(4)  # its grace period is 30 seconds, although it needs 100 to stop
        assert await world.gone(Pod, pod.metadata.name, "default")

    run(program, timings=QUICK)


def test_statefulset_pods_start_in_order_and_their_volumes_bind_them_to_a_zone() -> None:
    async def program(world: World) -> None:
        await world.create("/apis/storage.k8s.io/v1/storageclasses", DISKS)
        (first,) = world.launch()
        await world.nodes_ready(1)
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "disks",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}},
            },
        }
        await world.create(
            f"{APPS}/statefulsets",
            workload(
                "db",
                replicas=2,
                cpu="100m",
                volumeClaimTemplates=[claim],
                annotations={timings.READY_AFTER: "30"},
            ),
        )
        await world.sleep(10)
        assert [pod.metadata.name for pod in await world.pods("db")] == ["db-0"]
        await world.until_running(2, "db")
        assert {c.metadata.name: c.status["phase"] for c in await world.all(Claim)} == {
            "data-db-0": "Bound",
            "data-db-1": "Bound",
        }
        assert all(
            "pv.kubernetes.io/bind-completed" in c.metadata.annotations for c in await world.all(Claim)
        )
        assert len(await world.all(Volume)) == 2
        node = await world.node_of(first)
        assert [a.spec["nodeName"] for a in await world.all(Attachment)] == [node.metadata.name] * 2
        # Another zone has capacity, but the volumes are bound to this zone.
        world.launch(zone="b")
        await world.nodes_ready(2)
        await world.kube.patch(node, {"spec": {"unschedulable": True}})
        await world.kube.delete(await world.kube.get(Pod, "db-1", "default"))
        await world.sleep(30)
        again = await world.kube.get(Pod, "db-1", "default")
        message = pods.condition(again.status, "PodScheduled")["message"]
        assert "1 node(s) didn't match PersistentVolume's node affinity" in message
        assert len(await world.all(Attachment)) == 1
        world.launch(zone="a")
        await world.until_running(2, "db")
        owner = await world.kube.get(StatefulSet, "db", "default")
        assert owner.status["readyReplicas"] == 2

    run(program, timings=QUICK)


def test_job_completes_after_enough_pods_succeeded_despite_an_eviction() -> None:
    async def program(world: World) -> None:
        world.launch()
        await world.nodes_ready(1)
        await world.create(
            "/apis/batch/v1/namespaces/default/jobs",
            workload("sum", completions=3, parallelism=2, cpu="100m", restartPolicy="Never"),
        )
        await world.until_running(2, "sum")
        evicted, _ = await world.running("sum")
        await world.kube.evict("default", evicted.metadata.name, evicted.metadata.uid)

        async def complete() -> bool:
            job = await world.kube.get(Job, "sum", "default")
            return pods.condition(job.status, "Complete").get("status") == "True"

        await world.until(complete)
        job = await world.kube.get(Job, "sum", "default")
        assert (job.status["succeeded"], job.status["failed"], job.status["active"]) == (3, 1, 0)
        assert [pod.status["phase"] for pod in await world.pods("sum")] == ["Succeeded"] * 3

    run(program, timings=QUICK)


def test_daemonset_runs_on_every_tolerated_node_even_if_it_is_cordoned() -> None:
    async def program(world: World) -> None:
        world.launch(count=2)
        await world.nodes_ready(2)
        await world.create(f"{APPS}/daemonsets", workload("agent", cpu="10m"))
        await world.until_running(2, "agent")
        node = (await world.all(Node))[0]
        await world.kube.patch(node, {"spec": {"unschedulable": True}})
        (pod_on_node,) = [
            pod for pod in await world.pods("agent") if pod.spec["nodeName"] == node.metadata.name
        ]
        await world.kube.delete(pod_on_node)
        await world.until_running(2, "agent")
        world.launch()
        await world.until_running(3, "agent")
        owner = await world.kube.get(DaemonSet, "agent", "default")
        counts: dict[str, Any] = owner.status
        assert (counts["desiredNumberScheduled"], counts["numberReady"]) == (3, 3)

    run(program, timings=QUICK)
