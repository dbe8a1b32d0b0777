"""Termination of nodes: drain by eviction, termination of the instance, release of the slot, garbage collection."""

import dataclasses
from typing import Any

import msgspec
import pytest

import app_world
import cluster_world
from app_world import AppWorld, capacity_types, instance_types
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
    world: AppWorld, replicas: int = 1, *, pool: dict[str, Any] | None = None, **spec: Any
) -> NodeClaim:
    """Deploy an app with one pod per node and return one of its NodeClaims."""
    await world.node_class()
    await world.node_pool(**{"requirements": [LARGE]} | (pool or {}))
    await world.deploy("web", replicas, **ONE_PER_NODE | spec)
    await world.until_running(replicas)
    return (await world.claims())[0]


async def until_removed(world: AppWorld, claim: NodeClaim, within_s: float = MAX_S) -> float:
    async def is_removed() -> bool:
        return await world.gone(NodeClaim, claim.metadata.name)

    return await world.until(is_removed, within_s=within_s)


async def budget(world: AppWorld, **spec: Any) -> None:
    document = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    await world.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", document)
    await world.sleep(5)


@pytest.mark.fact("NC-24", "NC-27", "NC-28", "NC-34", "NC-36")
def test_deleted_nodeclaim_is_drained_and_its_instance_terminated() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await world.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")])
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        (claim,) = await world.claims()
        (old,) = world.machines
        await world.kube.delete(claim)
        await world.sleep(3)
        node = next(n for n in await world.nodes() if n.metadata.name == claim.status.node_name)
        assert (names.DISRUPTED_TAINT, "NoSchedule") in {(t.key, t.effect) for t in node.spec.taints}
        assert node.metadata.labels[names.EXCLUDE_FROM_LOAD_BALANCERS] == "karpenter"
        await until_removed(world, claim)
        assert await world.gone(Node, node.metadata.name)
        assert world.ec2.world.instances[old.id].state == "terminated"
        assert world.asked("TerminateInstances") == 1
        await world.until_running(1)
        (instance,) = world.machines
        assert instance.id != old.id
        await world.sleep(120)
        assert world.free(slots) + world.in_reservation(slots) == 1

    app_world.run(program)


@pytest.mark.fact("NC-25")
def test_deleted_node_removes_its_nodeclaim_and_terminates_its_instance() -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world)
        (node,) = await world.nodes()
        (old,) = world.machines
        await world.kube.delete(node)
        await until_removed(world, claim)
        assert world.ec2.world.instances[old.id].state == "terminated"
        await world.until_running(1)

    app_world.run(program)


@pytest.mark.fact("NC-31", "ST-20")
def test_disruption_budget_that_allows_no_eviction_blocks_the_drain() -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world)
        await budget(world, minAvailable=1)
        await world.kube.delete(claim)
        await world.sleep(120)
        assert len(await world.running()) == 1
        assert not await world.gone(NodeClaim, claim.metadata.name)
        assert await world.events("FailedDraining")
        assert len(world.machines) == 2  # one replacement for its pod
        found = (await world.kube.list(PodDisruptionBudget)).items[0]
        await world.kube.delete(found)
        await until_removed(world, claim, within_s=120)
        await world.until_running(1)

    app_world.run(program)


@pytest.mark.fact("ST-12")
@pytest.mark.parametrize("restarts", [False, True])
def test_blocked_drain_causes_only_one_launch(*, restarts: bool) -> None:
    """Emptiness must not delete the node that is planned for the pods of a draining node: it would be launched again."""

    async def program(world: AppWorld) -> None:
        claim = await running(world, pool={"disruption": ALL_AT_ONCE})
        await budget(world, minAvailable=1)
        await world.kube.delete(claim)
        for _ in range(10):
            await world.sleep(120)
            if restarts:
                await world.restart()
        assert len(world.all_machines()) == 2
        await world.kube.delete((await world.kube.list(PodDisruptionBudget)).items[0])
        await until_removed(world, claim, within_s=120)
        await world.until_running(1)
        await world.sleep(300)
        assert len(world.all_machines()) == 2

    app_world.run(program)


