"""The charts on a real control plane: helm installs and updates them; KWOK's kubelets run the pods.

Run by `make e2e`. helm --wait and kubectl wait for states, never for a fixed time.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import build_peers
import charts
import check_charts
from charts import Client
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane, processes
from holdfast.sim.processes import Health

TOKEN = "an-admin"
STAGES = check_charts.go_module("sigs.k8s.io/kwok", required_by="kwok") / "kustomize/stage"
BEHAVIOUR = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)
ACCOUNT = f"system:serviceaccount:{charts.NAMESPACE}:holdfast"
WAIT = ("--wait", "--timeout=3m")
OLD_PODS_ARE_DELETED = (
    *("wait", "--for=delete", "pod", "--namespace", charts.NAMESPACE, "--timeout=90s"),
    *("--field-selector=status.phase!=Running", "--all"),
)
SMALL = ("--set", "controller.resources.requests.cpu=500m")
FULL = ("--set", "controller.resources.requests.cpu=1500m")  # two of them fill a node


async def nodes_of_ready_pods(cluster: Client, version: str) -> list[str]:
    words = ("get", "pods", "--namespace", charts.NAMESPACE, "--output", "json")
    found = json.loads(await cluster.kubectl(*words))["items"]
    assert all(one["metadata"]["annotations"]["version"] == version for one in found)
    return sorted(
        one["spec"]["nodeName"]
        for one in found
        for condition in one["status"].get("conditions", ())
        if (condition["type"], condition["status"]) == ("Ready", "True")
    )


def node(number: int) -> dict[str, Any]:
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": f"node-{number}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{number}",
            "labels": labels | {"topology.kubernetes.io/zone": f"us-west-2{'abc'[number]}"},
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    }


@asynccontextmanager
async def cluster(folder: Path, nodes: int) -> AsyncIterator[Client]:
    async with processes.running(folder, RealClock(), build_peers.binary) as started:
        address = await control_plane.start_server(started, folder, token=TOKEN)
        await control_plane.start_managers(started, folder, address, token=TOKEN)
        (folder / "kubeconfig").write_text(address.kubeconfig(TOKEN), encoding="utf-8")
        (port,) = control_plane.free_ports(1)
        await started.start(
            "kwok",
            f"--kubeconfig={folder / 'kubeconfig'}",
            "--manage-all-nodes",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{port}",
            *(f"--config={STAGES / stage}" for stage in BEHAVIOUR),
            health=Health(f"http://127.0.0.1:{port}/healthz"),
        )
        running = Client(folder / "kubeconfig")
        await running.kubectl("create", "namespace", charts.NAMESPACE)
        for number in range(nodes):
            await running.kubectl("create", "--filename", "-", stdin=node(number))
        await running.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
        yield running


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("resources", [SMALL, FULL], ids=["small", "full"])
def test_two_replicas_are_updated_on_one_node_and_on_two(
    tmp_path: Path, nodes: int, resources: tuple[str, ...]
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, nodes) as running:
            for version in ("a", "b", "c"):
                await running.install(*resources, *WAIT, "--set", f"podAnnotations.version={version}")
                # helm does not wait for the pods of the old ReplicaSet to be deleted.
                await running.kubectl(*OLD_PODS_ARE_DELETED)
                found = await nodes_of_ready_pods(running, version)
                assert found == [f"node-{number % nodes}" for number in range(2)], (version, found)

    asyncio.run(main())


def test_required_anti_affinity_needs_two_nodes(tmp_path: Path) -> None:
    """Why the default is preferred: with it, this install would never be ready."""

    async def main() -> None:
        async with cluster(tmp_path, nodes=1) as running:
            values = ("--values", charts.VALUES / "karpenter.yaml", "--set", "serviceMonitor.enabled=false")
            install = ("install", "holdfast", charts.CHART, "--namespace", charts.NAMESPACE)
            done = await running.run("helm", *install, *values, "--wait", "--timeout=20s")
            assert done.code == 1
            pods = await running.kubectl("get", "pods", "--namespace", charts.NAMESPACE, "--no-headers")
            assert sorted(line.split()[2] for line in pods.splitlines()) == ["Pending", "Running"]

    asyncio.run(main())


def test_service_account_has_its_rights_and_no_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, nodes=1) as running:
            await running.install(*WAIT)

            async def may(verb: str, resource: str, namespace: str) -> bool:
                words = ("auth", "can-i", verb, resource, "--as", ACCOUNT, "--namespace", namespace)
                return (await running.run("kubectl", *words)).out.strip() == "yes"

            lease = "leases/holdfast-leader-election"
            assert await may("patch", lease, charts.NAMESPACE)
            assert await may("get", "services/kube-dns", "kube-system")
            assert await may("create", "nodeclaims.karpenter.sh", "default")
            for verb, resource, namespace in (
                ("patch", lease, "kube-system"),
                ("patch", "leases/other", charts.NAMESPACE),
                ("get", "services/kube-dns", "default"),
                ("get", "secrets", charts.NAMESPACE),
                ("create", "nodepools.karpenter.sh", "default"),
                ("create", "pods", charts.NAMESPACE),
            ):
                assert not await may(verb, resource, namespace), (verb, resource, namespace)
            admin = ("get", "clusterrole", "admin", "--output", "json")
            rules = json.loads(await running.kubectl(*admin))["rules"]
            granted = {resource for rule in rules for resource in rule.get("resources", ())}
            assert {"nodepools", "nodeclaims", "ec2nodeclasses"} <= granted

    asyncio.run(main())
