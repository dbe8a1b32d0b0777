"""The simulated kube-scheduler: which nodes pods are bound to, and which pods stay pending."""

from collections import Counter
from typing import Any

from cluster_environment import Environment, reason, run
from holdfast import names
from holdfast.sim.cluster import timings
from holdfast.sim.cluster.kinds import Node, Pod

WEB = {"matchLabels": {"app": "web"}}
QUICK = timings.Timings(boot_s=1, ready_s=1, devices_s=1)


async def zones(env: Environment, app: str = "web") -> dict[str, int]:
    """The number of pods of an app in each zone; pods without a node are under a dash."""
    letters = {node.metadata.name: node.metadata.labels[names.ZONE][-1] for node in await env.all(Node)}
    return Counter(letters.get(pod.spec.get("nodeName", ""), "-") for pod in await env.pods(app))


async def one_node_in_each(env: Environment, letters: str = "abc", instance_type: str = "m5.xlarge") -> None:
    for letter in letters:
        env.launch(instance_type, zone=letter)
    await env.nodes_ready(len(letters))


def spread(key: str, max_skew: int = 1, **fields: Any) -> dict[str, Any]:
    plain = {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    return {"topologyKey": key, "maxSkew": max_skew, **plain, **fields}


def test_pods_are_spread_over_zones_by_their_constraint() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env)
        env.launch("m5.4xlarge", zone="a")  # much capacity in one zone
        await env.nodes_ready(4)
        await env.deploy(replicas=9, cpu="100m", topologySpreadConstraints=[spread(names.ZONE)])
        await env.until_running(9)
        assert await zones(env) == {"a": 3, "b": 3, "c": 3}

    run(program, timings=QUICK)


def test_pods_that_would_exceed_the_max_skew_stay_pending() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "ab", "m5.large")
        await env.deploy("hog", cpu="1500m", nodeSelector={names.ZONE: "us-west-2b"})
        await env.until_running(1, "hog")
        await env.deploy(replicas=3, cpu="500m", topologySpreadConstraints=[spread(names.ZONE)])
        await env.sleep(10)
        assert await zones(env) == {"a": 1, "-": 2}
        waiting = [reason(pod) for pod in await env.pods() if not pod.spec.get("nodeName")]
        why = "1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints"
        assert waiting == [("Unschedulable", f"0/2 nodes are available: {why}.")] * 2

    run(program, timings=QUICK)


def test_min_domains_may_exceed_the_number_of_zones() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "ab")
        constraint = spread(names.ZONE, minDomains=3)
        await env.deploy(replicas=4, cpu="100m", topologySpreadConstraints=[constraint])
        await env.sleep(10)
        assert await zones(env) == {"a": 1, "b": 1, "-": 2}
        env.launch(zone="c")
        await env.until_running(4)
        assert sorted((await zones(env)).values()) == [1, 1, 2]

    run(program, timings=QUICK)


def test_pods_with_anti_affinity_get_a_node_each_and_the_rest_stay_pending() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "ab")
        term = {"topologyKey": names.HOSTNAME, "labelSelector": WEB}
        anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await env.deploy(replicas=3, cpu="100m", affinity=anti_affinity)
        await env.sleep(10)
        assert await zones(env) == {"a": 1, "b": 1, "-": 1}
        (waiting,) = [pod for pod in await env.pods() if not pod.spec.get("nodeName")]
        assert (
            reason(waiting)[1] == "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
        )
        env.launch(zone="c")
        await env.until_running(3)

    run(program, timings=QUICK)


def test_anti_affinity_of_a_running_pod_excludes_new_pods_from_its_zone() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "ab")
        term = {"topologyKey": names.ZONE, "labelSelector": WEB}
        anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await env.deploy(
            "recluse", cpu="100m", affinity=anti_affinity, nodeSelector={names.ZONE: "us-west-2a"}
        )
        await env.until_running(1, "recluse")
        await env.deploy(replicas=2, cpu="100m")
        await env.until_running(2)
        assert await zones(env) == {"b": 2}

    run(program, timings=QUICK)