@pytest.mark.fact("ST-12")
def test_a_pod_that_tolerates_the_disruption_taint_causes_one_launch_while_the_drain_is_blocked() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[instance_types("c5.2xlarge")], disruption=ALL_AT_ONCE)
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.deploy("agent", 1, tolerations=[{"operator": "Exists"}], **ONE_PER_NODE)
        await world.until_running(1)
        await world.until_running(1, "agent")
        (claim,) = await world.claims()
        await world.forbid_evictions()
        await world.kube.delete(claim)
        await world.sleep(20 * 60)
        assert len(world.all_machines()) == 2

    app_world.run(program)


@pytest.mark.fact("NC-23", "NC-32")
def test_termination_grace_period_overrides_a_disruption_budget() -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world, pool={"terminationGracePeriod": "5m"}, terminationGracePeriodSeconds=30)
        await budget(world, minAvailable=1)
        await world.kube.delete(claim)
        await world.sleep(200)
        assert not await world.gone(NodeClaim, claim.metadata.name)
        annotations = (await world.kube.get(NodeClaim, claim.metadata.name)).metadata.annotations
        assert names.TERMINATION_TIMESTAMP in annotations
        took_s = await until_removed(world, claim)
        assert 60 < took_s < 300

    app_world.run(program)


@pytest.mark.fact("NC-29")
def test_drain_waits_for_a_do_not_disrupt_pod() -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world, annotations={names.DO_NOT_DISRUPT: "true"})
        await world.kube.delete(claim)
        await world.sleep(300)
        (pod,) = await world.running()
        assert not await world.gone(NodeClaim, claim.metadata.name)
        await world.kube.delete(await world.kube.get(Pod, pod.metadata.name, "default"))
        await until_removed(world, claim, within_s=180)

    app_world.run(program)


async def attach(world: AppWorld, claim: NodeClaim) -> None:
    """A VolumeAttachment that no pod needs and that its finalizer keeps from being removed."""
    spec = {
        "attacher": "ebs.csi.aws.com",
        "nodeName": claim.status.node_name,
        "source": {"persistentVolumeName": "disk"},
    }
    meta = {"name": "stuck", "finalizers": ["external-attacher/ebs-csi-aws-com"]}
    await world.create("/apis/storage.k8s.io/v1/volumeattachments", {"metadata": meta, "spec": spec})


async def volumes_of(world: AppWorld, claim: NodeClaim) -> tuple[str, str]:
    found = conditions.find(
        (await world.kube.get(NodeClaim, claim.metadata.name)).status.conditions, "VolumesDetached"
    )
    return (found.status, found.reason or "") if found is not None else ("", "")


@pytest.mark.fact("NC-28", "NC-35", "E-4")
def test_instance_is_not_terminated_before_its_volumes_are_detached() -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world)
        (old,) = world.machines
        await attach(world, claim)
        await world.kube.delete(claim)
        await world.sleep(300)
        assert await volumes_of(world, claim) == ("Unknown", "AwaitingVolumeDetachment")
        assert await world.events("AwaitingVolumeDetachment")
        assert world.ec2.world.instances[old.id].state == "running"
        attachment = await world.kube.get(VolumeAttachment, "stuck")
        free: dict[str, Any] = {"metadata": {"finalizers": []}}
        await world.kube.patch(attachment, free, only_if_unchanged=True)
        await world.sleep(5)
        assert await volumes_of(world, claim) == ("True", "VolumesDetached")
        await until_removed(world, claim, within_s=180)

    app_world.run(program)


