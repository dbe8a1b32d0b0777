"""The simulated kube-scheduler: which nodes pods are bound to, and which pods stay pending."""

from collections import Counter
from typing import Any

from cluster_world import World, reason, run
from holdfast import names
from holdfast.sim.cluster import timings
from holdfast.sim.cluster.kinds import Node, Pod

WEB = {"matchLabels": {"app": "web"}}
QUICK = timings.Timings(boot_s=1, ready_s=1, devices_s=1)


async def zones(world: World, app: str = "web") -> dict[str, int]:
    """The number of pods of an app in each zone; pods without a node are under a dash."""
    letters = {node.metadata.name: node.metadata.labels[names.ZONE][-1] for node in await world.all(Node)}
    return Counter(letters.get(pod.spec.get("nodeName", ""), "-") for pod in await world.pods(app))


async def one_node_in_each(world: World, letters: str = "abc", instance_type: str = "m5.xlarge") -> None:
    for letter in letters:
        world.launch(instance_type, zone=letter)
    await world.nodes_ready(len(letters))


def spread(key: str, max_skew: int = 1, **fields: Any) -> dict[str, Any]:
    plain = {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    return {"topologyKey": key, "maxSkew": max_skew, **plain, **fields}


def test_pods_are_spread_over_zones_by_their_constraint() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world)
        world.launch("m5.4xlarge", zone="a")  # much capacity in one zone
        await world.nodes_ready(4)
        await world.deploy(replicas=9, cpu="100m", topologySpreadConstraints=[spread(names.ZONE)])
        await world.until_running(9)
        assert await zones(world) == {"a": 3, "b": 3, "c": 3}

    run(program, timings=QUICK)


def test_pods_that_would_exceed_the_max_skew_stay_pending() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "ab", "m5.large")
        await world.deploy("hog", cpu="1500m", nodeSelector={names.ZONE: "us-west-2b"})
        await world.until_running(1, "hog")
        await world.deploy(replicas=3, cpu="500m", topologySpreadConstraints=[spread(names.ZONE)])
        await world.sleep(10)
        assert await zones(world) == {"a": 1, "-": 2}
        waiting = [reason(pod) for pod in await world.pods() if not pod.spec.get("nodeName")]
        why = "1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints"
        assert waiting == [("Unschedulable", f"0/2 nodes are available: {why}.")] * 2

    run(program, timings=QUICK)


def test_min_domains_may_exceed_the_number_of_zones() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "ab")
        constraint = spread(names.ZONE, minDomains=3)
        await world.deploy(replicas=4, cpu="100m", topologySpreadConstraints=[constraint])
        await world.sleep(10)
        assert await zones(world) == {"a": 1, "b": 1, "-": 2}
        world.launch(zone="c")
        await world.until_running(4)
        assert sorted((await zones(world)).values()) == [1, 1, 2]

    run(program, timings=QUICK)


def test_pods_with_anti_affinity_get_a_node_each_and_the_rest_stay_pending() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "ab")
        term = {"topologyKey": names.HOSTNAME, "labelSelector": WEB}
        anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await world.deploy(replicas=3, cpu="100m", affinity=anti_affinity)
        await world.sleep(10)
        assert await zones(world) == {"a": 1, "b": 1, "-": 1}
        (waiting,) = [pod for pod in await world.pods() if not pod.spec.get("nodeName")]
        assert (
            reason(waiting)[1] == "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
        )
        world.launch(zone="c")
        await world.until_running(3)

    run(program, timings=QUICK)


def test_anti_affinity_of_a_running_pod_excludes_new_pods_from_its_zone() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "ab")
        term = {"topologyKey": names.ZONE, "labelSelector": WEB}
        anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await world.deploy(
            "recluse", cpu="100m", affinity=anti_affinity, nodeSelector={names.ZONE: "us-west-2a"}
        )
        await world.until_running(1, "recluse")
        await world.deploy(replicas=2, cpu="100m")
        await world.until_running(2)
        assert await zones(world) == {"b": 2}

    run(program, timings=QUICK)


def test_pods_with_affinity_are_bound_in_one_zone_and_the_first_in_any_zone() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "abc")
        term = {"topologyKey": names.ZONE, "labelSelector": WEB}
        pod_affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await world.deploy(replicas=4, cpu="100m", affinity=pod_affinity)
        await world.deploy("fan", cpu="100m", affinity=pod_affinity)
        await world.until_running(4)
        await world.until_running(1, "fan")
        assert len(await zones(world)) == 1
        assert set(await zones(world)) == set(await zones(world, "fan"))

    run(program, timings=QUICK)


def test_host_port_is_used_once_per_node() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "ab")
        port = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
        await world.deploy(replicas=3, cpu="100m", container=port)
        await world.sleep(10)
        assert await zones(world) == {"a": 1, "b": 1, "-": 1}

    run(program, timings=QUICK)


def test_pods_of_one_owner_are_spread_by_default() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world)
        await world.deploy(replicas=6, cpu="100m")
        await world.until_running(6)
        assert await zones(world) == {"a": 2, "b": 2, "c": 2}

    run(program, timings=QUICK)


def test_pod_with_the_higher_priority_is_bound_first() -> None:
    async def program(world: World) -> None:
        await world.deploy(cpu="1500m")
        await world.deploy("vital", cpu="1500m", priorityClassName="system-cluster-critical")
        await world.sleep(2)
        world.launch()
        await world.until_running(1, "vital")
        (waiting,) = await world.pods()
        assert reason(waiting)[1] == "0/1 nodes are available: 1 Insufficient cpu."

    run(program, timings=QUICK)


def test_gated_pods_and_pods_of_another_scheduler_are_not_bound() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "a")
        await world.deploy("gated", schedulingGates=[{"name": "example.com/wait"}])
        await world.deploy("other", schedulerName="mine")
        await world.sleep(10)
        found: list[Pod] = [*await world.pods("gated"), *await world.pods("other")]
        assert [pod.spec.get("nodeName") for pod in found] == [None, None]
        await world.kube.patch(found[0], {"spec": {"schedulingGates": []}}, only_if_unchanged=True)
        await world.until_running(1, "gated")

    run(program, timings=QUICK)
