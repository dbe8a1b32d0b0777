"""Termination of nodes: drain by eviction, termination of the instance, release of the slot, garbage collection."""

import dataclasses
from typing import Any

import msgspec
import pytest

import app_environment
import cluster_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import conditions
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodeclaim import NodeClaim, NodeClaimStatus
from holdfast.api.nodes import Node
from holdfast.api.storage import VolumeAttachment
from holdfast.cloud.aws.instances import ec2_instances, provider
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2 import control, faults

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}
ALL_AT_ONCE = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
GARBAGE_S = 120  # between two garbage collections
MAX_S = 10_000  # longer than anything here takes


async def running(
    env: AppEnvironment, replicas: int = 1, *, pool: dict[str, Any] | None = None, **spec: Any
) -> NodeClaim:
    """Deploy an app with one pod per node and return one of its NodeClaims."""
    await env.node_class()
    await env.node_pool(**{"requirements": [LARGE]} | (pool or {}))
    await env.deploy("web", replicas, **ONE_PER_NODE | spec)
    await env.until_running(replicas)
    return (await env.claims())[0]


async def until_removed(env: AppEnvironment, claim: NodeClaim, within_s: float = MAX_S) -> float:
    async def is_removed() -> bool:
        return await env.is_deleted(NodeClaim, claim.metadata.name)

    return await env.until(is_removed, within_s=within_s)


async def budget(env: AppEnvironment, **spec: Any) -> None:
    document = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    await env.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", document)
    await env.sleep(5)


@pytest.mark.fact("NC-24", "NC-27", "NC-28", "NC-34", "NC-36")
def test_deleted_nodeclaim_is_drained_and_its_instance_terminated() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (claim,) = await env.claims()
        (old,) = env.ec2_instances
        await env.kube.delete(claim)
        await env.sleep(3)
        node = next(n for n in await env.nodes() if n.metadata.name == claim.status.node_name)
        assert (names.DISRUPTED_TAINT, "NoSchedule") in {(t.key, t.effect) for t in node.spec.taints}
        assert node.metadata.labels[names.EXCLUDE_FROM_LOAD_BALANCERS] == "karpenter"
        await until_removed(env, claim)
        assert await env.is_deleted(Node, node.metadata.name)
        assert env.ec2.region.instances[old.id].state == "terminated"
        assert env.asked("TerminateInstances") == 1
        await env.until_running(1)
        (instance,) = env.ec2_instances
        assert instance.id != old.id
        await env.sleep(120)
        assert env.free(slots) + env.in_reservation(slots) == 1

    app_environment.run(program)


@pytest.mark.fact("NC-25")
def test_deleted_node_removes_its_nodeclaim_and_terminates_its_instance() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env)
        (node,) = await env.nodes()
        (old,) = env.ec2_instances
        await env.kube.delete(node)
        await until_removed(env, claim)
        assert env.ec2.region.instances[old.id].state == "terminated"
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("NC-31", "ST-20")
def test_disruption_budget_that_allows_no_eviction_blocks_the_drain() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env)
        await budget(env, minAvailable=1)
        await env.kube.delete(claim)
        await env.sleep(120)
        assert len(await env.running()) == 1
        assert not await env.is_deleted(NodeClaim, claim.metadata.name)
        assert await env.events("FailedDraining")
        assert len(env.ec2_instances) == 2  # one replacement for its pod
        found = (await env.kube.list(PodDisruptionBudget)).items[0]
        await env.kube.delete(found)
        await until_removed(env, claim, within_s=120)
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("ST-12")
@pytest.mark.parametrize("restarts", [False, True])
def test_blocked_drain_causes_only_one_launch(*, restarts: bool) -> None:
    """Emptiness must not delete the node that is planned for the pods of a draining node: it would be launched again."""

    async def program(env: AppEnvironment) -> None:
        claim = await running(env, pool={"disruption": ALL_AT_ONCE})
        await budget(env, minAvailable=1)
        await env.kube.delete(claim)
        for _ in range(10):
            await env.sleep(120)
            if restarts:
                await env.restart()
        assert len(env.all_ec2_instances()) == 2
        await env.kube.delete((await env.kube.list(PodDisruptionBudget)).items[0])
        await until_removed(env, claim, within_s=120)
        await env.until_running(1)
        await env.sleep(300)
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program)


