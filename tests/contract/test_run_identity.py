"""`holdfast run` as a process while EKS denies every call, against a simulated cluster and AWS over HTTP."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import live_world
from holdfast.api import claim_conditions, conditions
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import Fault, NoFaults
from live_world import LiveWorld

CLASS_HASH = "karpenter.k8s.aws/ec2nodeclass-hash"


class Denied(NoFaults):
    def fault(self, service: str, _: str, __: Mapping[str, Any], /) -> Fault | ApiError | None:
        return ApiError("AccessDeniedException", "not authorized", 403) if service == "eks" else None


async def validation_failure(world: LiveWorld) -> str:
    """The reason why the class is not valid; empty if it is."""
    node_class = await world.kube.get(EC2NodeClass, "default")
    found = conditions.find(node_class.status.conditions, "ValidationSucceeded")
    assert found is not None
    return found.reason or "" if found.status != conditions.TRUE else ""


async def claims(world: LiveWorld) -> dict[str, tuple[str, bool]]:
    """The launched NodeClaims by name: the hash of the class, and whether the claim drifted."""
    return {
        claim.metadata.name: (
            claim.metadata.annotations[CLASS_HASH],
            conditions.holds(claim.status.conditions, claim_conditions.DRIFTED),
        )
        for claim in (await world.kube.list(NodeClaim)).items
        if CLASS_HASH in claim.metadata.annotations
    }


def test_denied_describe_cluster_drifts_no_node_and_launches_none(tmp_path: Path) -> None:
    async def running(world: LiveWorld, count: int) -> None:
        async def enough() -> bool:
            return await world.running_pods() == count

        await world.until(enough, f"{count} pods run", within_s=240)

    async def program(world: LiveWorld) -> None:
        first = await world.start()
        await world.node_class()
        await world.node_pool()
        await world.deploy("web", replicas=1, cpu="1500m")
        await running(world, 1)
        before = await claims(world)
        assert await first.stop() == 0
        world.replicas.remove(first)

        async def starts_and_refuses(reason: str) -> live_world.Replica:
            async def refused() -> bool:
                return await validation_failure(world) == reason

            replica = await world.start()
            await world.until(refused, "the class is not valid")
            await world.clock.sleep(5)
            assert await claims(world) == before
            assert len(world.cloud.ec2.world.instances) == 1
            return replica

        world.cloud.endpoint.faults = Denied()
        await world.deploy("more", replicas=1, cpu="1500m")
        second = await starts_and_refuses("ClusterEndpointResolutionFailed")
        assert await second.stop() == 0
        world.replicas.remove(second)
        world.environ["CLUSTER_ENDPOINT"] = world.world.address.url
        third = await starts_and_refuses("ClusterCIDRResolutionFailed")

        world.cloud.endpoint.faults = NoFaults()
        await running(world, 2)
        assert (await claims(world)).items() > before.items()
        assert not any(drifted for _, drifted in (await claims(world)).values())
        assert await third.stop() == 0

    async def main() -> None:
        async with live_world.serving(tmp_path) as world:
            await program(world)

    asyncio.run(main())
