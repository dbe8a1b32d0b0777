"""What happens to nodes if the CRDs are deleted first, on a real control plane; kubelets and EC2 are simulated.

Run by `make e2e`. Each test shows rows of the table in docs/install.md, "If the CRDs are deleted first".
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import process_environment
from charts import Client
from holdfast.api import crds
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.app import sandbox
from holdfast.app.sandbox import ControlPlane
from process_environment import ProcessEnvironment, Replica

NODE_CLAIMS, NODE_CLASSES = "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"
NAMES = [crd["metadata"]["name"] for crd in crds.all_crds()]
STEADY_S = 10.0  # how long nothing may change


class Cluster:
    def __init__(self, env: ProcessEnvironment) -> None:
        self.env = env
        self.client = Client(env.sandbox.kubeconfig)

    async def provision(self, name: str) -> tuple[Replica, dict[str, str]]:
        """Two pods run in slots. Returns the controller, and the instances with their reservations."""
        await self.env.node_class(capacityReservationSelectorTerms=[{"id": self.env.slots}])
        await self.env.node_pool()
        replica = await self.env.start()
        await self.env.deploy(name, replicas=2, cpu="1500m", affinity=process_environment.apart(name))
        await self.until_running(2)
        instances = self.instances()
        assert list(instances.values()) == [self.env.slots] * 2
        return replica, instances

    def instances(self) -> dict[str, str]:
        found = self.env.cloud.ec2.region.instances
        return {one.id: one.reservation_id or "" for one in found if one.is_pending_or_running}

    async def until_running(self, count: int) -> None:
        async def holds() -> bool:
            return await self.env.running_pods() == count

        await self.env.until(holds, f"{count} pods run")

    async def crds(self) -> dict[str, bool]:
        """The CRDs that exist, and whether each is being deleted."""
        found = json.loads(await self.client.kubectl("get", "crds", "--output", "json"))["items"]
        return {one["metadata"]["name"]: "deletionTimestamp" in one["metadata"] for one in found}

    async def delete_crds(self) -> None:
        await self.client.kubectl("delete", "crds", *NAMES, "--wait=false")

    async def until_crds(self, wanted: dict[str, bool]) -> None:
        async def holds() -> bool:
            return await self.crds() == wanted

        await self.env.until(holds, f"the CRDs are {wanted}")

    async def install_crds(self, *names: str) -> None:
        wanted = [crd for crd in crds.all_crds() if crd["metadata"]["name"] in (names or NAMES)]
        await sandbox.install(wanted, self.env.sandbox.transport, self.env.clock)
        groups = {(crd["spec"]["group"], crd["spec"]["names"]["plural"]) for crd in wanted}

        async def served() -> bool:  # discovery lists a kind some time after it is established
            listed = set()
            for group in {group for group, _ in groups}:
                done = await self.client.run("kubectl", "get", "--raw", f"/apis/{group}/v1")
                found = json.loads(done.out)["resources"] if done.code == 0 else ()
                listed |= {(group, one["name"]) for one in found}
            return groups <= listed

        await self.env.until(served, "the kinds are served")

    async def until_terminated(self) -> None:
        async def holds() -> bool:
            return not self.instances()

        await self.env.until(holds, "no instance runs", within_s=180)

    async def stays(self, instances: dict[str, str]) -> None:
        """Nothing is launched or terminated for a while."""
        until_s = self.env.clock.monotonic_s() + STEADY_S
        while self.env.clock.monotonic_s() < until_s:
            assert self.instances() == instances
            await self.env.clock.sleep(0.5)


def run(program: Callable[[Cluster], Awaitable[None]], folder: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(folder, control_plane=ControlPlane.REAL) as env:
            await program(Cluster(env))

    asyncio.run(main())


def test_running_controller_terminates_the_nodes_and_launches_nothing_without_the_crds(
    tmp_path: Path,
) -> None:
    async def program(cluster: Cluster) -> None:
        replica, _ = await cluster.provision("web")
        await cluster.delete_crds()
        await cluster.until_terminated()
        await cluster.until_crds({})
        await cluster.stays({})  # the pods of web are pending
        assert replica.is_running
        failed = {line.get("kind") for line in replica.lines if line.get("message") == "watch failed"}
        assert {"nodepools", "nodeclaims", "ec2nodeclasses"} <= failed

        # It continues without a restart when the CRDs exist again.
        await cluster.install_crds()
        await cluster.env.node_class(capacityReservationSelectorTerms=[{"id": cluster.env.slots}])
        await cluster.env.node_pool()
        await cluster.until_running(2)
        assert list(cluster.instances().values()) == [cluster.env.slots] * 2

    run(program, tmp_path)


def test_nodes_run_while_the_controller_is_stopped_and_are_terminated_when_it_starts(tmp_path: Path) -> None:
    async def program(cluster: Cluster) -> None:
        replica, instances = await cluster.provision("web")
        assert await replica.stop() == 0
        cluster.env.replicas.clear()
        await cluster.delete_crds()
        await cluster.until_crds({NODE_CLAIMS: True, NODE_CLASSES: True})
        await cluster.stays(instances)
        assert await cluster.env.running_pods() == 2
        assert len((await cluster.env.kube.list(NodeClaim)).items) == 2

        # The controller is not ready without the CRD of NodePools, so it terminates nothing.
        replica = await cluster.env.start()
        await replica.wait_for_log("watch failed")
        await cluster.stays(instances)
        assert not any(line.get("message") == "synced caches" for line in replica.lines)

        await cluster.install_crds("nodepools.karpenter.sh")
        await cluster.until_terminated()
        await cluster.until_crds({"nodepools.karpenter.sh": False})
        assert (await cluster.env.kube.list(NodePool)).items == ()

    run(program, tmp_path)


def test_garbage_collection_terminates_instances_whose_finalizers_were_removed(tmp_path: Path) -> None:
    async def program(cluster: Cluster) -> None:
        replica, instances = await cluster.provision("web")
        assert await replica.stop() == 0
        cluster.env.replicas.clear()
        await cluster.delete_crds()
        kinds = ("nodeclaims", "ec2nodeclasses")
        for kind in kinds:
            for name in (await cluster.client.kubectl("get", kind, "--output", "name")).split():
                words = ("patch", name, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
                await cluster.client.kubectl(*words)
        await cluster.until_crds({})
        await cluster.stays(instances)
        assert await cluster.env.running_pods() == 2

        # Even without a NodePool or an EC2NodeClass: the tags of the instances name the cluster.
        await cluster.install_crds()
        await cluster.stays(instances)
        await cluster.env.start()
        await cluster.until_terminated()

    run(program, tmp_path)