@pytest.mark.fact("ST-12")
def test_a_pod_that_tolerates_the_disruption_taint_causes_one_launch_while_the_drain_is_blocked() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("c5.2xlarge")], disruption=ALL_AT_ONCE)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.deploy("agent", 1, tolerations=[{"operator": "Exists"}], **ONE_PER_NODE)
        await env.until_running(1)
        await env.until_running(1, "agent")
        (claim,) = await env.claims()
        await env.forbid_evictions()
        await env.kube.delete(claim)
        await env.sleep(20 * 60)
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program)


@pytest.mark.fact("NC-23", "NC-32")
def test_termination_grace_period_overrides_a_disruption_budget() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env, pool={"terminationGracePeriod": "5m"}, terminationGracePeriodSeconds=30)
        await budget(env, minAvailable=1)
        await env.kube.delete(claim)
        await env.sleep(200)
        assert not await env.is_deleted(NodeClaim, claim.metadata.name)
        annotations = (await env.kube.get(NodeClaim, claim.metadata.name)).metadata.annotations
        assert names.TERMINATION_TIMESTAMP in annotations
        took_s = await until_removed(env, claim)
        assert 60 < took_s < 300

    app_environment.run(program)


@pytest.mark.fact("NC-29")
def test_drain_waits_for_a_do_not_disrupt_pod() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env, annotations={names.DO_NOT_DISRUPT: "true"})
        await env.kube.delete(claim)
        await env.sleep(300)
        (pod,) = await env.running()
        assert not await env.is_deleted(NodeClaim, claim.metadata.name)
        await env.kube.delete(await env.kube.get(Pod, pod.metadata.name, "default"))
        await until_removed(env, claim, within_s=180)

    app_environment.run(program)


async def attach(env: AppEnvironment, claim: NodeClaim) -> None:
    """A VolumeAttachment that no pod needs and that its finalizer keeps from being removed."""
    spec = {
        "attacher": "ebs.csi.aws.com",
        "nodeName": claim.status.node_name,
        "source": {"persistentVolumeName": "disk"},
    }
    meta = {"name": "stuck", "finalizers": ["external-attacher/ebs-csi-aws-com"]}
    await env.create("/apis/storage.k8s.io/v1/volumeattachments", {"metadata": meta, "spec": spec})


async def volumes_of(env: AppEnvironment, claim: NodeClaim) -> tuple[str, str]:
    found = conditions.find(
        (await env.kube.get(NodeClaim, claim.metadata.name)).status.conditions, "VolumesDetached"
    )
    return (found.status, found.reason or "") if found is not None else ("", "")


@pytest.mark.fact("NC-28", "NC-35", "E-4")
def test_instance_is_not_terminated_before_its_volumes_are_detached() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env)
        (old,) = env.ec2_instances
        await attach(env, claim)
        await env.kube.delete(claim)
        await env.sleep(300)
        assert await volumes_of(env, claim) == ("Unknown", "AwaitingVolumeDetachment")
        assert await env.events("AwaitingVolumeDetachment")
        assert env.ec2.region.instances[old.id].state == "running"
        attachment = await env.kube.get(VolumeAttachment, "stuck")
        free: dict[str, Any] = {"metadata": {"finalizers": []}}
        await env.kube.patch(attachment, free, only_if_unchanged=True)
        await env.sleep(5)
        assert await volumes_of(env, claim) == ("True", "VolumesDetached")
        await until_removed(env, claim, within_s=180)

    app_environment.run(program)


