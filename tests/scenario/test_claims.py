"""NodeClaims of other writers, and NodeClaims whose launch or registration fails. In virtual time."""

import itertools
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

import app_environment
import cluster_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import aws, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.api.serving.faults import Refuse
from holdfast.sim.api.serving.front import Request
from holdfast.sim.ec2 import faults
from objects import nodeclaim

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}
EFA = "vpc.amazonaws.com/efa"
NODE_CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def claim(claim_name: str, **reference: str) -> NodeClaim:
    labels = {"karpenter.sh/nodepool": "default"}
    return nodeclaim(
        claim_name, {"labels": labels}, nodeClassRef=NODE_CLASS_REF | reference, requirements=[LARGE]
    )


@pytest.mark.fact("NC-1", "P-9", "X-1")
def test_finalizer_precedes_the_launch_and_nodeclaims_of_other_nodeclass_kinds_are_ignored() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        await env.kube.create(claim("ours"))
        await env.kube.create(claim("theirs", group="karpenter.azure.com", kind="AKSNodeClass"))
        await env.sleep(60)
        ours = await env.kube.get(NodeClaim, "ours")
        theirs = await env.kube.get(NodeClaim, "theirs")
        assert ours.status.provider_id
        assert theirs.metadata.finalizers == ()
        assert theirs.status.conditions == ()
        versions = [one for one in cluster_environment.history(env) if '"name":"ours"' in one]
        with_finalizer = [names.TERMINATION_FINALIZER in one for one in versions]
        with_token = [names.LAUNCH_TOKEN in one for one in versions]
        assert with_finalizer.index(True) < with_token.index(True)

    app_environment.run(program)


def test_a_launch_logs_instance_type_zone_capacity_type_reservation_and_price() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        with capture_logs() as logs:
            await env.deploy("web", 1, **ONE_PER_NODE)
            await env.sleep(60)
        (made,), (instance,) = await env.claims(), env.ec2_instances
        (line,) = [one for one in logs if one["event"] == "launched nodeclaim"]
        assert (line["nodeclaim"], line["instance_id"]) == (made.metadata.name, instance.id)
        assert (line["instance_type"], line["zone"]) == ("m5.large", made.metadata.labels[names.ZONE])
        assert line["capacity_type"] in (names.ON_DEMAND, names.SPOT)
        assert line["reservation"] is None
        assert float(line["price_usd_per_hour"]) > 0
        events = [one["event"] for one in logs if one.get("nodeclaim") == made.metadata.name]
        assert events == ["launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"]

    app_environment.run(program)


@pytest.mark.fact("NC-7", "M-9")
def test_nodeclaim_whose_nodeclass_does_not_exist_is_deleted() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.kube.create(claim("lost", name="nowhere"))
        await env.sleep(10)
        assert await env.is_deleted(NodeClaim, "lost")
        about = {"reason": "nodeclass_not_ready", "nodepool": "default", "capacity_type": ""}
        plain = {"consolidation_policy": "", "termination_mode": "graceful"}
        assert env.app.metrics.value("karpenter_nodeclaims_disrupted_total", about | plain) == 1

    app_environment.run(program)


@pytest.mark.fact("aws-5.10.6")
def test_launch_does_not_change_labels_that_a_nodeclaim_already_has() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        labels = {"karpenter.sh/nodepool": "default", aws.INSTANCE_FAMILY: "mine"}
        await env.kube.create(
            nodeclaim("labelled", {"labels": labels}, nodeClassRef=NODE_CLASS_REF, requirements=[LARGE])
        )
        await env.sleep(60)
        made = await env.kube.get(NodeClaim, "labelled")
        assert made.status.provider_id
        found = {key: made.metadata.labels[key] for key in (aws.INSTANCE_FAMILY, aws.INSTANCE_SIZE)}
        assert found == {aws.INSTANCE_FAMILY: "mine", aws.INSTANCE_SIZE: "large"}

    app_environment.run(program)


@pytest.mark.fact("aws-5.10.4")
@pytest.mark.parametrize(("wanted", "efas"), [({}, None), ({EFA: "1"}, "32")])
def test_nodeclaim_has_efas_only_if_its_instance_has_them(wanted: dict[str, str], efas: str | None) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("p5.48xlarge"), capacity_types("on-demand")])
        await env.deploy("train", 1, limits=wanted)
        await env.until_running(1, "train")
        (made,), (instance,) = await env.claims(), env.ec2_instances
        assert instance.spec.efas == int(efas or 0)
        assert made.status.capacity["nvidia.com/gpu"] == "8"
        assert [amounts.get(EFA) for amounts in (made.status.capacity, made.status.allocatable)] == [efas] * 2

    app_environment.run(program)


@pytest.mark.fact("NC-12", "E-3")
def test_node_without_the_unregistered_taint_is_registered_with_an_event() -> None:
    async def program(env: AppEnvironment) -> None:
        env.ec2.region.faults.add(faults.Silent(times=1))
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(60)
        (made,) = await env.claims()
        node = {"metadata": {"name": "by-hand"}, "spec": {"providerID": made.status.provider_id}}
        await env.create("/api/v1/nodes", node)
        await env.sleep(5)
        (event,) = await env.events("UnregisteredTaintMissing")
        assert event.involved_object.name == made.metadata.name
        (made,) = await env.claims()
        assert made.status.node_name == "by-hand"
        registered = conditions.find(made.status.conditions, "Registered")
        assert registered is not None
        assert registered.status == "True"

    app_environment.run(program)


