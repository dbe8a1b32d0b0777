"""The workload controllers of the simulated cluster: Deployments, StatefulSets, Jobs and DaemonSets."""

from typing import Any

from cluster_environment import Environment, run, workload
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
    async def program(env: Environment) -> None:
        env.launch("m5.2xlarge")
        await env.nodes_ready(1)
        await env.deploy(replicas=4, cpu="100m")
        await env.until_running(4)
        old = {pod.metadata.uid for pod in await env.pods()}
        deployment = await env.kube.get(Deployment, "web", "default")
        labels = {"app": "web", "version": "2"}
        await env.kube.patch(deployment, {"spec": {"template": {"metadata": {"labels": labels}}}})
        fewest, most = 4, 4
        for _ in range(60):
            await env.sleep(1)
            fewest = min(fewest, len(await env.running()))
            most = max(most, len(await env.pods()))
        assert (fewest, most) == (3, 5)  # a quarter of four, either way
        now = await env.running()
        assert [pod.metadata.labels["version"] for pod in now] == ["2"] * 4
        assert not old & {pod.metadata.uid for pod in now}
        assert sorted(one.spec["replicas"] for one in await env.all(ReplicaSet)) == [0, 4]

    run(program, timings=QUICK)


def test_deleted_deployment_deletes_its_pods() -> None:
    async def program(env: Environment) -> None:
        env.launch()
        await env.deploy(replicas=2)
        await env.until_running(2)
        await env.kube.delete(await env.kube.get(Deployment, "web", "default"))
        await env.sleep(10)
        assert await env.all(Pod) == ()
        assert await env.all(ReplicaSet) == ()

    run(program, timings=QUICK)


def test_deleted_pod_is_removed_after_its_grace_period() -> None:
    async def program(env: Environment) -> None:
        env.launch()
        slow = {timings.STOPS_AFTER: "100", timings.READY_AFTER: "20"}
        await env.create(f"{APPS}/deployments", workload("web", annotations=slow))

        async def started() -> bool:
            return [pod.status["phase"] for pod in await env.pods()] == ["Running"]

        await env.until(started)
        assert 18 <= await env.until_running(1) <= 22
        (pod,) = await env.running()
        await env.kube.delete(pod)
        await env.sleep(28)
        assert not await env.is_deleted(Pod, pod.metadata.name, "default")
        await env.sleep(4)  # its grace period is 30 seconds, although it needs 100 to stop
        assert await env.is_deleted(Pod, pod.metadata.name, "default")

    run(program, timings=QUICK)


def test_statefulset_pods_start_in_order_and_their_volumes_bind_them_to_a_zone() -> None:
    async def program(env: Environment) -> None:
        await env.create("/apis/storage.k8s.io/v1/storageclasses", DISKS)
        (first,) = env.launch()
        await env.nodes_ready(1)
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "disks",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}},
            },
        }
        await env.create(
            f"{APPS}/statefulsets",
            workload(
                "db",
                replicas=2,
                cpu="100m",
                volumeClaimTemplates=[claim],
                annotations={timings.READY_AFTER: "30"},
            ),
        )
        await env.sleep(10)
        assert [pod.metadata.name for pod in await env.pods("db")] == ["db-0"]
        await env.until_running(2, "db")
        assert {c.metadata.name: c.status["phase"] for c in await env.all(Claim)} == {
            "data-db-0": "Bound",
            "data-db-1": "Bound",
        }
        assert all("pv.kubernetes.io/bind-completed" in c.metadata.annotations for c in await env.all(Claim))
        assert len(await env.all(Volume)) == 2
        node = await env.node_of(first)
        assert [a.spec["nodeName"] for a in await env.all(Attachment)] == [node.metadata.name] * 2
        # Another zone has capacity, but the volumes are bound to this zone.
        env.launch(zone="b")
        await env.nodes_ready(2)
        await env.kube.patch(node, {"spec": {"unschedulable": True}})
        await env.kube.delete(await env.kube.get(Pod, "db-1", "default"))
        await env.sleep(30)
        again = await env.kube.get(Pod, "db-1", "default")
        message = pods.condition(again.status, "PodScheduled")["message"]
        assert "1 node(s) didn't match PersistentVolume's node affinity" in message
        assert len(await env.all(Attachment)) == 1
        env.launch(zone="a")
        await env.until_running(2, "db")
        owner = await env.kube.get(StatefulSet, "db", "default")
        assert owner.status["readyReplicas"] == 2

    run(program, timings=QUICK)


def test_job_completes_after_enough_pods_succeeded_despite_an_eviction() -> None:
    async def program(env: Environment) -> None:
        env.launch()
        await env.nodes_ready(1)
        await env.create(
            "/apis/batch/v1/namespaces/default/jobs",
            workload("sum", completions=3, parallelism=2, cpu="100m", restartPolicy="Never"),
        )
        await env.until_running(2, "sum")
        evicted, _ = await env.running("sum")
        await env.kube.evict("default", evicted.metadata.name, evicted.metadata.uid)

        async def complete() -> bool:
            job = await env.kube.get(Job, "sum", "default")
            return pods.condition(job.status, "Complete").get("status") == "True"

        await env.until(complete)
        job = await env.kube.get(Job, "sum", "default")
        assert (job.status["succeeded"], job.status["failed"], job.status["active"]) == (3, 1, 0)
        assert [pod.status["phase"] for pod in await env.pods("sum")] == ["Succeeded"] * 3

    run(program, timings=QUICK)


def test_daemonset_runs_on_every_tolerated_node_even_if_it_is_cordoned() -> None:
    async def program(env: Environment) -> None:
        env.launch(count=2)
        await env.nodes_ready(2)
        await env.create(f"{APPS}/daemonsets", workload("agent", cpu="10m"))
        await env.until_running(2, "agent")
        node = (await env.all(Node))[0]
        await env.kube.patch(node, {"spec": {"unschedulable": True}})
        (pod_on_node,) = [
            pod for pod in await env.pods("agent") if pod.spec["nodeName"] == node.metadata.name
        ]
        await env.kube.delete(pod_on_node)
        await env.until_running(2, "agent")
        env.launch()
        await env.until_running(3, "agent")
        owner = await env.kube.get(DaemonSet, "agent", "default")
        counts: dict[str, Any] = owner.status
        assert (counts["desiredNumberScheduled"], counts["numberReady"]) == (3, 3)

    run(program, timings=QUICK)