@pytest.mark.fact("NC-35")
def test_volumes_of_pods_that_are_not_drained_do_not_delay_termination() -> None:
    async def program(env: AppEnvironment) -> None:
        disks = {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}
        await env.create("/apis/storage.k8s.io/v1/storageclasses", disks | {"metadata": {"name": "disks"}})
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        volume = {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "disks",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        stays: dict[str, Any] = {"tolerations": [{"operator": "Exists"}], "volumeClaimTemplates": [volume]}
        made = cluster_environment.workload("web", replicas=1, cpu="1500m", **stays)
        await env.create("/apis/apps/v1/namespaces/default/statefulsets", made)
        await env.until_running(1)
        (claim,) = await env.claims()
        await env.kube.delete(claim)
        await env.sleep(12)
        assert await volumes_of(env, claim) == ("True", "VolumesDetached")
        attached = (await env.kube.list(VolumeAttachment)).items
        assert [one.spec.node_name for one in attached] == [claim.status.node_name]
        await until_removed(env, claim, within_s=240)

    app_environment.run(program)


@pytest.mark.fact("NC-35")
def test_termination_grace_period_overrides_attached_volumes() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env, pool={"terminationGracePeriod": "5m"})
        await attach(env, claim)
        await env.kube.delete(claim)
        await env.sleep(290)
        assert await volumes_of(env, claim) == ("Unknown", "AwaitingVolumeDetachment")
        await env.sleep(20)
        assert await volumes_of(env, claim) == ("False", "TerminationGracePeriodElapsed")
        await until_removed(env, claim, within_s=180)

    app_environment.run(program)


@pytest.mark.parametrize("annotation", [names.RESERVATION_ID, names.RESERVATION_ID_BEFORE_0_2])
def test_waiting_nodeclaim_is_launched_after_the_old_instance_frees_the_slot(annotation: str) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (first,) = await env.claims()
        (old,) = env.ec2_instances
        annotations = {annotation: slots.id, names.WAITS_FOR_INSTANCE: first.status.provider_id or ""}
        second = msgspec.structs.replace(
            first,
            metadata=ObjectMeta(name="second", labels=first.metadata.labels, annotations=annotations),
            status=NodeClaimStatus(),
        )
        await env.kube.create(second)
        await env.sleep(1800)  # longer than the launch timeout, which does not apply to a waiting NodeClaim
        waiting = await env.kube.get(NodeClaim, "second")
        launched = conditions.find(waiting.status.conditions, "Launched")
        assert launched is not None
        assert (launched.status, launched.reason) == ("Unknown", "WaitsForSlot")
        assert len(env.all_ec2_instances()) == 1
        await env.kube.delete(first)
        await until_removed(env, first, within_s=300)
        await env.until_running(1)
        (instance,) = env.ec2_instances
        assert instance.id != old.id
        assert instance.reservation_id == slots.id
        launched_claim = await env.kube.get(NodeClaim, "second")
        assert launched_claim.metadata.annotations[names.RESERVATION_ID] == slots.id
        assert names.RESERVATION_ID_BEFORE_0_2 not in launched_claim.metadata.annotations
        (claim,) = await env.claims()
        assert claim.metadata.name == "second"
        assert names.WAITS_FOR_INSTANCE not in claim.metadata.annotations

    app_environment.run(program)


@pytest.mark.fact("NC-22", "E-3")
@pytest.mark.parametrize(("memory", "status"), [("7000Mi", "True"), ("5Gi", "False")])
def test_node_with_much_less_memory_than_its_nodeclaim_fails_the_consistency_check(
    memory: str, status: str
) -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env)
        await env.sleep(1000)  # several reconciles in which nothing changed
        (node,) = await env.nodes()
        await env.kube.patch(node, {"status": {"capacity": {"memory": memory}}}, status=True)
        await env.sleep(2)
        found = conditions.find(
            (await env.kube.get(NodeClaim, claim.metadata.name)).status.conditions, "ConsistentStateFound"
        )
        assert found is not None
        reason = "ConsistentStateFound" if status == "True" else "ConsistencyCheckFailed"
        assert (found.status, found.reason) == (status, reason)
        assert bool(await env.events("FailedConsistencyCheck")) is (status == "False")

    app_environment.run(program)


@pytest.mark.fact("NC-26")
def test_nodeclaim_of_a_terminated_instance_is_garbage_collected() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env)
        (instance,) = env.ec2_instances
        control.kill(env.ec2.region, instance.id)
        await until_removed(env, claim, within_s=600)
        await env.until_running(1)
        assert len(env.ec2_instances) == len(await env.claims()) == 1

    app_environment.run(program)


