"""Conditions, labels, events and metrics of a NodeClaim and its Node, from launch to termination."""

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import drift_all
from holdfast import names
from holdfast.api import aws, conditions
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.sim.api.serving import faults as api_faults
from holdfast.sim.ec2 import control, faults
from holdfast.state.conversion import times
from objects import nodeclaim

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}
NODE_CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


def status_and_reason(claim: NodeClaim, condition: str) -> tuple[str, str]:
    found = conditions.find(claim.status.conditions, condition)
    return (found.status, found.reason or "") if found is not None else ("", "")


def versions(env: AppEnvironment, name: str) -> Iterator[NodeClaim]:
    """Every stored version of a NodeClaim."""
    return (one for one in env.ever(NodeClaim) if one.metadata.name == name)


def disrupted(env: AppEnvironment, reason: str, **labels: str) -> float | None:
    about = {"reason": reason, "nodepool": "default", "capacity_type": "on-demand"}
    plain = {"consolidation_policy": "", "termination_mode": "graceful"}
    return env.app.metrics.value(DISRUPTED, about | plain | labels)


async def one_claim(env: AppEnvironment, *, pods: dict[str, Any] | None = None, **pool: Any) -> NodeClaim:
    """The claim of a node with one pod."""
    await env.node_class()
    await env.node_pool(**{"requirements": [LARGE, capacity_types("on-demand")]} | pool)
    await env.deploy("web", 1, **ONE_PER_NODE | (pods or {}))
    await env.until_running(1)
    (claim,) = await env.claims()
    return claim


async def launched_without_node(env: AppEnvironment, **pool: Any) -> NodeClaim:
    """A claim whose instance runs and whose kubelet never registers a Node."""
    env.ec2.region.faults.add(faults.Silent(times=1))
    await env.node_class()
    await env.node_pool(requirements=[LARGE], **pool)
    await env.deploy("web", 1, **ONE_PER_NODE, tolerations=[{"operator": "Exists"}])

    async def launched() -> bool:
        return any(claim.status.provider_id for claim in await env.claims())

    await env.until(launched)
    await env.sleep(20)
    (claim,) = await env.claims()
    return claim


async def register(env: AppEnvironment, claim: NodeClaim, name: str = "by-hand", **fields: Any) -> None:
    """Create a Node as a kubelet does."""
    taint = {"key": names.UNREGISTERED_TAINT, "effect": "NoExecute"}
    meta = {"name": name} | fields.pop("metadata", {})
    spec = {"providerID": claim.status.provider_id, "taints": [taint, *fields.pop("taints", ())]}
    await env.create("/api/v1/nodes", {"metadata": meta, "spec": spec})
    await env.sleep(5)


# --- Launch -------------------------------------------------------------------------------------------


@pytest.mark.fact("NC-9")
def test_launched_claim_has_labels_annotations_and_status_of_its_instance() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        labels = {names.NODEPOOL: "default", aws.INSTANCE_FAMILY: "mine"}
        annotations = {aws.EC2NODECLASS_HASH: "mine", "example.com/note": "mine"}
        meta = {"labels": labels, "annotations": annotations}
        await env.kube.create(nodeclaim("by-hand", meta, nodeClassRef=NODE_CLASS_REF, requirements=[LARGE]))
        await env.sleep(20)
        claim, (instance,) = await env.kube.get(NodeClaim, "by-hand"), env.ec2_instances
        assert status_and_reason(claim, "Launched")[0] == "True"
        assert claim.metadata.labels[aws.INSTANCE_FAMILY] == "mine"
        assert claim.metadata.labels[aws.INSTANCE_SIZE] == "large"
        assert claim.metadata.annotations["example.com/note"] == "mine"
        node_class = await env.kube.get(EC2NodeClass, "default")
        hashed = node_class.metadata.annotations[aws.EC2NODECLASS_HASH]
        assert claim.metadata.annotations[aws.EC2NODECLASS_HASH] == hashed
        assert (claim.status.provider_id or "").endswith(f"/{instance.id}")
        assert claim.status.image_id == instance.spec.image_id
        assert claim.status.capacity["cpu"] == "2"
        assert 0 < len(claim.status.allocatable) <= len(claim.status.capacity)

    app_environment.run(program)


@pytest.mark.fact("R-32", "NC-14")
def test_launched_claim_has_its_reservation_from_the_first_write_on() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (claim,) = await env.claims()
        launched = [
            one
            for one in versions(env, claim.metadata.name)
            if status_and_reason(one, "Launched")[0] == "True"
        ]
        assert launched
        for one in launched:
            labels = one.metadata.labels
            assert (labels[names.CAPACITY_TYPE], labels[RESERVATION]) == ("reserved", slots.id)
        reasons = {status_and_reason(one, "Registered")[1] for one in versions(env, claim.metadata.name)}
        assert "RegistrationHookPending" not in reasons

    app_environment.run(program)


