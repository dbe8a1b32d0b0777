"""Answers to ProvisioningRequests while plans are made and objects of the cluster arrive late."""

from typing import Any

import pytest

import app_environment
import provisioning_requests as documents
from api_lines import Line
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.pods import Pod
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.sim.api.serving.faults import Refuse
from holdfast.sim.cluster.timings import Timings

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUME_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "gp3"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CLAIM_SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "gp3",
    "resources": {"requests": {"storage": "1Gi"}},
}
VOLUME_CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": CLAIM_SPEC,
}
CLAIMED: dict[str, Any] = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
EPHEMERAL: dict[str, Any] = {
    "name": "scratch",
    "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}},
}
MINUTE_S = 60
LARGE = instance_types("m5.large")
POOL = "karpenter.sh/nodepool"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


def slow_to_create_claims(line: Line, seconds: int) -> None:
    line.add(
        Refuse("TooManyRequests", retry_after_s=seconds),
        lambda request: request.method == "POST" and request.path == CLAIMS,
    )


async def request_with_volume(env: AppEnvironment, volume: dict[str, Any]) -> None:
    """A request for three nodes, whose pods have this volume, and a reservation for it."""
    slots = env.reserve(total=3)
    await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
    await env.create(CLASSES, CLASS)
    await env.create(documents.TEMPLATES, documents.template(volumes=[volume]))
    await env.create(documents.PATH, documents.document(templates={"train": 3}))


async def conditions(env: AppEnvironment) -> dict[str, tuple[str, str]]:
    (one,) = await env.all(ProvisioningRequest)
    return documents.conditions(one)


async def message(env: AppEnvironment, type_: str) -> str:
    (one,) = await env.all(ProvisioningRequest)
    return next(found.message or "" for found in one.status.conditions if found.type == type_)


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


# --- Objects that the pods need -----------------------------------------------------------------------


async def is_provisioned(env: AppEnvironment) -> bool:
    return (await conditions(env)).get("Provisioned", ("", ""))[0] == "True"


def test_a_request_waits_for_a_volume_claim_that_is_created_after_it() -> None:
    async def program(env: AppEnvironment) -> None:
        await request_with_volume(env, CLAIMED)
        await env.sleep(5)
        assert await conditions(env) == {"Accepted": ("True", "Accepted")}
        await env.create(VOLUME_CLAIMS, VOLUME_CLAIM)
        await env.until(lambda: is_provisioned(env), within_s=120)

    app_environment.run(program, requests=True)


def test_a_request_without_its_volume_claim_fails_after_ten_seconds() -> None:
    async def program(env: AppEnvironment) -> None:
        await request_with_volume(env, CLAIMED)
        await env.sleep(8)
        assert "Failed" not in await conditions(env)
        await env.sleep(4)
        assert (await conditions(env))["Failed"] == ("True", "FailedToCreatePods")

    app_environment.run(program, requests=True)


def test_claims_of_ephemeral_volumes_need_not_exist() -> None:
    """They are created with the pods."""

    async def program(env: AppEnvironment) -> None:
        await request_with_volume(env, EPHEMERAL)
        await env.until(lambda: is_provisioned(env), within_s=120)

    app_environment.run(program, requests=True)


@pytest.mark.parametrize("volume", [CLAIMED, EPHEMERAL])
def test_a_booking_of_pods_with_volumes_lasts_over_a_restart(volume: dict[str, Any]) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.create(VOLUME_CLAIMS, VOLUME_CLAIM)
        await request_with_volume(env, volume)
        await env.until(lambda: is_provisioned(env), within_s=120)
        await env.restart()
        await env.sleep(60)
        assert "BookingExpired" not in await conditions(env)
        assert len(await env.claims()) == 3

    app_environment.run(program, requests=True)


# --- Nodes that do not become ready -------------------------------------------------------------------


def test_a_request_expires_although_a_node_of_it_never_becomes_ready() -> None:
    never_ready = Timings(boot_s=5, ready_s=86_400, devices_s=1, startup_taints=())

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.create(documents.TEMPLATES, documents.template())
        await env.create(documents.PATH, documents.document(count=3, ValidUntilSeconds="2400"))
        await env.sleep(29 * MINUTE_S)
        assert await message(env, "Provisioned") == "The nodes of 3 pods are being launched."
        await env.sleep(3 * MINUTE_S)
        text = await message(env, "Provisioned")
        assert text.startswith("Nodes ")
        assert text.endswith(" are not ready 30 minutes after the launch.")
        await env.sleep(10 * MINUTE_S)
        assert (await conditions(env))["Failed"] == ("True", "Expired")
        assert await message(env, "Failed") == text

    app_environment.run(program, requests=True, timings=never_ready)