@pytest.mark.fact("NC-35")
def test_volumes_of_pods_that_are_not_drained_do_not_delay_termination() -> None:
    async def program(world: AppWorld) -> None:
        disks = {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}
        await world.create("/apis/storage.k8s.io/v1/storageclasses", disks | {"metadata": {"name": "disks"}})
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        volume = {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "disks",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        stays: dict[str, Any] = {"tolerations": [{"operator": "Exists"}], "volumeClaimTemplates": [volume]}
        made = cluster_world.workload("web", replicas=1, cpu="1500m", **stays)
        await world.create("/apis/apps/v1/namespaces/default/statefulsets", made)
        await world.until_running(1)
        (claim,) = await world.claims()
        await world.kube.delete(claim)
        await world.sleep(12)
        assert await volumes_of(world, claim) == ("True", "VolumesDetached")
        attached = (await world.kube.list(VolumeAttachment)).items
        assert [one.spec.node_name for one in attached] == [claim.status.node_name]
        await until_removed(world, claim, within_s=240)

    app_world.run(program)


@pytest.mark.fact("NC-35")
def test_termination_grace_period_overrides_attached_volumes() -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world, pool={"terminationGracePeriod": "5m"})
        await attach(world, claim)
        await world.kube.delete(claim)
        await world.sleep(290)
        assert await volumes_of(world, claim) == ("Unknown", "AwaitingVolumeDetachment")
        await world.sleep(20)
        assert await volumes_of(world, claim) == ("False", "TerminationGracePeriodElapsed")
        await until_removed(world, claim, within_s=180)

    app_world.run(program)


@pytest.mark.parametrize("annotation", [names.RESERVATION_ID, names.RESERVATION_ID_BEFORE_0_2])
def test_waiting_nodeclaim_is_launched_after_the_old_instance_frees_the_slot(annotation: str) -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await world.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        (first,) = await world.claims()
        (old,) = world.machines
        annotations = {annotation: slots.id, names.WAITS_FOR_INSTANCE: first.status.provider_id or ""}
        second = msgspec.structs.replace(
            first,
            metadata=ObjectMeta(name="second", labels=first.metadata.labels, annotations=annotations),
            status=NodeClaimStatus(),
        )
        await world.kube.create(second)
        await world.sleep(1800)  # longer than the launch timeout, which does not apply to a waiting NodeClaim
        waiting = await world.kube.get(NodeClaim, "second")
        launched = conditions.find(waiting.status.conditions, "Launched")
        assert launched is not None
        assert (launched.status, launched.reason) == ("Unknown", "WaitsForSlot")
        assert len(world.all_machines()) == 1
        await world.kube.delete(first)
        await until_removed(world, first, within_s=300)
        await world.until_running(1)
        (instance,) = world.machines
        assert instance.id != old.id
        assert instance.reservation_id == slots.id
        launched_claim = await world.kube.get(NodeClaim, "second")
        assert launched_claim.metadata.annotations[names.RESERVATION_ID] == slots.id
        assert names.RESERVATION_ID_BEFORE_0_2 not in launched_claim.metadata.annotations
        (claim,) = await world.claims()
        assert claim.metadata.name == "second"
        assert names.WAITS_FOR_INSTANCE not in claim.metadata.annotations

    app_world.run(program)


@pytest.mark.fact("NC-22", "E-3")
@pytest.mark.parametrize(("memory", "status"), [("7000Mi", "True"), ("5Gi", "False")])
def test_node_with_much_less_memory_than_its_nodeclaim_fails_the_consistency_check(
    memory: str, status: str
) -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world)
        (node,) = await world.nodes()
        await world.kube.patch(node, {"status": {"capacity": {"memory": memory}}}, status=True)
        await world.sleep(2)
        found = conditions.find(
            (await world.kube.get(NodeClaim, claim.metadata.name)).status.conditions, "ConsistentStateFound"
        )
        assert found is not None
        reason = "ConsistentStateFound" if status == "True" else "ConsistencyCheckFailed"
        assert (found.status, found.reason) == (status, reason)
        assert bool(await world.events("FailedConsistencyCheck")) is (status == "False")

    app_world.run(program)


@pytest.mark.fact("NC-26")
def test_nodeclaim_of_a_terminated_instance_is_garbage_collected() -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world)
        (instance,) = world.machines
        control.kill(world.ec2.world, instance.id)
        await until_removed(world, claim, within_s=600)
        await world.until_running(1)
        assert len(world.machines) == len(await world.claims()) == 1

    app_world.run(program)


