"""Answers to ProvisioningRequests while plans are made and objects of the cluster arrive late."""

import app_environment
import provisioning_requests as documents
from api_lines import Line
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.pods import Pod
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.sim.api.serving.faults import Refuse

LARGE = instance_types("m5.large")
POOL = "karpenter.sh/nodepool"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


def slow_to_create_claims(line: Line, seconds: int) -> None:
    line.add(
        Refuse("TooManyRequests", retry_after_s=seconds),
        lambda request: request.method == "POST" and request.path == CLAIMS,
    )


async def conditions(env: AppEnvironment) -> dict[str, tuple[str, str]]:
    (one,) = await env.all(ProvisioningRequest)
    return documents.conditions(one)


async def change_a_node(env: AppEnvironment, number: int) -> None:
    """Every change of a node is a reason to answer requests again."""
    node = (await env.nodes())[0]
    await env.kube.patch(node, {"metadata": {"labels": {"number": str(number)}}})


def test_booking_does_not_end_for_the_reasons_of_the_plan_before_it_was_found() -> None:
    """The plan that finds the capacity also creates a NodeClaim for another pod, which takes eight seconds. Until then the
    reasons are those of the plan before."""

    async def no_pods(env: AppEnvironment) -> bool:
        return not await env.all(Pod)

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.node_pool("other", requirements=[instance_types("c5.large"), capacity_types("on-demand")])
        await env.deploy("web", 3, cpu="1500m")
        await env.until_running(3)
        await env.create(documents.TEMPLATES, documents.template(nodeSelector={POOL: "default"}))
        await env.create(documents.PATH, documents.document(templates={"train": 3}))
        await env.sleep(30)
        assert (await conditions(env))["Provisioned"] == ("False", "CapacityIsNotFound")
        await env.scale("web", 0)
        await env.until(lambda: no_pods(env))
        slow_to_create_claims(env.line, 8)
        await env.deploy("other", 1, cpu="1500m", nodeSelector={POOL: "other"})
        for number in range(20):
            await env.sleep(0.5)
            await change_a_node(env, number)
        assert await conditions(env) == {
            "Accepted": ("True", "Accepted"),
            "Provisioned": ("True", "CapacityIsProvisioned"),
        }

    app_environment.run(program, requests=True)
