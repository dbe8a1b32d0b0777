"""Nodes of the simulated cluster: they follow from the instance type and the user data alone."""

import msgspec
import pytest

from cluster_environment import Environment, reason, run
from holdfast import names
from holdfast.model.taints import Effect, Taint
from holdfast.sim.cluster import amounts, pods
from holdfast.sim.cluster.kinds import CSINode, Lease, Node
from holdfast.sim.cluster.timings import Timings

MIB = 2**20 * 1000


@pytest.mark.parametrize("family", ["AL2023", "AL2", "Bottlerocket", "Windows2022"])
def test_labels_taints_and_sizes_of_a_node_come_from_the_user_data_of_its_family(family: str) -> None:
    async def program(env: Environment) -> None:
        (instance,) = env.launch(
            family=family,
            labels={"team": "ml", "karpenter.sh/nodepool": "default", names.ARCH: "dropped by the writer"},
            taints=(
                Taint("team", Effect.NO_SCHEDULE, "ml"),
                Taint("karpenter.sh/unregistered", Effect.NO_EXECUTE),
            ),
            max_pods=17,
            kubelet={
                "kubeReserved": {"cpu": "250m", "memory": "1Gi"},
                "evictionHard": {"memory.available": "512Mi"},
            },
        )
        await env.nodes_ready(1)
        node = await env.node_of(instance)
        labels = node.metadata.labels
        assert (labels["team"], labels["karpenter.sh/nodepool"]) == ("ml", "default")
        assert labels[names.ARCH] == "amd64"
        assert labels[names.OS] == ("windows" if family.startswith("Windows") else "linux")
        assert labels[names.INSTANCE_TYPE] == "m5.large"
        assert (labels[names.ZONE], labels[names.REGION]) == ("us-west-2a", "us-west-2")
        assert labels["topology.k8s.aws/zone-id"] == "usw2-az2"
        assert {(t["key"], t.get("value", ""), t["effect"]) for t in node.spec["taints"]} == {
            ("team", "ml", "NoSchedule"),
            ("karpenter.sh/unregistered", "", "NoExecute"),
        }
        capacity, allocatable = amounts.of(node.status["capacity"]), amounts.of(node.status["allocatable"])
        assert (capacity["pods"], capacity["cpu"], allocatable["cpu"]) == (17_000, 2000, 1750)
        assert capacity["memory"] - allocatable["memory"] == (1024 + 512) * MIB
        assert node.spec["providerID"] == f"aws:///us-west-2a/{instance}"

    run(program)


def test_node_is_unschedulable_until_it_is_ready() -> None:
    async def program(env: Environment) -> None:
        await env.deploy(replicas=1)
        (instance,) = env.launch()

        async def registered() -> bool:
            return any(lease.metadata.namespace == "kube-node-lease" for lease in await env.all(Lease))

        await env.until(registered)
        await env.sleep(3)
        node = await env.node_of(instance)
        assert pods.condition(node.status, "Ready")["status"] == "False"
        (pod,) = await env.pods()
        assert reason(pod) == (
            "Unschedulable",
            "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
        )
        await env.until_running(1)
        assert "taints" not in (await env.node_of(instance)).spec
        (storage,) = await env.all(CSINode)
        assert [driver["name"] for driver in storage.spec["drivers"]] == ["ebs.csi.aws.com"]

    run(program)


def test_devices_appear_after_the_node_is_ready_and_pods_wait_for_them() -> None:
    async def program(env: Environment) -> None:
        (instance,) = env.launch("g4dn.xlarge")
        await env.nodes_ready(1)
        assert "nvidia.com/gpu" not in (await env.node_of(instance)).status["allocatable"]
        await env.deploy(limits={"nvidia.com/gpu": "1"}, replicas=2)
        await env.sleep(3)
        assert {reason(pod)[1] for pod in await env.pods()} == {
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        }
        await env.sleep(30)
        assert (await env.node_of(instance)).status["capacity"]["nvidia.com/gpu"] == "1"
        assert len(await env.running()) == 1

    run(program)


def test_agents_remove_their_startup_taints() -> None:
    async def program(env: Environment) -> None:
        (instance,) = env.launch(taints=(Taint("ebs.csi.aws.com/agent-not-ready", Effect.NO_EXECUTE),))
        await env.nodes_ready(1)
        assert [t["key"] for t in (await env.node_of(instance)).spec["taints"]] == [
            "ebs.csi.aws.com/agent-not-ready"
        ]
        await env.sleep(30)
        assert "taints" not in (await env.node_of(instance)).spec

    run(program)


def test_deleted_node_is_not_created_again_while_its_instance_runs() -> None:
    async def program(env: Environment) -> None:
        (instance,) = env.launch()
        await env.nodes_ready(1)
        await env.kube.delete(await env.node_of(instance))
        await env.sleep(600)
        assert await env.all(Node) == ()
        assert await env.all(Lease) == ()

    run(program)


def test_node_without_a_kubelet_is_unreachable() -> None:
    async def program(env: Environment) -> None:
        await env.create("/api/v1/nodes", {"metadata": {"name": "lonely"}})
        await env.sleep(60)
        node = await env.kube.get(Node, "lonely")
        assert pods.condition(node.status, "Ready")["status"] == "Unknown"
        assert {taint["key"] for taint in node.spec["taints"]} == {names.UNREACHABLE_TAINT}

    run(program)


def test_raid0_of_local_disks_replaces_the_root_volume_as_ephemeral_storage() -> None:
    async def program(env: Environment) -> None:
        gib = 2**30 * 1000
        (plain,) = env.launch()
        (raided,) = env.launch("m5d.large", raid0=True)
        await env.nodes_ready(2)
        assert amounts.parse((await env.node_of(plain)).status["capacity"]["ephemeral-storage"]) == 20 * gib
        assert (
            amounts.parse((await env.node_of(raided)).status["capacity"]["ephemeral-storage"]) == 75 * 10**12
        )

    run(program)


def test_a_node_has_its_capacity_from_its_first_version_on() -> None:
    """A real kubelet registers with its status. A controller that reads the Node without it records a capacity of 0."""

    async def program(env: Environment) -> None:
        env.launch()
        await env.nodes_ready(1)
        changes = env.server.registry.store.bucket("/nodes").changes(0)
        first = msgspec.json.decode(changes[0].after.body)["status"]
        assert first["capacity"]["cpu"] == "2"
        assert amounts.of(first["allocatable"])["memory"] > 0
        assert {one["type"] for one in first["conditions"]} >= {"Ready", "MemoryPressure"}

    run(program)


@pytest.mark.parametrize("heartbeats", [True, False])
def test_node_of_a_silent_instance_is_unreachable_after_the_grace_period(heartbeats: bool) -> None:  # noqa: FBT001
    """Without heartbeats, as in long simulations, it takes about as long."""

    async def program(env: Environment) -> None:
        (instance,) = env.launch()
        await env.nodes_ready(1)
        await env.sleep(600)

        async def is_unreachable() -> bool:
            node = await env.node_of(instance)
            return bool(pods.condition(node.status, "Ready")["status"] == "Unknown")

        assert not await is_unreachable()
        region = env.ec2.region
        region.put_instance(region.instances[instance], silent=True)
        took_s = await env.until(is_unreachable)
        assert 35 <= took_s <= 55  # the last heartbeat was up to ten seconds before

    run(program, timings=Timings(heartbeats=heartbeats))
