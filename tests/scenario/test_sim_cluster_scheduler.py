"""The simulated kube-scheduler: where pods go, and where they do not."""

from collections import Counter
from typing import Any

from cluster_world import World, reason, run
from holdfast import names
from holdfast.sim.cluster import timings
from holdfast.sim.cluster.kinds import Node, Pod

WEB = {"matchLabels": {"app": "web"}}
QUICK = timings.Timings(boot_s=1, ready_s=1, devices_s=1)


async def zones(world: World, app: str = "web") -> dict[str, int]:
    """How many pods of an app are in each zone; those that are nowhere are under a dash."""
    letters = {node.metadata.name: node.metadata.labels[names.ZONE][-1] for node in await world.all(Node)}
    return Counter(letters.get(pod.spec.get("nodeName", ""), "-") for pod in await world.pods(app))


async def one_node_in_each(world: World, letters: str = "abc", instance_type: str = "m5.xlarge") -> None:
    for letter in letters:
        world.launch(instance_type, zone=letter)
    await world.nodes_ready(len(letters))


def spread(key: str, max_skew: int = 1, **fields: Any) -> dict[str, Any]:
    plain = {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    return {"topologyKey": key, "maxSkew": max_skew, **plain, **fields}


def test_pods_are_spread_over_zones_as_their_constraint_says() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world)
        world.launch("m5.4xlarge", zone="a")  # much room, in one zone
        await world.nodes_ready(4)
        await world.deploy(replicas=9, cpu="100m", topologySpreadConstraints=[spread(names.ZONE)])
        await world.until_running(9)
        assert await zones(world) == {"a": 3, "b": 3, "c": 3}

    run(program, timings=QUICK)


def test_a_spread_that_would_become_too_uneven_keeps_pods_waiting() -> None:
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


def test_more_domains_than_there_are_may_be_asked_for() -> None:
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


def test_pods_that_shun_each_other_get_a_node_each_and_the_rest_wait() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "ab")
        term = {"topologyKey": names.HOSTNAME, "labelSelector": WEB}
        shun = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await world.deploy(replicas=3, cpu="100m", affinity=shun)
        await world.sleep(10)
        assert await zones(world) == {"a": 1, "b": 1, "-": 1}
        (waiting,) = [pod for pod in await world.pods() if not pod.spec.get("nodeName")]
        assert (
            reason(waiting)[1] == "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
        )
        world.launch(zone="c")
        await world.until_running(3)

    run(program, timings=QUICK)


def test_a_pod_is_kept_away_by_the_aversion_of_one_that_is_there() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "ab")
        term = {"topologyKey": names.ZONE, "labelSelector": WEB}
        shun = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await world.deploy("recluse", cpu="100m", affinity=shun, nodeSelector={names.ZONE: "us-west-2a"})
        await world.until_running(1, "recluse")
        await world.deploy(replicas=2, cpu="100m")
        await world.until_running(2)
        assert await zones(world) == {"b": 2}

    run(program, timings=QUICK)


def test_pods_that_want_company_go_where_it_is_and_the_first_goes_anywhere() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "abc")
        term = {"topologyKey": names.ZONE, "labelSelector": WEB}
        like = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await world.deploy(replicas=4, cpu="100m", affinity=like)
        await world.deploy("fan", cpu="100m", affinity=like)
        await world.until_running(4)
        await world.until_running(1, "fan")
        assert len(await zones(world)) == 1
        assert set(await zones(world)) == set(await zones(world, "fan"))

    run(program, timings=QUICK)


def test_a_port_of_a_node_is_taken_once() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world, "ab")
        port = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
        await world.deploy(replicas=3, cpu="100m", container=port)
        await world.sleep(10)
        assert await zones(world) == {"a": 1, "b": 1, "-": 1}

    run(program, timings=QUICK)


def test_pods_of_one_owner_are_spread_though_nobody_asked() -> None:
    async def program(world: World) -> None:
        await one_node_in_each(world)
        await world.deploy(replicas=6, cpu="100m")
        await world.until_running(6)
        assert await zones(world) == {"a": 2, "b": 2, "c": 2}

    run(program, timings=QUICK)


def test_the_more_important_pod_goes_first() -> None:
    async def program(world: World) -> None:
        await world.deploy(cpu="1500m")
        await world.deploy("vital", cpu="1500m", priorityClassName="system-cluster-critical")
        await world.sleep(2)
        world.launch()
        await world.until_running(1, "vital")
        (waiting,) = await world.pods()
        assert reason(waiting)[1] == "0/1 nodes are available: 1 Insufficient cpu."

    run(program, timings=QUICK)


def test_a_gated_pod_and_one_of_another_scheduler_are_left_alone() -> None:
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