@pytest.mark.fact("NC-13")
def test_removed_startup_taint_is_not_added_again() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        taint = {"key": "example.com/agent", "value": "missing", "effect": "NoSchedule"}
        await env.node_pool(requirements=[LARGE], startupTaints=[taint])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(60)
        (made,) = await env.claims()
        initialized = conditions.find(made.status.conditions, "Initialized")
        assert initialized is not None
        assert (initialized.status, initialized.reason) == ("Unknown", "StartupTaintsExist")
        (node,) = await env.nodes()
        assert [one.key for one in node.spec.taints] == ["example.com/agent"]
        change: dict[str, Any] = {"spec": {"taints": []}}
        await env.kube.patch(node, change, only_if_unchanged=True)
        await env.until_running(1)
        await env.sleep(300)
        (node,) = await env.nodes()
        assert node.spec.taints == ()
        assert node.metadata.labels[names.INITIALIZED] == "true"

    app_environment.run(program)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The parts of an object that a write changed; for a status, the conditions that became True or the new fields."""
    parts = [key for key in ("metadata", "spec") if _part(before, key) != _part(after, key)]
    if parts:
        return " ".join(parts)
    old, new = before.get("status", {}), after["status"]
    true_before = {one["type"] for one in old.get("conditions", ()) if one["status"] == "True"}
    true_after = {one["type"] for one in new.get("conditions", ()) if one["status"] == "True"}
    return "status: " + " ".join(sorted(true_after - true_before) or sorted(new.keys() - old.keys()))


def _part(obj: dict[str, Any], key: str) -> dict[str, Any]:
    set_by_server = ("resourceVersion", "managedFields", "generation")
    return {name: value for name, value in obj.get(key, {}).items() if name not in set_by_server}


def test_nodeclaim_is_written_once_per_lifecycle_stage() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await env.sleep(60)
        written = [
            json.loads(one.removeprefix("karpenter.sh/nodeclaims is "))
            for one in cluster_environment.history(env)
            if one.startswith("karpenter.sh/nodeclaims is ")
        ]
        changes = [_changed(before, after) for before, after in itertools.pairwise([{}, *written])]
        assert changes[:-2] == [
            "metadata spec",
            "metadata",  # the launch token, before the launch
            "metadata",  # the labels of its instance
            "status: Launched",
            "status: Registered",
            "status: ConsistentStateFound Consolidatable Initialized Ready",
        ]
        # Its instance is tagged, and a controller of its own notices the pod, in the same second.
        assert sorted(changes[-2:]) == ["metadata", "status: lastPodEventTime"]

    app_environment.run(program)


@pytest.mark.fact("P-7")
def test_failed_creation_of_one_nodeclaim_does_not_stop_the_creation_of_others() -> None:
    def is_claim(request: Request) -> bool:
        return request.method == "POST" and request.path.endswith("/nodeclaims")

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        env.line.add(Refuse("Conflict"), is_claim, times=1)
        await env.deploy("web", 3, **ONE_PER_NODE)
        await env.sleep(5)
        assert len(await env.claims()) == 2
        await env.until_running(3)
        assert len(env.all_ec2_instances()) == len(await env.claims()) == 3

    app_environment.run(program)


@pytest.mark.fact("NC-2", "M-9")
def test_failing_registration_does_not_prevent_the_registration_timeout() -> None:
    def is_node(request: Request) -> bool:
        return request.method == "PATCH" and request.path.startswith("/api/v1/nodes/")

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 1, **ONE_PER_NODE)
        env.line.add(Refuse("InternalError"), is_node, times=1_000_000)
        await env.sleep(60)
        (first,) = await env.claims()
        assert first.status.provider_id
        assert not first.status.node_name
        await env.sleep(15 * 60)
        assert await env.is_deleted(NodeClaim, first.metadata.name)
        kind = first.metadata.labels[names.CAPACITY_TYPE]
        about = {"reason": "registration_timeout", "nodepool": "default", "capacity_type": kind}
        plain = {"consolidation_policy": "", "termination_mode": "graceful"}
        assert env.app.metrics.value("karpenter_nodeclaims_disrupted_total", about | plain) == 1

    app_environment.run(program)


@pytest.mark.fact("P-8")
def test_created_nodeclaim_is_counted_and_its_pods_are_nominated_and_not_planned_again() -> None:
    async def program(env: AppEnvironment) -> None:
        env.ec2.region.faults.add(faults.Silent(times=2))
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.sleep(60)
        claims = [one.metadata.name for one in await env.claims()]
        about = {"reason": "provisioned", "nodepool": "default", "min_values_relaxed": "false"}
        assert env.app.metrics.value("karpenter_nodeclaims_created_total", about) == len(claims) == 2
        events = await env.events("Nominated")
        assert {event.involved_object.kind for event in events} == {"Pod"}
        assert sorted(event.message for event in events) == [
            f"Pod should schedule on: nodeclaim/{name}" for name in sorted(claims)
        ]

    app_environment.run(program)


@pytest.mark.fact("P-6")
def test_scheduling_decision_duration_is_observed_once_per_pod() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.deploy("huge", 1, cpu="900")  # does not fit, so every batch plans it
        await env.until_running(2)
        await env.sleep(60)
        metric = "karpenter_pods_scheduling_decision_duration_seconds"
        assert env.app.metrics.value(f"{metric}_count", {}) == 3
        waited_s = env.app.metrics.value(f"{metric}_sum", {})
        assert waited_s is not None
        assert 3 <= waited_s <= 6  # a second of batching each

    app_environment.run(program)
