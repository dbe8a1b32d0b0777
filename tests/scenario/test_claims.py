"""NodeClaims that somebody else wrote, or that meet trouble on their way; the real program, in virtual time."""

import itertools
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

import app_world
import cluster_world
from app_world import AppWorld, capacity_types, instance_types
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
OURS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def claim(called: str, **reference: str) -> NodeClaim:
    labels = {"karpenter.sh/nodepool": "default"}
    return nodeclaim(called, {"labels": labels}, nodeClassRef=OURS | reference, requirements=[LARGE])


@pytest.mark.fact("NC-1", "P-9", "X-1")
def test_a_claim_has_our_finalizer_before_anything_is_launched_and_those_of_others_are_left_alone() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.sleep(10)
        await world.kube.create(claim("ours"))
        await world.kube.create(claim("theirs", group="karpenter.azure.com", kind="AKSNodeClass"))
        await world.sleep(60)
        ours = await world.kube.get(NodeClaim, "ours")
        theirs = await world.kube.get(NodeClaim, "theirs")
        assert ours.status.provider_id
        assert theirs.metadata.finalizers == ()
        assert theirs.status.conditions == ()
        versions = [one for one in cluster_world.history(world) if '"name":"ours"' in one]
        held = [names.TERMINATION_FINALIZER in one for one in versions]
        stamped = [names.LAUNCH_TOKEN in one for one in versions]
        assert held.index(True) < stamped.index(True)

    app_world.run(program)


def test_a_launch_logs_instance_type_zone_capacity_type_reservation_and_price() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.sleep(10)
        with capture_logs() as logs:
            await world.deploy("web", 1, **ONE_PER_NODE)
            await world.sleep(60)
        (made,), (machine,) = await world.claims(), world.machines
        (line,) = [one for one in logs if one["event"] == "launched nodeclaim"]
        assert (line["nodeclaim"], line["instance_id"]) == (made.metadata.name, machine.id)
        assert (line["instance_type"], line["zone"]) == ("m5.large", made.metadata.labels[names.ZONE])
        assert line["capacity_type"] in (names.ON_DEMAND, names.SPOT)
        assert line["reservation"] is None
        assert float(line["price_usd_per_hour"]) > 0
        events = [one["event"] for one in logs if one.get("nodeclaim") == made.metadata.name]
        assert events == ["launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"]

    app_world.run(program)


@pytest.mark.fact("NC-7", "M-9")
def test_a_claim_whose_class_is_not_there_ends() -> None:
    async def program(world: AppWorld) -> None:
        await world.kube.create(claim("lost", name="nowhere"))
        await world.sleep(10)
        assert await world.gone(NodeClaim, "lost")
        about = {"reason": "nodeclass_not_ready", "nodepool": "default", "capacity_type": ""}
        plain = {"consolidation_policy": "", "termination_mode": "graceful"}
        assert world.app.metrics.value("karpenter_nodeclaims_disrupted_total", about | plain) == 1

    app_world.run(program)


@pytest.mark.fact("aws-5.10.6")
def test_a_label_that_a_claim_has_before_its_launch_is_not_changed_by_it() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.sleep(10)
        labels = {"karpenter.sh/nodepool": "default", aws.INSTANCE_FAMILY: "mine"}
        await world.kube.create(
            nodeclaim("labelled", {"labels": labels}, nodeClassRef=OURS, requirements=[LARGE])
        )
        await world.sleep(60)
        made = await world.kube.get(NodeClaim, "labelled")
        assert made.status.provider_id
        found = {key: made.metadata.labels[key] for key in (aws.INSTANCE_FAMILY, aws.INSTANCE_SIZE)}
        assert found == {aws.INSTANCE_FAMILY: "mine", aws.INSTANCE_SIZE: "large"}

    app_world.run(program)


@pytest.mark.fact("aws-5.10.4")
@pytest.mark.parametrize(("wanted", "there"), [({}, None), ({EFA: "1"}, "32")])
def test_a_claim_has_efas_when_its_machine_has(wanted: dict[str, str], there: str | None) -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[instance_types("p5.48xlarge"), capacity_types("on-demand")])
        await world.deploy("train", 1, limits=wanted)
        await world.until_running(1, "train")
        (made,), (machine,) = await world.claims(), world.machines
        assert machine.spec.efas == int(there or 0)
        assert made.status.capacity["nvidia.com/gpu"] == "8"
        assert [amounts.get(EFA) for amounts in (made.status.capacity, made.status.allocatable)] == [
            there
        ] * 2

    app_world.run(program)


@pytest.mark.fact("NC-12", "E-3")
def test_a_node_that_joins_without_our_taint_is_told_of_and_registered() -> None:
    async def program(world: AppWorld) -> None:
        world.ec2.world.faults.add(faults.Silent(times=1))
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.sleep(60)
        (made,) = await world.claims()
        node = {"metadata": {"name": "by-hand"}, "spec": {"providerID": made.status.provider_id}}
        await world.create("/api/v1/nodes", node)
        await world.sleep(5)
        (event,) = await world.events("UnregisteredTaintMissing")
        assert event.involved_object.name == made.metadata.name
        (made,) = await world.claims()
        assert made.status.node_name == "by-hand"
        registered = conditions.find(made.status.conditions, "Registered")
        assert registered is not None
        assert registered.status == "True"

    app_world.run(program)


