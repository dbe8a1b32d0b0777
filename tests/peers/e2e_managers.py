"""kube-scheduler and kube-controller-manager with the embedded API server, and with a real one.

Run by `make e2e`. The nodes are simulated in both; the real programs must behave in the same way.
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
    """A sandbox with two nodes and three pods."""
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
    address = arena.sandbox.address
    joins = Cluster(
        name=setup.CLUSTER,
        endpoint=address.url,
        ca_bundle=base64.b64encode(address.authority).decode(),
        service_cidr="10.96.0.0/16",
        dns_ip="",
    )
    text = userdata.text("AL2023", Bootstrap(cluster=joins, max_pods=29))
    image = arena.now(lambda: arena.sandbox.cloud.ec2.region.setup.images[0].id)
    encoded = base64.b64encode(text.encode()).decode()
    wanted = {"ImageId": image, "InstanceType": "m5.large", "UserData": encoded}
    arena.aws("RunInstances", MinCount=count, MaxCount=count, **wanted)


def test_controllers_create_pods_and_the_scheduler_binds_them(arena: Arena) -> None:
    pods = arena.running("web")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2  # kube-scheduler spreads pods if it can
    (owner,) = arena.all("ReplicaSet")
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {owner["metadata"]["uid"]}
    arena.until(lambda: is_available(arena, "web", 3), "the Deployment says that all are available")


def is_available(arena: Arena, name: str, count: int) -> bool:
    found = arena.get("Deployment", name)
    return found is not None and found["status"].get("availableReplicas") == count


def test_startup_taint_of_a_node_is_removed(arena: Arena) -> None:
    arena.until(
        lambda: not any(node["spec"].get("taints") for node in arena.all("Node")),
        "the node life cycle takes off its taints",
    )


def test_pod_disruption_budget_is_counted_and_enforced(arena: Arena) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
    }
    arena.create(budget)

    def is_counted() -> bool:
        found = arena.get("PodDisruptionBudget", "web")
        return found is not None and found.get("status", {}).get("currentHealthy") == 3

    arena.until(is_counted, "the budget counts three")
    pod_name = arena.running("web")[0]["metadata"]["name"]
    assert arena.evict(pod_name) == 429
    arena.delete("PodDisruptionBudget", "web")
    assert arena.evict(pod_name) == 201
    arena.until_running("web", 3)


def test_new_pod_template_is_rolled_out(arena: Arena) -> None:
    change = {"spec": {"template": {"metadata": {"labels": {"wave": "second"}}}}}
    arena.patch("Deployment", "web", change)

    def rolled() -> bool:
        pods = arena.running("web")
        return len(pods) == 3 and all(pod["metadata"]["labels"].get("wave") == "second" for pod in pods)

    arena.until(rolled, "three pods of the second wave run")


def test_owned_objects_are_deleted_with_their_owner(arena: Arena) -> None:
    arena.delete("Deployment", "web")
    arena.until(lambda: not arena.all("ReplicaSet") and not arena.all("Pod"), "nothing of it is left")
