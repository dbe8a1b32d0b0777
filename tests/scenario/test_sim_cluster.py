"""The simulated cluster without an autoscaler: what Kubernetes does with instances launched by hand."""

import contextlib
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cluster_environment import JOINS, Environment, reason, run, workload
from holdfast import errors
from holdfast.api.meta import ObjectMeta
from holdfast.model.taints import Effect, Taint
from holdfast.sim.api.serving.faults import Cut, Delay, Half, Lose, Refuse
from holdfast.sim.api.serving.front import Request
from holdfast.sim.cluster import amounts, pods, timings
from holdfast.sim.cluster.kinds import Deployment, DisruptionBudget, Node, Pod, ReplicaSet
from holdfast.sim.ec2 import control, times


def test_pods_of_a_growing_deployment_run_on_instances_launched_by_hand() -> None:
    async def program(env: Environment) -> None:
        await env.deploy(replicas=3)
        await env.sleep(5)
        assert [reason(pod) for pod in await env.pods()] == [
            ("Unschedulable", "no nodes available to schedule pods")
        ] * 3
        env.launch()
        assert 50 < await env.until_running(3) < 70  # pending, boot, ready, start
        await env.scale("web", 6)
        env.launch(zone="b")
        await env.until_running(6)
        deployment = await env.kube.get(Deployment, "web", "default")
        assert deployment.status["availableReplicas"] == deployment.status["updatedReplicas"] == 6
        assert len({pod.spec["nodeName"] for pod in await env.pods()}) == 2
        assert len(await env.all(Node)) == 2

    run(program)


def test_unschedulable_pods_have_a_reason() -> None:
    async def program(env: Environment) -> None:
        env.launch()
        env.launch(taints=(Taint("team", Effect.NO_SCHEDULE, "ml"),))
        await env.nodes_ready(2)
        await env.deploy("huge", cpu="3")
        await env.deploy("picky", nodeSelector={"disk": "fast"})
        await env.sleep(5)
        taint = "1 node(s) had untolerated taint {team: ml}"
        assert [reason(pod) for pod in await env.pods("huge")] == [
            ("Unschedulable", f"0/2 nodes are available: 1 Insufficient cpu, {taint}.")
        ]
        why = "1 node(s) didn't match Pod's node affinity/selector"
        assert [reason(pod) for pod in await env.pods("picky")] == [
            ("Unschedulable", f"0/2 nodes are available: {why}, {taint}.")
        ]

    run(program)


def test_eviction_respects_a_disruption_budget_and_pods_start_on_other_nodes() -> None:
    async def program(env: Environment) -> None:
        (first,) = env.launch()
        env.launch(zone="b")
        await env.nodes_ready(2)
        await env.deploy(replicas=2, cpu="100m")
        await env.create(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {
                "metadata": {"name": "web"},
                "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
            },
        )
        await env.until_running(2)
        node = await env.node_of(first)
        await env.kube.patch(node, {"spec": {"unschedulable": True}})
        (pod_on_node,) = [pod for pod in await env.running() if pod.spec["nodeName"] == node.metadata.name]
        with pytest.raises(errors.Throttled):
            await env.kube.evict("default", pod_on_node.metadata.name, pod_on_node.metadata.uid)
        assert len(await env.running()) == 2
        await env.scale("web", 3)
        await env.until_running(3)
        await env.kube.evict("default", pod_on_node.metadata.name, pod_on_node.metadata.uid)
        (budget,) = await env.all(DisruptionBudget)
        assert budget.status["disruptionsAllowed"] == 0
        await env.until_running(3)
        assert {pod.spec["nodeName"] for pod in await env.running()} == {
            other.metadata.name for other in await env.all(Node) if other.metadata.name != node.metadata.name
        }
        (budget,) = await env.all(DisruptionBudget)
        assert (budget.status["currentHealthy"], budget.status["disruptionsAllowed"]) == (3, 1)
        assert not budget.status.get("disruptedPods")

    run(program)