@pytest.mark.fact("NC-13")
def test_a_startup_taint_that_was_taken_off_is_not_put_on_again() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        taint = {"key": "example.com/agent", "value": "missing", "effect": "NoSchedule"}
        await world.node_pool(requirements=[LARGE], startupTaints=[taint])
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.sleep(60)
        (made,) = await world.claims()
        initialized = conditions.find(made.status.conditions, "Initialized")
        assert initialized is not None
        assert (initialized.status, initialized.reason) == ("Unknown", "StartupTaintsExist")
        (node,) = await world.nodes()
        assert [one.key for one in node.spec.taints] == ["example.com/agent"]
        change: dict[str, Any] = {"spec": {"taints": []}}
        await world.kube.patch(node, change, only_if_unchanged=True)
        await world.until_running(1)
        await world.sleep(300)
        (node,) = await world.nodes()
        assert node.spec.taints == ()
        assert node.metadata.labels[names.INITIALIZED] == "true"

    app_world.run(program)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Which parts of an object a write changed; of a status, what it says that it did not."""
    parts = [key for key in ("metadata", "spec") if _part(before, key) != _part(after, key)]
    if parts:
        return " ".join(parts)
    was, now = before.get("status", {}), after["status"]
    held = {one["type"] for one in was.get("conditions", ()) if one["status"] == "True"}
    holds = {one["type"] for one in now.get("conditions", ()) if one["status"] == "True"}
    return "status: " + " ".join(sorted(holds - held) or sorted(now.keys() - was.keys()))


def _part(obj: dict[str, Any], key: str) -> dict[str, Any]:
    servers = ("resourceVersion", "managedFields", "generation")
    return {name: value for name, value in obj.get(key, {}).items() if name not in servers}


def test_a_claim_is_written_once_a_stage_whatever_its_node_goes_through() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        await world.sleep(60)
        written = [
            json.loads(one.removeprefix("karpenter.sh/nodeclaims is "))
            for one in cluster_world.history(world)
            if one.startswith("karpenter.sh/nodeclaims is ")
        ]
        changes = [_changed(before, after) for before, after in itertools.pairwise([{}, *written])]
        assert changes == [
            "metadata spec",
            "metadata",  # the token, before anything is launched
            "metadata",  # the labels of its machine
            "status: Launched",
            "status: Registered",
            "status: ConsistentStateFound Consolidatable Initialized Ready",
            "metadata",  # its machine is tagged
            "status: lastPodEventTime",
        ]

    app_world.run(program)


@pytest.mark.fact("P-7")
def test_a_claim_that_cannot_be_written_takes_no_other_with_it() -> None:
    def is_claim(request: Request) -> bool:
        return request.method == "POST" and request.path.endswith("/nodeclaims")

    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.sleep(10)
        world.line.add(Refuse("Conflict"), is_claim, times=1)
        await world.deploy("web", 3, **ONE_PER_NODE)
        await world.sleep(5)
        assert len(await world.claims()) == 2
        await world.until_running(3)
        assert len(world.all_machines()) == len(await world.claims()) == 3

    app_world.run(program)


@pytest.mark.fact("NC-2", "M-9")
def test_a_stage_that_fails_keeps_the_later_ones_from_nothing() -> None:
    def is_node(request: Request) -> bool:
        return request.method == "PATCH" and request.path.startswith("/api/v1/nodes/")

    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.deploy("web", 1, **ONE_PER_NODE)
        world.line.add(Refuse("InternalError"), is_node, times=1_000_000)
        await world.sleep(60)
        (first,) = await world.claims()
        assert first.status.provider_id
        assert not first.status.node_name
        await world.sleep(15 * 60)
        assert await world.gone(NodeClaim, first.metadata.name)
        kind = first.metadata.labels[names.CAPACITY_TYPE]
        about = {"reason": "registration_timeout", "nodepool": "default", "capacity_type": kind}
        plain = {"consolidation_policy": "", "termination_mode": "graceful"}
        assert world.app.metrics.value("karpenter_nodeclaims_disrupted_total", about | plain) == 1

    app_world.run(program)


@pytest.mark.fact("P-8")
def test_a_claim_that_is_written_is_counted_its_pods_are_told_and_they_are_not_planned_for_again() -> None:
    async def program(world: AppWorld) -> None:
        world.ec2.world.faults.add(faults.Silent(times=2))
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.sleep(60)
        claims = [one.metadata.name for one in await world.claims()]
        about = {"reason": "provisioned", "nodepool": "default", "min_values_relaxed": "false"}
        assert world.app.metrics.value("karpenter_nodeclaims_created_total", about) == len(claims) == 2
        events = await world.events("Nominated")
        assert {event.involved_object.kind for event in events} == {"Pod"}
        assert sorted(event.message for event in events) == [
            f"Pod should schedule on: nodeclaim/{name}" for name in sorted(claims)
        ]

    app_world.run(program)


@pytest.mark.fact("P-6")
def test_how_long_a_pod_waited_for_its_first_plan_is_measured_once_from_when_it_was_seen() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.sleep(10)
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.deploy("huge", 1, cpu="900")  # planned again and again
        await world.until_running(2)
        await world.sleep(60)
        metric = "karpenter_pods_scheduling_decision_duration_seconds"
        assert world.app.metrics.value(f"{metric}_count", {}) == 3
        waited_s = world.app.metrics.value(f"{metric}_sum", {})
        assert waited_s is not None
        assert 3 <= waited_s <= 6  # a second of batching each

    app_world.run(program)