@pytest.mark.fact("aws-6.6.2", "NC-21")
def test_instance_without_a_nodeclaim_is_terminated_and_its_node_removed() -> None:
    async def program(world: AppWorld) -> None:
        claim = await running(world)
        (orphan,) = await world.nodes()
        world.crash()
        change: dict[str, Any] = {"metadata": {"finalizers": []}}
        claim = await world.kube.get(NodeClaim, claim.metadata.name)
        await world.kube.patch(claim, change, only_if_unchanged=True)
        await world.kube.delete(claim)
        await world.restart()
        await world.until_running(1)
        await world.sleep(300)
        assert orphan.metadata.name not in [node.metadata.name for node in await world.nodes()]
        await world.until_running(1)
        owned = {c.status.provider_id for c in await world.claims()}
        assert len(world.machines) == len(owned) == 1
        assert {
            (one.provider_id or "").rpartition("/")[2]
            for one in await world.app.cloud.instances()
            if one.state == "running"
        } == {(one or "").rpartition("/")[2] for one in owned}

    app_world.run(program)


@pytest.mark.fact("aws-6.6.2")
def test_young_instance_without_a_nodeclaim_is_not_terminated() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.deploy("web", 1, **ONE_PER_NODE)

        async def launched() -> bool:
            return any(claim.status.provider_id for claim in await world.claims())

        await world.until(launched)
        world.crash()
        (claim,), (young,) = await world.claims(), world.machines
        await world.kube.patch(claim, {"metadata": {"finalizers": []}}, only_if_unchanged=True)
        await world.kube.delete(await world.kube.get(NodeClaim, claim.metadata.name))
        await world.restart()  # garbage collection runs at once
        await world.sleep(young.launched_s + 29 - world.clock.now_s())
        assert young.id in [one.id for one in world.machines]

        async def ended() -> bool:
            return young.id not in [one.id for one in world.machines]

        await world.until(ended, within_s=125)

    app_world.run(program)


def test_instance_that_is_missing_in_an_outdated_list_is_not_garbage_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A list of many pages is cached for a while; it lacks an instance that was launched meanwhile."""
    monkeypatch.setattr(ec2_instances, "PAGE", 5)
    monkeypatch.setattr(provider, "A_PAGE_S", GARBAGE_S + 80)

    async def program(world: AppWorld) -> None:
        await running(world, 6)
        await world.sleep(GARBAGE_S + 60)
        await world.app.cloud.instances()
        await world.scale("web", 7)
        before = {claim.metadata.name for claim in await world.claims()}

        async def registered() -> bool:
            new = [claim for claim in await world.claims() if claim.metadata.name not in before]
            return any(conditions.holds(claim.status.conditions, "Registered") for claim in new)

        await world.until(registered)
        (new,) = {claim.metadata.name for claim in await world.claims()} - before
        await world.sleep(GARBAGE_S + 5)
        assert (await world.kube.get(NodeClaim, new)).metadata.deletion_timestamp is None

    app_world.run(program, timings=dataclasses.replace(app_world.FAST, ready_s=GARBAGE_S + 20))


@pytest.mark.fact("NC-10", "NC-18")
def test_nodeclaim_whose_instance_never_joins_is_deleted_after_fifteen_minutes() -> None:
    async def program(world: AppWorld) -> None:
        world.ec2.world.faults.add(faults.NeverBoots(times=1))
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.deploy("web", 1, **ONE_PER_NODE)

        async def launched() -> bool:
            return any(c.status.provider_id for c in await world.claims())

        await world.until(launched)
        (claim,) = await world.claims()
        registered = conditions.find(claim.status.conditions, "Registered")
        assert registered is not None
        assert (registered.status, registered.reason) == ("Unknown", "NodeNotFound")
        await world.sleep(880)
        assert not await world.gone(NodeClaim, claim.metadata.name)
        await until_removed(world, claim, within_s=120)
        await world.until_running(1)
        assert len(world.machines) == 1

    app_world.run(program)
