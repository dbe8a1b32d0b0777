"""Holdfast on a real control plane: kube-apiserver, kube-scheduler and kube-controller-manager; kubelets and EC2 are
simulated.

Run by `make e2e`. It waits for states, never for a fixed time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import process_environment
from holdfast.api.cluster import Event
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.app.sandbox import ControlPlane
from holdfast.sim.cluster import pods
from holdfast.sim.cluster.kinds import Deployment, Pod
from process_environment import ProcessEnvironment

Program = Callable[[ProcessEnvironment], Awaitable[None]]


def run(program: Program, folder: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(folder, control_plane=ControlPlane.REAL) as env:
            await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
            await env.node_pool()
            await program(env)

    asyncio.run(main())


async def until_running(
    env: ProcessEnvironment, count: int, within_s: float = process_environment.WITHIN_S
) -> None:
    async def holds() -> bool:
        found = [pod for pod in (await env.kube.list(Pod)).items if not pods.is_terminating(pod)]
        return len(found) == count and all(pods.ready(pod) for pod in found)

    await env.until(holds, f"{count} pods run", within_s=within_s)


def test_scale_up_drain_with_real_evictions_and_scale_down(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start()
        await env.deploy("web", replicas=3, cpu="1500m", affinity=process_environment.apart("web"))
        await env.sandbox.create(budget("web", at_least=2))
        await until_running(env, 3)
        nodes = (await env.kube.list(Node)).items
        kinds = sorted(n.metadata.labels["karpenter.sh/capacity-type"] for n in nodes)
        assert (len(nodes), kinds.count("reserved")) == (3, 2)
        assert env.cloud.ec2.region.reservations[env.slots].available == 0

        # A NodeClaim is deleted: its pod is evicted and runs on another node, and the PodDisruptionBudget is respected.
        deleted_claim = (await env.kube.list(NodeClaim)).items[0]
        await env.kube.delete(deleted_claim)
        fewest = 3

        async def claim_is_deleted() -> bool:
            nonlocal fewest
            fewest = min(fewest, await env.running_pods())
            left = {claim.metadata.name for claim in (await env.kube.list(NodeClaim)).items}
            return deleted_claim.metadata.name not in left

        await env.until(claim_is_deleted, "the claim is gone")
        await until_running(env, 3)
        assert fewest >= 2
        assert any(event.reason == "Evicted" for event in (await env.kube.list(Event)).items)

        # Scale-down: Holdfast terminates the empty nodes, and the slots are free again.
        await env.kube.patch(await env.kube.get(Deployment, "web", "default"), {"spec": {"replicas": 0}})
        await until_running(env, 0)

        async def nothing_left() -> bool:
            instances = [one for one in env.cloud.ec2.region.instances if one.is_pending_or_running]
            return not instances and not (await env.kube.list(Node)).items

        await env.until(nothing_left, "no node and no instance is left", within_s=240)
        assert await replica.stop() == 0

    run(program, tmp_path)


def test_two_hundred_pods_with_anti_affinity_run_and_two_of_them_are_reserved(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async def program(env: ProcessEnvironment) -> None:
        # A busy computer can keep a leader from renewing its Lease in time, which ends the process.
        replica = await env.start("--batch-idle-duration=1s", "--disable-leader-election=true")
        await env.deploy("web", replicas=200, cpu="1500m", affinity=process_environment.apart("web"))
        await until_running(env, 200, within_s=600)
        record_property("memory_mib", round(replica.memory_mib))
        assert replica.memory_mib < 300  # Karpenter's: 444
        reservation = env.cloud.ec2.region.reservations[env.slots]
        instances = [one for one in env.cloud.ec2.region.instances if one.is_pending_or_running]
        in_slots = {one.id for one in instances if one.reservation_id == reservation.id}
        assert (len(instances), len(in_slots), reservation.available) == (200, 2, 0)
        nodes = (await env.kube.list(Node)).items
        reserved = [n for n in nodes if n.metadata.labels["karpenter.sh/capacity-type"] == "reserved"]
        assert len(nodes) == 200
        assert {node.spec.provider_id.rpartition("/")[2] for node in reserved} == in_slots
        assert len((await env.kube.list(NodeClaim)).items) == 200
        assert len({pods.node_of(pod) for pod in (await env.kube.list(Pod)).items}) == 200

    run(program, tmp_path)


def budget(app: str, at_least: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": at_least, "selector": {"matchLabels": {"app": app}}},
    }