def test_an_eviction_whose_pod_is_not_deleted_counts_for_two_minutes() -> None:
    async def program(env: Environment) -> None:
        env.launch()
        await env.nodes_ready(1)
        await env.deploy(replicas=2, cpu="100m")
        await env.create(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {
                "metadata": {"name": "web"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            },
        )
        await env.until_running(2)
        await env.sleep(5)
        (budget,) = await env.all(DisruptionBudget)
        assert budget.status["disruptionsAllowed"] == 1
        (pod, _) = await env.running()
        evicted = {
            "disruptedPods": {pod.metadata.name: times.text(env.clock.now_s())},
            "disruptionsAllowed": 0,
        }
        await env.kube.patch(budget, {"status": evicted}, status=True)
        await env.sleep(100)
        (budget,) = await env.all(DisruptionBudget)
        assert (budget.status["disruptionsAllowed"], len(budget.status["disruptedPods"])) == (0, 1)
        await env.sleep(30)
        (budget,) = await env.all(DisruptionBudget)
        assert (budget.status["disruptionsAllowed"], budget.status.get("disruptedPods") or {}) == (1, {})

    run(program)


def test_node_of_a_terminated_instance_is_deleted_and_its_pods_start_on_another_node() -> None:
    async def program(env: Environment) -> None:
        (first,) = env.launch()
        await env.nodes_ready(1)
        await env.deploy(replicas=2)
        await env.until_running(2)
        node = await env.node_of(first)
        env.launch(zone="b")
        await env.nodes_ready(2)
        control.kill(env.ec2.region, first)

        async def unreachable() -> bool:
            now = [each for each in await env.all(Node) if each.metadata.name == node.metadata.name]
            return not now or pods.condition(now[0].status, "Ready")["status"] == "Unknown"

        assert 40 <= await env.until(unreachable) <= 62  # the grace period after the last heartbeat

        async def is_removed() -> bool:
            return await env.is_deleted(Node, node.metadata.name)

        await env.until(is_removed)
        await env.until_running(2)
        assert node.metadata.name not in {pod.spec["nodeName"] for pod in await env.running()}

    run(program)


def test_pods_of_an_unreachable_node_are_replaced_after_their_toleration_seconds() -> None:
    async def program(env: Environment) -> None:
        (first,) = env.launch()
        await env.nodes_ready(1)
        await env.deploy(replicas=2)
        await env.until_running(2)
        env.launch(zone="b")
        await env.nodes_ready(2)
        silence(env, first)
        await env.sleep(200)
        node = await env.node_of(first)
        assert {(t["key"], t["effect"]) for t in node.spec["taints"]} == {
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        }
        assert len(await env.pods()) == 2
        assert await env.running() == []
        await env.sleep(200)  # five minutes of toleration are over
        replaced = await env.running()
        assert len(replaced) == 2
        assert node.metadata.name not in {pod.spec["nodeName"] for pod in replaced}
        stuck = [pod for pod in await env.all(Pod) if pods.is_terminating(pod)]
        assert {pod.spec["nodeName"] for pod in stuck} == {node.metadata.name}
        assert len(stuck) == 2

    run(program)


def test_rebooted_instance_keeps_its_node_and_has_a_new_boot_id() -> None:
    async def program(env: Environment) -> None:
        (first,) = env.launch()
        await env.nodes_ready(1)
        await env.deploy(replicas=1)
        await env.until_running(1)
        before = await env.node_of(first)
        env.aws.reboot_instances(InstanceIds=[first])
        await env.sleep(120)
        after = await env.node_of(first)
        assert after.metadata.uid == before.metadata.uid
        assert after.status["nodeInfo"]["bootID"] != before.status["nodeInfo"]["bootID"]
        assert pods.condition(after.status, "Ready")["status"] == "True"
        assert len(await env.running()) == 1

    run(program)


def test_faults_of_the_api_server_delay_the_cluster_but_do_not_change_the_outcome() -> None:
    async def program(env: Environment) -> None:
        dice = random.Random(7)
        faults = (
            Lose(),
            Lose(after_effect=True),
            Refuse("Conflict"),
            Refuse("InternalError"),
            Half(40),
            Delay(3),
        )
        for fault in faults * 20:
            env.faults.add(fault, one_write_in(dice, dice.randint(2, 9)))
        for _ in range(10):
            env.faults.add(Cut(2), lambda request: request.query.get("watch") == "true")
        owner = Deployment(
            metadata=ObjectMeta(name="web", namespace="default"), spec=workload("web", replicas=4)["spec"]
        )
        env.launch(count=2)
        while await env.is_deleted(Deployment, "web", "default"):
            with contextlib.suppress(errors.HoldfastError):
                await env.kube.create(owner)
            await env.sleep(1)
        await env.sleep(600)
        assert len(env.faults._armed) < 30, "most of the faults were not triggered"
        env.faults.clear()
        await env.until_running(4, within_s=120)
        assert len(await env.all(Node)) == 2
        assert [one.spec["replicas"] for one in await env.all(ReplicaSet)] == [4]
        assert_no_node_is_overcommitted(await env.all(Node), await env.all(Pod))

    run(program)


def one_write_in(dice: random.Random, number: int) -> Callable[[Request], bool]:
    return lambda request: request.method != "GET" and dice.randrange(number) == 0


def test_instance_with_user_data_of_another_cluster_or_an_invalid_label_becomes_no_node() -> None:
    async def program(env: Environment) -> None:
        (other,) = env.launch(cluster=replace(JOINS, name="green"))
        (broken,) = env.launch(text="#!/bin/sh\necho hello\n")
        config = {"flags": ["--node-labels=kubernetes.io/mine=yes"]}
        spec = {"cluster": {"name": "blue"}, "kubelet": config}
        text = json.dumps({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})
        (refused,) = env.launch(text=text)
        (wrong_endpoint,) = env.launch(cluster=replace(JOINS, endpoint="https://green.example"))
        (wrong_ca_bundle,) = env.launch(cluster=replace(JOINS, ca_bundle="Z3JlZW4="))
        await env.sleep(300)
        assert await env.all(Node) == ()
        assert env.cluster.kubelets.failed == {
            other: "it joins the cluster 'green'",
            wrong_endpoint: "it does not reach an API server at 'https://green.example'",
            wrong_ca_bundle: "it does not trust the certificate of the API server",
            broken: "the user data is of no family that is known",
            refused: "the kubelet does not start with the label kubernetes.io/mine",
        }

    run(program)


@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket", "Windows2022"])
def test_user_data_without_endpoint_or_ca_bundle_creates_no_node(family: str) -> None:
    async def program(env: Environment) -> None:
        (wrong_endpoint,) = env.launch(family=family, cluster=replace(JOINS, endpoint=""))
        (wrong_ca_bundle,) = env.launch(family=family, cluster=replace(JOINS, ca_bundle=""))
        await env.sleep(300)
        assert await env.all(Node) == ()
        assert env.cluster.kubelets.failed == {
            wrong_endpoint: "the user data does not name the endpoint of the API server",
            wrong_ca_bundle: "the user data has no CA bundle",
        }

    run(program)


def test_simulated_day_takes_seconds_and_no_node_is_overcommitted() -> None:
    async def program(env: Environment) -> None:
        env.launch(count=2)
        await env.deploy(replicas=1, cpu="300m")
        for hour in range(24):
            await env.scale("web", 1 + hour % 7)
            await env.sleep(3600)
            assert len(await env.running()) == 1 + hour % 7
            assert_no_node_is_overcommitted(await env.all(Node), await env.all(Pod))

    began_s = time.process_time()
    run(program, timings=timings.SPARSE)
    assert time.process_time() - began_s < 30


def assert_no_node_is_overcommitted(nodes: Sequence[Node], all_pods: Sequence[Pod]) -> None:
    for node in nodes:
        node_pods = [pod for pod in all_pods if pod.spec.get("nodeName") == node.metadata.name]
        millis = sum(
            500 if pod.spec["containers"][0]["resources"]["requests"]["cpu"] == "500m" else 300
            for pod in node_pods
        )
        assert millis <= amounts.parse(node.status["allocatable"]["cpu"])


def silence(env: Environment, instance_id: str) -> None:
    """The instance hangs, and its status checks still pass."""
    env.ec2.region.put_instance(env.ec2.region.instances[instance_id], silent=True)