# --- Registration -------------------------------------------------------------------------------------


@pytest.mark.fact("NC-10")
def test_registration_needs_exactly_one_node_with_the_provider_id() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await launched_without_node(env)
        assert status_and_reason(claim, "Registered") == ("Unknown", "NodeNotFound")
        other = {
            "metadata": {"name": "other"},
            "spec": {"providerID": "aws:///us-west-2a/i-0123456789abcdef0"},
        }
        await env.create("/api/v1/nodes", other)
        await env.sleep(5)
        assert status_and_reason((await env.claims())[0], "Registered") == ("Unknown", "NodeNotFound")

    app_environment.run(program)


@pytest.mark.fact("NC-10")
def test_registration_fails_with_two_nodes_of_one_provider_id() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await launched_without_node(env)
        env.crash()
        for name in ("one", "two"):
            await register(env, claim, name)
        await env.restart()
        await env.sleep(5)
        (claim,) = await env.claims()
        assert status_and_reason(claim, "Registered") == ("False", "MultipleNodesFound")
        for node in await env.nodes():
            assert names.REGISTERED not in node.metadata.labels

    app_environment.run(program)


@pytest.mark.fact("NC-11", "NC-15")
def test_registered_node_has_the_taints_labels_and_annotations_of_its_claim() -> None:
    async def program(env: AppEnvironment) -> None:
        claim_taints = [{"key": "example.com/only", "value": "web", "effect": "NoSchedule"}]
        startup_taints = [{"key": "example.com/agent", "effect": "NoExecute"}]
        await launched_without_node(
            env, taints=claim_taints, startupTaints=startup_taints, labels={"team": "web"}
        )
        (claim,) = await env.claims()
        found = {"key": "example.com/only", "value": "of-the-node", "effect": "NoSchedule"}
        other = {"key": "example.com/other", "effect": "NoSchedule"}
        meta = {
            "labels": {"team": "of-the-node", "example.com/node": "kept"},
            "annotations": {"example.com/node": "kept"},
            "finalizers": ["example.com/kept"],
        }
        await register(env, claim, metadata=meta, taints=[found, other])
        (claim,) = await env.claims()
        node = await env.kube.get(Node, "by-hand")
        assert {(t.key, t.value, t.effect) for t in node.spec.taints if "example.com" in t.key} == {
            ("example.com/only", "of-the-node", "NoSchedule"),  # the Node's own taint stays
            ("example.com/other", "", "NoSchedule"),
            ("example.com/agent", "", "NoExecute"),
        }
        assert names.UNREGISTERED_TAINT not in {t.key for t in node.spec.taints}
        assert claim.metadata.labels.items() <= node.metadata.labels.items()
        assert (node.metadata.labels["team"], node.metadata.labels["example.com/node"]) == ("web", "kept")
        assert node.metadata.labels[names.REGISTERED] == "true"
        assert node.metadata.annotations["example.com/node"] == "kept"
        of_node = claim.metadata.annotations.items() - {
            (names.EXPLANATION, claim.metadata.annotations[names.EXPLANATION])
        }
        assert of_node <= node.metadata.annotations.items()  # the explanation is on the NodeClaim alone
        assert set(node.metadata.finalizers) == {"example.com/kept", names.TERMINATION_FINALIZER}
        (owner,) = node.metadata.owner_references
        assert (owner.kind, owner.uid, owner.block_owner_deletion) == ("NodeClaim", claim.metadata.uid, True)
        assert status_and_reason(claim, "Registered")[0] == "True"
        assert claim.status.node_name == "by-hand"
        about = {"nodepool": "default", "zone": claim.metadata.labels[names.ZONE]}
        assert env.app.metrics.value("karpenter_nodes_created_total", about) == 1
        await env.sleep(60)
        assert env.app.metrics.value("karpenter_nodes_created_total", about) == 1

    app_environment.run(program)


@pytest.mark.fact("NC-11")
def test_label_do_not_sync_taints_keeps_taints_of_the_claim_off_the_node() -> None:
    async def program(env: AppEnvironment) -> None:
        claim_taints = [{"key": "example.com/only", "effect": "NoSchedule"}]
        claim = await launched_without_node(env, taints=claim_taints)
        await register(env, claim, metadata={"labels": {names.DO_NOT_SYNC_TAINTS: "true"}})
        node = await env.kube.get(Node, "by-hand")
        assert "example.com/only" not in {t.key for t in node.spec.taints}
        assert names.UNREGISTERED_TAINT not in {t.key for t in node.spec.taints}
        assert node.metadata.labels[names.REGISTERED] == "true"

    app_environment.run(program)


