"""`holdfast run` as a process while EKS denies every call, against a simulated cluster and AWS over HTTP."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import process_environment
from holdfast.api import claim_conditions, conditions
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import Fault, NoFaults
from process_environment import ProcessEnvironment

CLASS_HASH = "karpenter.k8s.aws/ec2nodeclass-hash"


class Denied(NoFaults):
    def fault(self, service: str, _: str, __: Mapping[str, Any], /) -> Fault | ApiError | None:
        return ApiError("AccessDeniedException", "not authorized", 403) if service == "eks" else None


async def validation_failure(env: ProcessEnvironment) -> str:
    """The reason why the class is not valid; empty if it is."""
    node_class = await env.kube.get(EC2NodeClass, "default")
    found = conditions.find(node_class.status.conditions, "ValidationSucceeded")
    assert found is not None
    return found.reason or "" if found.status != conditions.TRUE else ""


async def claims(env: ProcessEnvironment) -> dict[str, tuple[str, bool]]:
    """The launched NodeClaims by name: the hash of the class, and whether the claim drifted."""
    return {
        claim.metadata.name: (
            claim.metadata.annotations[CLASS_HASH],
            conditions.holds(claim.status.conditions, claim_conditions.DRIFTED),
        )
        for claim in (await env.kube.list(NodeClaim)).items
        if CLASS_HASH in claim.metadata.annotations
    }


def test_denied_describe_cluster_drifts_no_node_and_launches_none(tmp_path: Path) -> None:
    async def running(env: ProcessEnvironment, count: int) -> None:
        async def enough() -> bool:
            return await env.running_pods() == count

        await env.until(enough, f"{count} pods run", within_s=240)

    async def program(env: ProcessEnvironment) -> None:
        first = await env.start()
        await env.node_class()
        await env.node_pool()
        await env.deploy("web", replicas=1, cpu="1500m")
        await running(env, 1)
        before = await claims(env)
        assert await first.stop() == 0
        env.replicas.remove(first)

        async def starts_and_refuses(reason: str) -> process_environment.Replica:
            async def refused() -> bool:
                return await validation_failure(env) == reason

            replica = await env.start()
            await env.until(refused, "the class is not valid")
            await env.clock.sleep(5)
            assert await claims(env) == before
            assert len(env.cloud.ec2.region.instances) == 1
            return replica

        env.cloud.endpoint.faults = Denied()
        await env.deploy("more", replicas=1, cpu="1500m")
        second = await starts_and_refuses("ClusterEndpointResolutionFailed")
        assert await second.stop() == 0
        env.replicas.remove(second)
        env.environ["CLUSTER_ENDPOINT"] = env.sandbox.address.url
        third = await starts_and_refuses("ClusterCIDRResolutionFailed")

        env.cloud.endpoint.faults = NoFaults()
        await running(env, 2)
        assert (await claims(env)).items() > before.items()
        assert not any(drifted for _, drifted in (await claims(env)).values())
        assert await third.stop() == 0

    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            await program(env)

    asyncio.run(main())