@pytest.mark.fact("aws-6.6.2", "NC-21")
def test_instance_without_a_nodeclaim_is_terminated_and_its_node_removed() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await running(env)
        (orphan,) = await env.nodes()
        env.crash()
        change: dict[str, Any] = {"metadata": {"finalizers": []}}
        claim = await env.kube.get(NodeClaim, claim.metadata.name)
        await env.kube.patch(claim, change, only_if_unchanged=True)
        await env.kube.delete(claim)
        await env.restart()
        await env.until_running(1)
        await env.sleep(300)
        assert orphan.metadata.name not in [node.metadata.name for node in await env.nodes()]
        await env.until_running(1)
        owned = {c.status.provider_id for c in await env.claims()}
        assert len(env.ec2_instances) == len(owned) == 1
        assert {
            (one.provider_id or "").rpartition("/")[2]
            for one in await env.app.cloud.instances()
            if one.state == "running"
        } == {(one or "").rpartition("/")[2] for one in owned}

    app_environment.run(program)


@pytest.mark.fact("aws-6.6.2")
def test_young_instance_without_a_nodeclaim_is_not_terminated() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 1, **ONE_PER_NODE)

        async def launched() -> bool:
            return any(claim.status.provider_id for claim in await env.claims())

        await env.until(launched)
        env.crash()
        (claim,), (young,) = await env.claims(), env.ec2_instances
        await env.kube.patch(claim, {"metadata": {"finalizers": []}}, only_if_unchanged=True)
        await env.kube.delete(await env.kube.get(NodeClaim, claim.metadata.name))
        await env.restart()  # garbage collection runs at once
        await env.sleep(young.launched_s + 29 - env.clock.now_s())
        assert young.id in [one.id for one in env.ec2_instances]

        async def ended() -> bool:
            return young.id not in [one.id for one in env.ec2_instances]

        await env.until(ended, within_s=125)

    app_environment.run(program)


def test_instance_that_is_missing_in_an_outdated_list_is_not_garbage_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A list of many pages is cached for a while; it lacks an instance that was launched meanwhile."""
    monkeypatch.setattr(ec2_instances, "PAGE", 5)
    monkeypatch.setattr(provider, "A_PAGE_S", GARBAGE_S + 80)

    async def program(env: AppEnvironment) -> None:
        await running(env, 6)
        await env.sleep(GARBAGE_S + 60)
        await env.app.cloud.instances()
        await env.scale("web", 7)
        before = {claim.metadata.name for claim in await env.claims()}

        async def registered() -> bool:
            new = [claim for claim in await env.claims() if claim.metadata.name not in before]
            return any(conditions.holds(claim.status.conditions, "Registered") for claim in new)

        await env.until(registered)
        (new,) = {claim.metadata.name for claim in await env.claims()} - before
        await env.sleep(GARBAGE_S + 5)
        assert (await env.kube.get(NodeClaim, new)).metadata.deletion_timestamp is None

    app_environment.run(program, timings=dataclasses.replace(app_environment.FAST, ready_s=GARBAGE_S + 20))


@pytest.mark.fact("NC-10", "NC-18")
def test_nodeclaim_whose_instance_never_joins_is_deleted_after_fifteen_minutes() -> None:
    async def program(env: AppEnvironment) -> None:
        env.ec2.region.faults.add(faults.NeverBoots(times=1))
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 1, **ONE_PER_NODE)

        async def launched() -> bool:
            return any(c.status.provider_id for c in await env.claims())

        await env.until(launched)
        (claim,) = await env.claims()
        registered = conditions.find(claim.status.conditions, "Registered")
        assert registered is not None
        assert (registered.status, registered.reason) == ("Unknown", "NodeNotFound")
        await env.sleep(880)
        assert not await env.is_deleted(NodeClaim, claim.metadata.name)
        await until_removed(env, claim, within_s=120)
        await env.until_running(1)
        assert len(env.ec2_instances) == 1

    app_environment.run(program)