@pytest.mark.fact("NC-11")
def test_registration_is_retried_when_the_node_changed_meanwhile() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await launched_without_node(env)
        path = "/api/v1/nodes/by-hand"
        env.line.add(
            api_faults.Refuse("Conflict"), lambda request: (request.method, request.path) == ("PATCH", path)
        )
        await register(env, claim)
        await env.sleep(10)
        assert (await env.kube.get(Node, "by-hand")).metadata.labels[names.REGISTERED] == "true"
        assert status_and_reason((await env.claims())[0], "Registered")[0] == "True"

    app_environment.run(program)


# --- Initialization -----------------------------------------------------------------------------------


@pytest.mark.fact("NC-17")
def test_initialized_is_not_reverted_when_the_node_is_not_ready() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env)
        (node,) = await env.nodes()
        assert node.metadata.labels[names.INITIALIZED] == "true"
        assert status_and_reason(claim, "Initialized")[0] == "True"
        not_ready = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
        change = {"status": {"conditions": not_ready}}
        await env.kube.patch(node, change, status=True, only_if_unchanged=True)
        await env.sleep(5)
        (claim,) = await env.claims()
        (node,) = await env.nodes()
        assert node.metadata.labels[names.INITIALIZED] == "true"
        assert status_and_reason(claim, "Initialized")[0] == "True"

    app_environment.run(program)


# --- Expiration ---------------------------------------------------------------------------------------


@pytest.mark.fact("NC-19", "M-9")
def test_expired_claim_is_deleted_at_once_and_its_drain_respects_pod_disruption_budgets() -> None:
    """Neither NodePool budgets nor PodDisruptionBudgets delay the deletion, and no replacement is launched first."""

    async def program(env: AppEnvironment) -> None:
        none = {"budgets": [{"nodes": "0"}]}
        claim = await one_claim(env, expireAfter="1h", disruption=none)
        await env.forbid_evictions()
        created = claim.metadata.creation_timestamp
        assert created is not None
        await env.sleep(times.epoch_s(created) + 3600 - env.clock.now_s() - 3)
        (claim,) = await env.claims()
        assert claim.metadata.deletion_timestamp is None
        await env.sleep(5)
        claim = await env.kube.get(NodeClaim, claim.metadata.name)
        assert claim.metadata.deletion_timestamp is not None
        assert claim.metadata.deletion_timestamp - created <= timedelta(hours=1, seconds=2)
        assert disrupted(env, "expired") == 1
        await env.sleep(300)
        assert len(await env.running()) == 1  # the PodDisruptionBudget blocks the drain
        assert not await env.is_deleted(NodeClaim, claim.metadata.name)
        await env.kube.delete((await env.kube.list(PodDisruptionBudget)).items[0])

        async def is_removed() -> bool:
            return await env.is_deleted(NodeClaim, claim.metadata.name)

        await env.until(is_removed)
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("NC-19")
def test_expiration_waits_for_a_pod_that_must_not_be_disrupted_until_the_grace_period_ends() -> None:
    async def program(env: AppEnvironment) -> None:
        held = {"annotations": {names.DO_NOT_DISRUPT: "true"}, "terminationGracePeriodSeconds": 30}
        claim = await one_claim(env, pods=held, expireAfter="1h", terminationGracePeriod="20m")
        (pod,) = await env.running()
        await env.sleep(3600 + 18 * 60)
        assert pod.metadata.uid in {one.metadata.uid for one in await env.running()}
        await env.sleep(240)
        assert pod.metadata.uid not in {one.metadata.uid for one in await env.running()}
        assert await env.is_deleted(NodeClaim, claim.metadata.name)
        assert disrupted(env, "expired", termination_mode="eventual") == 1

    app_environment.run(program)


@pytest.mark.fact("NC-19")
def test_expire_after_never_disables_expiration() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env, expireAfter="Never")
        env.skip(400 * 86_400)
        await env.sleep(60)
        assert (await env.kube.get(NodeClaim, claim.metadata.name)).metadata.deletion_timestamp is None

    app_environment.run(program)


def test_claim_expires_within_an_hour_after_its_computer_was_suspended() -> None:
    """The monotonic clock, by which a NodeClaim waits for its next check, leaves out the time of a suspension."""

    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env, expireAfter="48h")
        await env.sleep(600)
        env.skip(49 * 3600)
        await env.sleep(3600 + 300)
        assert await env.is_deleted(NodeClaim, claim.metadata.name)

    app_environment.run(program)


