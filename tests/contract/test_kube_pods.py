"""Guarantees of the Kube port for pods (evictions, bindings, grace periods), tested with every API server."""

import pytest

import objects
from holdfast import errors
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.meta import ObjectMeta
from holdfast.api.pods import Binding, ObjectReference, Pod
from kube_servers import KubeServer, Session


@pytest.mark.fact("NC-33")
def test_eviction_has_the_uid_as_precondition(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        pod = await session.pod(session.name("pod"))
        with pytest.raises(errors.NotFound):
            await session.kube.evict("default", session.name("pod"), "another-uid")
        assert not await is_terminating(session, session.name("pod"))
        await session.kube.evict("default", session.name("pod"), pod.metadata.uid)
        assert await is_terminating(session, session.name("pod"))
        with pytest.raises(errors.NotFound):
            await session.kube.evict("default", session.name("none"), pod.metadata.uid)

    server.run(program)


def test_eviction_that_a_disruption_budget_forbids_raises_throttled(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        labels = {"app": session.name("app")}
        budget = objects.budget(session.name("budget"), selector={"matchLabels": labels}, minAvailable=1)
        await session.kube.create(budget)
        pod = await session.pod(session.name("pod"), labels)
        await make_ready(session, pod)
        with pytest.raises(errors.Throttled):
            await session.kube.evict("default", session.name("pod"), pod.metadata.uid)
        assert not await is_terminating(session, session.name("pod"))
        made = await session.kube.get(PodDisruptionBudget, session.name("budget"), "default")
        healthy = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
        allowed = {"disruptionsAllowed": 1, "observedGeneration": 1, **healthy}
        await session.kube.patch(made, {"status": allowed}, status=True)
        await session.kube.evict("default", session.name("pod"), pod.metadata.uid)
        assert await is_terminating(session, session.name("pod"))

    server.run(program)


def test_eviction_of_a_pod_with_two_disruption_budgets_is_rejected(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        labels = {"app": session.name("app")}
        for number in "12":
            name = session.name(f"budget-{number}")
            await session.kube.create(objects.budget(name, selector={"matchLabels": labels}, minAvailable=0))
        pod = await session.pod(session.name("pod"), labels)
        await make_ready(session, pod)
        with pytest.raises(errors.Rejected, match="more than one PodDisruptionBudget"):
            await session.kube.evict("default", session.name("pod"), pod.metadata.uid)

    server.run(program)


def test_pod_can_be_bound_only_once(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        await session.kube.create(objects.node(session.name("node")))
        await session.pod(session.name("pod"))
        meta = ObjectMeta(name=session.name("pod"), namespace="default")
        binding = Binding(metadata=meta, target=ObjectReference(kind="Node", name=session.name("node")))
        await session.kube.create(binding)
        bound = await session.kube.get(Pod, session.name("pod"), "default")
        assert bound.spec.node_name == session.name("node")
        with pytest.raises(errors.Conflict):
            await session.kube.create(binding)

    server.run(program)


def test_bound_pod_is_deleted_with_the_requested_grace_period(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        pod = await session.pod(session.name("pod"), nodeName=session.name("node"))
        await session.kube.delete(pod, grace_period_s=17)
        terminating = await session.kube.get(Pod, session.name("pod"), "default")
        assert terminating.metadata.deletion_timestamp is not None
        assert terminating.metadata.deletion_grace_period_seconds == 17
        await session.kube.delete(pod, grace_period_s=0)
        with pytest.raises(errors.NotFound):
            await session.kube.get(Pod, session.name("pod"), "default")

    server.run(program)


async def is_terminating(session: Session, name: str) -> bool:
    try:
        return (await session.kube.get(Pod, name, "default")).metadata.deletion_timestamp is not None
    except errors.NotFound:
        return True


async def make_ready(session: Session, pod: Pod) -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await session.kube.patch(pod, {"status": ready}, status=True, only_if_unchanged=True)
