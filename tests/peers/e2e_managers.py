"""Kubernetes' own scheduler and controllers beside the embedded API server, and the same beside a real one.

Run by `make e2e`. The machines are simulated in both; what the real programs make of them must be the same.
"""

import base64
from collections.abc import Iterator

import pytest

from holdfast.cloud.aws.launch import userdata
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.sim.ec2 import setup
from peers import arena as arenas
from peers.arena import Arena, conditions, deployment

QUICK = {"boot": "0s", "join": "1s", "ready": "1s", "devices": "0s", "shutdown": "1s"}


@pytest.fixture(scope="module", params=["mixed", "real"])
def arena(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """With two nodes, and three pods on them."""
    folder = tmp_path_factory.mktemp(request.param)
    with arenas.opened(folder, {"timings": QUICK}, request.param, karpenter=False) as opened:
        launch(opened, 2)
        opened.until(
            lambda: [conditions(node).get("Ready") for node in opened.all("Node")] == ["True"] * 2,
            "two nodes are ready",
        )
        opened.create(deployment("web", 3, {"cpu": "500m"}, anywhere=True))
        opened.until_running("web", 3)
        yield opened


def launch(arena: Arena, count: int) -> None:
    address = arena.world.address
    joins = Cluster(
        name=setup.CLUSTER,
        endpoint=address.url,
        ca_bundle=base64.b64encode(address.authority).decode(),
        service_cidr="10.96.0.0/16",
        dns_ip="",
    )
    text = userdata.text("AL2023", Bootstrap(cluster=joins, max_pods=29))
    image = arena.now(lambda: arena.world.cloud.ec2.world.setup.images[0].id)
    encoded = base64.b64encode(text.encode()).decode()
    wanted = {"ImageId": image, "InstanceType": "m5.large", "UserData": encoded}
    arena.aws("RunInstances", MinCount=count, MaxCount=count, **wanted)


def test_pods_are_made_by_the_controllers_and_placed_by_the_scheduler(arena: Arena) -> None:
    pods = arena.running("web")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2  # the scheduler spreads what it can
    (owner,) = arena.all("ReplicaSet")
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {owner["metadata"]["uid"]}
    arena.until(lambda: is_available(arena, "web", 3), "the Deployment says that all are available")


def is_available(arena: Arena, name: str, count: int) -> bool:
    found = arena.get("Deployment", name)
    return found is not None and found["status"].get("availableReplicas") == count


def test_a_node_loses_the_taint_that_it_came_with(arena: Arena) -> None:
    arena.until(
        lambda: not any(node["spec"].get("taints") for node in arena.all("Node")),
        "the node life cycle takes off its taints",
    )


def test_a_budget_is_counted_and_kept(arena: Arena) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
    }
    arena.create(budget)

    def counted() -> bool:
        found = arena.get("PodDisruptionBudget", "web")
        return found is not None and found.get("status", {}).get("currentHealthy") == 3

    arena.until(counted, "the budget counts three")
    victim = arena.running("web")[0]["metadata"]["name"]
    assert arena.evict(victim) == 429
    arena.delete("PodDisruptionBudget", "web")
    assert arena.evict(victim) == 201
    arena.until_running("web", 3)


def test_a_new_template_rolls_through(arena: Arena) -> None:
    change = {"spec": {"template": {"metadata": {"labels": {"wave": "second"}}}}}
    arena.patch("Deployment", "web", change)

    def rolled() -> bool:
        pods = arena.running("web")
        return len(pods) == 3 and all(pod["metadata"]["labels"].get("wave") == "second" for pod in pods)

    arena.until(rolled, "three pods of the second wave run")


def test_what_is_owned_goes_with_its_owner(arena: Arena) -> None:
    arena.delete("Deployment", "web")
    arena.until(lambda: not arena.all("ReplicaSet") and not arena.all("Pod"), "nothing of it is left")