# --- Garbage collection -------------------------------------------------------------------------------


@pytest.mark.fact("NC-20", "NC-21", "M-9")
def test_claim_without_instance_and_node_is_garbage_collected() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env)
        (node,) = await env.nodes()
        env.crash()
        control.kill(env.ec2.region, env.ec2_instances[0].id)
        free: dict[str, Any] = {"metadata": {"finalizers": []}}
        await env.kube.patch(node, free, only_if_unchanged=True)
        await env.kube.delete(await env.kube.get(Node, node.metadata.name))
        await env.restart()

        async def is_removed() -> bool:
            return await env.is_deleted(NodeClaim, claim.metadata.name)

        assert await env.until(is_removed, within_s=125) > 1
        assert disrupted(env, "garbage_collected") == 1
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("NC-20")
def test_claim_whose_node_is_ready_is_not_garbage_collected() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env)
        control.kill(env.ec2.region, env.ec2_instances[0].id)
        await env.sleep(400)
        (node,) = await env.nodes()
        assert [one.status for one in node.status.conditions if one.type == "Ready"] == ["True"]
        found = await env.kube.get(NodeClaim, claim.metadata.name)
        assert found.metadata.deletion_timestamp is None

    app_environment.run(program, timings=dataclasses.replace(app_environment.FAST, grace_s=100_000))


@pytest.mark.fact("NC-20")
def test_unregistered_claim_is_not_garbage_collected() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await launched_without_node(env)
        control.kill(env.ec2.region, env.ec2_instances[0].id)
        await env.sleep(400)
        found = await env.kube.get(NodeClaim, claim.metadata.name)
        assert found.metadata.deletion_timestamp is None

    app_environment.run(program)


# --- Termination --------------------------------------------------------------------------------------


@pytest.mark.fact("NC-23", "E-3")
def test_deleted_claim_has_the_time_at_which_its_grace_period_ends() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env, terminationGracePeriod="5m")
        await env.forbid_evictions()
        await env.kube.delete(claim)
        await env.sleep(100)
        claim = await env.kube.get(NodeClaim, claim.metadata.name)
        deleted = claim.metadata.deletion_timestamp
        assert deleted is not None
        until = (deleted + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
        written = {one.metadata.annotations.get(names.TERMINATION_TIMESTAMP) for one in env.ever(NodeClaim)}
        assert written == {None, until}
        (event,) = await env.events("TerminationGracePeriodExpiring")
        assert (event.involved_object.kind, event.involved_object.name) == ("NodeClaim", claim.metadata.name)
        assert until in event.message

    app_environment.run(program)


@pytest.mark.fact("NC-24", "X-1")
def test_registered_claim_is_not_removed_before_its_node_is_removed() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env)
        (instance,), (node,) = env.ec2_instances, await env.nodes()
        held = {"metadata": {"finalizers": [*node.metadata.finalizers, "example.com/hold"]}}
        await env.kube.patch(node, held, only_if_unchanged=True)
        await env.kube.delete(claim)
        await env.sleep(120)
        assert (await env.kube.get(Node, node.metadata.name)).metadata.deletion_timestamp is not None
        assert not await env.is_deleted(NodeClaim, claim.metadata.name)
        assert env.ec2.region.instances[instance.id].state == "terminated"  # by the termination of the Node
        free: dict[str, Any] = {"metadata": {"finalizers": []}}
        await env.kube.patch(await env.kube.get(Node, node.metadata.name), free, only_if_unchanged=True)
        await env.sleep(30)
        assert await env.is_deleted(NodeClaim, claim.metadata.name)

    app_environment.run(program)


@pytest.mark.fact("NC-24")
def test_instance_of_an_unregistered_claim_is_terminated_and_its_node_is_not_deleted() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await launched_without_node(env)
        (instance,) = env.ec2_instances
        env.crash()
        await register(env, claim)
        await env.kube.delete(await env.kube.get(NodeClaim, claim.metadata.name))
        await env.restart()
        await env.sleep(100)
        assert await env.is_deleted(NodeClaim, claim.metadata.name)
        assert env.ec2.region.instances[instance.id].state == "terminated"
        assert "DELETE /api/v1/nodes/by-hand" not in env.writes()
        assert all(not one.metadata.finalizers for one in env.ever(Node) if one.metadata.name == "by-hand")

    app_environment.run(program)