def test_pods_with_affinity_are_bound_in_one_zone_and_the_first_in_any_zone() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "abc")
        term = {"topologyKey": names.ZONE, "labelSelector": WEB}
        pod_affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await env.deploy(replicas=4, cpu="100m", affinity=pod_affinity)
        await env.deploy("fan", cpu="100m", affinity=pod_affinity)
        await env.until_running(4)
        await env.until_running(1, "fan")
        assert len(await zones(env)) == 1
        assert set(await zones(env)) == set(await zones(env, "fan"))

    run(program, timings=QUICK)


def test_host_port_is_used_once_per_node() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "ab")
        port = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
        await env.deploy(replicas=3, cpu="100m", container=port)
        await env.sleep(10)
        assert await zones(env) == {"a": 1, "b": 1, "-": 1}

    run(program, timings=QUICK)


def test_pods_of_one_owner_are_spread_by_default() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env)
        await env.deploy(replicas=6, cpu="100m")
        await env.until_running(6)
        assert await zones(env) == {"a": 2, "b": 2, "c": 2}

    run(program, timings=QUICK)


def test_pod_with_the_higher_priority_is_bound_first() -> None:
    async def program(env: Environment) -> None:
        await env.deploy(cpu="1500m")
        await env.deploy("vital", cpu="1500m", priorityClassName="system-cluster-critical")
        await env.sleep(2)
        env.launch()
        await env.until_running(1, "vital")
        (waiting,) = await env.pods()
        assert reason(waiting)[1] == "0/1 nodes are available: 1 Insufficient cpu."

    run(program, timings=QUICK)


def team_taint(value: str) -> dict[str, Any]:
    return {"spec": {"taints": [{"key": "team", "value": value, "effect": "NoSchedule"}]}}


def test_a_node_that_the_same_filter_refuses_causes_no_attempt() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "a")
        (node,) = await env.all(Node)
        node = await env.kube.patch(node, team_taint("x"), only_if_unchanged=True)
        await env.deploy(cpu="100m")
        await env.sleep(5)
        (first,) = await env.pods()
        assert reason(first)[1] == "0/1 nodes are available: 1 node(s) had untolerated taint {team: x}."
        node = await env.kube.patch(node, team_taint("y"), only_if_unchanged=True)
        await env.sleep(5)
        assert await env.pods() == [first]
        await env.kube.patch(node, {"spec": {"taints": []}}, only_if_unchanged=True)
        await env.until_running(1)

    run(program, timings=QUICK)


def test_pod_that_was_refused_is_tried_again_after_its_spec_changed() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "a")
        (node,) = await env.all(Node)
        await env.kube.patch(node, team_taint("x"), only_if_unchanged=True)
        await env.deploy(cpu="100m")
        await env.sleep(5)
        (pod,) = await env.pods()
        assert reason(pod)[1] == "0/1 nodes are available: 1 node(s) had untolerated taint {team: x}."
        tolerations = [*pod.spec["tolerations"], {"key": "team", "operator": "Exists"}]
        await env.kube.patch(pod, {"spec": {"tolerations": tolerations}}, only_if_unchanged=True)
        await env.until_running(1)

    run(program, timings=QUICK)


def test_gated_pods_and_pods_of_another_scheduler_are_not_bound() -> None:
    async def program(env: Environment) -> None:
        await one_node_in_each(env, "a")
        await env.deploy("gated", schedulingGates=[{"name": "example.com/wait"}])
        await env.deploy("other", schedulerName="mine")
        await env.sleep(10)
        found: list[Pod] = [*await env.pods("gated"), *await env.pods("other")]
        assert [pod.spec.get("nodeName") for pod in found] == [None, None]
        await env.kube.patch(found[0], {"spec": {"schedulingGates": []}}, only_if_unchanged=True)
        await env.until_running(1, "gated")

    run(program, timings=QUICK)
