"""Guarantees of the Kube port for pods (evictions, bindings, grace periods), tested with every API server."""

import pytest

import objects
from holdfast import errors
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.meta import ObjectMeta
from holdfast.api.pods import Binding, ObjectReference, Pod
from kube_servers import KubeServer, Place


@pytest.mark.fact("NC-33")
def test_eviction_has_the_uid_as_precondition(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        pod = await place.pod(place.name("pod"))
        with pytest.raises(errors.NotFound):
            await place.kube.evict("default", place.name("pod"), "another-uid")
        assert not await is_terminating(place, place.name("pod"))
        await place.kube.evict("default", place.name("pod"), pod.metadata.uid)
        assert await is_terminating(place, place.name("pod"))
        with pytest.raises(errors.NotFound):
            await place.kube.evict("default", place.name("none"), pod.metadata.uid)

    server.run(program)


def test_eviction_that_a_disruption_budget_forbids_raises_throttled(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        labels = {"app": place.name("app")}
        budget = objects.budget(place.name("budget"), selector={"matchLabels": labels}, minAvailable=1)
        await place.kube.create(budget)
        pod = await place.pod(place.name("pod"), labels)
        await make_ready(place, pod)
        with pytest.raises(errors.Throttled):
            await place.kube.evict("default", place.name("pod"), pod.metadata.uid)
        assert not await is_terminating(place, place.name("pod"))
        made = await place.kube.get(PodDisruptionBudget, place.name("budget"), "default")
        healthy = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
        allowed = {"disruptionsAllowed": 1, "observedGeneration": 1, **healthy}
        await place.kube.patch(made, {"status": allowed}, status=True)
        await place.kube.evict("default", place.name("pod"), pod.metadata.uid)
        assert await is_terminating(place, place.name("pod"))

    server.run(program)


def test_eviction_of_a_pod_with_two_disruption_budgets_is_rejected(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        labels = {"app": place.name("app")}
        for number in "12":
            name = place.name(f"budget-{number}")
            await place.kube.create(objects.budget(name, selector={"matchLabels": labels}, minAvailable=0))
        pod = await place.pod(place.name("pod"), labels)
        await make_ready(place, pod)
        with pytest.raises(errors.Rejected, match="more than one PodDisruptionBudget"):
            await place.kube.evict("default", place.name("pod"), pod.metadata.uid)

    server.run(program)


def test_pod_can_be_bound_only_once(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        await place.kube.create(objects.node(place.name("node")))
        await place.pod(place.name("pod"))
        meta = ObjectMeta(name=place.name("pod"), namespace="default")
        binding = Binding(metadata=meta, target=ObjectReference(kind="Node", name=place.name("node")))
        await place.kube.create(binding)
        bound = await place.kube.get(Pod, place.name("pod"), "default")
        assert bound.spec.node_name == place.name("node")
        with pytest.raises(errors.Conflict):
            await place.kube.create(binding)

    server.run(program)


def test_bound_pod_is_deleted_with_the_requested_grace_period(server: KubeServer) -> None:
    async def program(place: Place) -> None:
        pod = await place.pod(place.name("pod"), nodeName=place.name("node"))
        await place.kube.delete(pod, grace_period_s=17)
        terminating = await place.kube.get(Pod, place.name("pod"), "default")
        assert terminating.metadata.deletion_timestamp is not None
        assert terminating.metadata.deletion_grace_period_seconds == 17
        await place.kube.delete(pod, grace_period_s=0)
        with pytest.raises(errors.NotFound):
            await place.kube.get(Pod, place.name("pod"), "default")

    server.run(program)


async def is_terminating(place: Place, name: str) -> bool:
    try:
        return (await place.kube.get(Pod, name, "default")).metadata.deletion_timestamp is not None
    except errors.NotFound:
        return True


async def make_ready(place: Place, pod: Pod) -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await place.kube.patch(pod, {"status": ready}, status=True, only_if_unchanged=True)