@pytest.mark.fact("NC-34")
def test_drained_becomes_true_no_sooner_than_five_seconds_into_the_drain() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env, pods={"terminationGracePeriodSeconds": 0})
        await env.scale("web", 0)
        await env.sleep(2)
        await env.kube.delete(await env.kube.get(NodeClaim, claim.metadata.name))

        async def is_removed() -> bool:
            return await env.is_deleted(NodeClaim, claim.metadata.name)

        await env.until(is_removed)
        drained_conditions = [
            conditions.find(one.status.conditions, "Drained") for one in versions(env, claim.metadata.name)
        ]
        found = [one for one in drained_conditions if one is not None]
        assert [(one.status, one.reason) for one in (found[0], found[-1])] == [
            ("Unknown", "Draining"),
            ("True", "Drained"),
        ]
        took = found[-1].last_transition_time - found[0].last_transition_time
        assert timedelta(seconds=5) <= took <= timedelta(seconds=7)
        assert env.app.metrics.value("karpenter_nodes_drained_total", {"nodepool": "default"}) == 1

    app_environment.run(program)


@pytest.mark.fact("NC-34")
def test_drained_is_unknown_while_a_pod_is_terminating() -> None:
    async def program(env: AppEnvironment) -> None:
        slow = {"annotations": {"sim.holdfast.dev/stops-after": "60"}, "terminationGracePeriodSeconds": 90}
        claim = await one_claim(env, pods=slow)
        await env.kube.delete(claim)
        await env.sleep(50)
        found = await env.kube.get(NodeClaim, claim.metadata.name)
        assert status_and_reason(found, "Drained") == ("Unknown", "Draining")
        assert env.app.metrics.value("karpenter_nodes_drained_total", {"nodepool": "default"}) is None

    app_environment.run(program)


# --- Evictions ----------------------------------------------------------------------------------------


@pytest.mark.fact("NC-31", "E-1")
@pytest.mark.parametrize(
    ("drifts", "reason"), [(True, "Drifted"), (False, "Forceful Termination")], ids=["drift", "deletion"]
)
def test_evicted_pod_has_an_event_and_is_counted_by_reason(*, drifts: bool, reason: str) -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env)
        (pod,) = await env.running()
        if drifts:
            await drift_all(env)
        else:
            await env.kube.delete(claim)

        async def evicted() -> bool:
            return bool(await env.events("Evicted"))

        await env.until(evicted)
        (event,) = await env.events("Evicted")
        assert (event.involved_object.kind, event.involved_object.uid) == ("Pod", pod.metadata.uid)
        assert env.app.metrics.value("karpenter_pods_drained_total", {"reason": reason}) == 1
        assert env.app.metrics.value("karpenter_pods_eviction_requests_total", {"code": "200"}) == 1

    app_environment.run(program)


@pytest.mark.fact("NC-31", "E-4")
@pytest.mark.parametrize("budgets", [1, 2])
def test_eviction_that_budgets_forbid_has_an_event_on_the_node_and_is_retried(budgets: int) -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env)
        for number in range(budgets):
            selector = {"matchLabels": {"app": "web"}}
            document = {
                "metadata": {"name": f"pdb-{number}", "namespace": "default"},
                "spec": {
                    "maxUnavailable": budgets - 1,
                    "selector": selector,
                },  # two PodDisruptionBudgets of one pod always block its eviction
            }
            await env.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", document)
        await env.sleep(5)
        await env.kube.delete(claim)
        await env.sleep(60)
        assert len(await env.running()) == 1
        about = {(e.involved_object.kind, e.involved_object.name) for e in await env.events("FailedDraining")}
        assert about == {("Node", claim.status.node_name)}
        for found in (await env.kube.list(PodDisruptionBudget)).items:
            await env.kube.delete(found)
        await env.sleep(15)
        assert await env.events("Evicted")

    app_environment.run(program)


@pytest.mark.fact("NC-31")
@pytest.mark.parametrize(("reason", "code"), [("NotFound", "404"), ("Conflict", "409")])
def test_eviction_answered_with_not_found_or_conflict_reports_no_failure(
    reason: Literal["NotFound", "Conflict"], code: str
) -> None:
    """Both answers mean that the pod to evict no longer exists, so there is no event."""

    async def program(env: AppEnvironment) -> None:
        claim = await one_claim(env)
        env.line.add(api_faults.Refuse(reason), lambda request: request.path.endswith("/eviction"))
        await env.kube.delete(claim)
        await env.sleep(60)
        assert await env.events("FailedDraining") == []
        assert env.app.metrics.value("karpenter_pods_eviction_requests_total", {"code": code}) == 1
        assert await env.is_deleted(NodeClaim, claim.metadata.name)

    app_environment.run(program)
