"""A read-only view of a running cluster, at many times in virtual time: the file of `holdfast snapshot` gives the same
snapshot and the same plan, also without names."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

import app_environment
import labelled_pods
import pod_groups
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import drift_all
from holdfast import names
from holdfast.api.nodepool import NodePool
from holdfast.api.pods import Pod
from holdfast.api.scheduler_config import DefaultConstraint, PodTopologySpread, SchedulerConfig
from holdfast.app.live import LiveCluster
from holdfast.cli import aws, scenarios, snapshot
from holdfast.cli import plan as plan_command
from holdfast.core.reservations import ledger
from holdfast.scenarios import plan_document, scrub
from holdfast.scenarios.scenario import Scenario

Json = dict[str, Any]
LAG_S = 120


async def plan_of(cluster: LiveCluster) -> Json:
    found = await cluster.plan()
    return plan_document.document_of_uids(found.plan, found.rejected, found.pod_names)


def read_back(documents: list[Json]) -> Scenario:
    found = scenarios.of_documents(json.loads(json.dumps(documents)))
    assert isinstance(found, Scenario), [str(one) for one in found.findings]
    return found


async def check(env: AppEnvironment) -> Json:
    """Compares the cluster with its file, and returns the plan."""
    cluster = await env.read_live()
    documents = await snapshot.documents_of(cluster)
    live, file = await cluster.snapshot(), read_back(documents)
    ours, theirs = live.snapshot, file.request.snapshot
    for one in fields(ours):
        if one.name not in ("instances", "cache"):
            assert getattr(theirs, one.name) == getattr(ours, one.name), one.name
    assert ledger.ledger(theirs, LAG_S) == ledger.ledger(ours, LAG_S)
    assert file.rejected == live.rejected
    assert file.request.settings == env.settings.planning
    plan = await plan_of(cluster)
    assert plan_command.plan_documents(documents) == plan
    anonymous = plan_command.plan_documents(scrub.scrubbed(documents, aws.TERMS))
    assert shapes(anonymous) == shapes(plan)
    assert {**anonymous["cost"], "packing": ""} == {**plan["cost"], "packing": ""}
    assert sorted(anonymous["slotsLeft"].values()) == sorted(plan["slotsLeft"].values())
    return plan


def shapes(plan: Json) -> Counter[tuple[Any, ...]]:
    """The nodes of a plan, without names."""
    return Counter(
        (
            c["instanceType"],
            c["zone"],
            c["capacityType"],
            c["pricePerHour"],
            len(c["pods"]),
            str(c["requests"]),
        )
        for c in plan["claims"]
    )


async def varied_pods(env: AppEnvironment) -> None:
    """Pods with volumes, spread constraints, preferences, priorities, host ports and a DaemonSet; one is rejected."""
    zone = {"maxSkew": 1, "topologyKey": names.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    selector = {"labelSelector": {"matchLabels": {"app": "spread"}}}
    await env.deploy("spread", 3, cpu="700m", topologySpreadConstraints=[zone | selector])
    prefers = {
        "weight": 5,
        "preference": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [prefers]}}
    await env.deploy("picky", 2, cpu="600m", affinity=affinity, annotations={names.DO_NOT_DISRUPT: "true"})
    await env.deploy(
        "lost", 1, cpu="100m", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]
    )
    document = {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "c", "image": "registry.acme.example/agent:1", "env": [{"name": "TOKEN", "value": "hunter2"}],
                                 "resources": {"requests": {"cpu": "50m"}}}]},
    }}}  # fmt: skip
    await env.create("/apis/apps/v1/namespaces/default/daemonsets", document)


def test_snapshot_file_is_the_cluster_while_nodes_are_launched() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_class("other")
        types = instance_types("m5.large", "m5.xlarge", "m6g.large")
        await env.node_pool(requirements=[types, capacity_types("reserved", "on-demand", "spot")])
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "other"}
        taints = [{"key": "acme.example/gpu", "value": "yes", "effect": "NoSchedule"}]
        await env.node_pool("special", requirements=[types], nodeClassRef=reference, taints=taints, weight=10)
        await env.sleep(30)
        await env.deploy("web", 3, cpu="1500m")
        await varied_pods(env)
        await env.forbid_evictions()
        for _ in range(14):
            await check(env)
            await env.sleep(2)
        await env.until_running(3)
        await check(env)

    app_environment.run(program)


def test_snapshot_file_is_the_cluster_while_nodes_are_replaced() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")],
            disruption={"budgets": [{"nodes": "100%"}]},
        )
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        await env.sleep(130)
        await drift_all(env)
        for _ in range(12):
            await check(env)
            await env.sleep(5)

    app_environment.run(program)


def test_gangs_are_in_the_file() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("reserved")])
        in_one_zone = {"topology": [{"key": names.ZONE}]}
        for name, least in (("small", 2), ("large", 4)):
            document = pod_groups.document(name, least, schedulingConstraints=in_one_zone, priority=least)
            await env.create(pod_groups.PATH, document)
            await env.deploy(name, least, cpu="1500m", **pod_groups.member(name))
        for _ in range(10):
            await check(env)
            await env.sleep(2)
        await env.until_running(2, "small")
        plan = await check(env)
        assert [len(one["pods"]) for one in plan["unplaced"]] == [4]

    app_environment.run(program, gangs=True)


@pytest.mark.parametrize("sources", [("JobSet", "LeaderWorkerSet"), ("LeaderWorkerSet",), ()])
def test_gangs_of_labels_are_in_the_file(sources: tuple[str, ...]) -> None:
    """Three slots for five pods of a JobSet and a group of four, two of which are missing at first."""
    planning = replace(app_environment.SETTINGS.planning, gangs_of=frozenset(sources))

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("reserved")])
        await env.deploy("train", 5, labels=labelled_pods.job_set(), cpu="1500m")
        for name in ("leader", "workers"):
            await env.deploy(name, 2, **labelled_pods.of_group(size="4"), cpu="1500m")
            for _ in range(6):
                await check(env)
                await env.sleep(1)
        for _ in range(6):
            await check(env)
            await env.sleep(5)
        launched = 0 if "JobSet" in sources else 3
        assert len(env.claims_ever()) == launched

    app_environment.run(program, settings=replace(app_environment.SETTINGS, planning=planning))


def test_run_times_of_jobs_are_in_the_file() -> None:
    async def program(env: AppEnvironment) -> None:
        now_s = env.clock.now_s()
        slots = [
            env.reserve(
                "p5.48xlarge", 1, kind="capacity-block", start_s=now_s - 60, end_s=now_s + hours * 3600
            )
            for hours in (3, 30)
        ]
        await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
        await env.node_pool(requirements=[instance_types("p5.48xlarge"), capacity_types("reserved")])
        for name, deadline_s in (("short", 3600), ("long", 36_000), ("longer", 360_000)):
            container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "150"}}}
            template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
            spec = {"parallelism": 1, "activeDeadlineSeconds": deadline_s, "template": template}
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
            await env.create("/apis/batch/v1/namespaces/default/jobs", job)
        for _ in range(10):
            await check(env)
            await env.sleep(2)
        plan = await check(env)
        assert [one["reasons"][0]["code"] for one in plan["unplaced"]] == ["EndsTooSoon"]
        assert [env.in_reservation(one) for one in slots] == [1, 1]

    app_environment.run(program)


def test_pods_that_wait_for_nodeclaims_in_flight_are_not_planned_twice() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("m5.large")])
        await env.deploy("web", 3, cpu="1500m")

        async def has_claims() -> bool:
            return len(await env.claims()) == 3

        await env.until(has_claims)
        assert await env.running() == []
        plan = await check(env)
        assert plan["claims"] == []
        assert {node["name"] for node in plan["nodes"]} <= await node_names(env)
        assert sum(len(node["pods"]) for node in plan["nodes"]) == 3

    app_environment.run(program)


async def node_names(env: AppEnvironment) -> set[str]:
    return {one.metadata.name for one in (*await env.claims(), *await env.nodes())}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield str(key)
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, str):
        yield value


def test_scrub_leaves_no_name_and_a_snapshot_has_no_secret() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}], userData="#!acme-user-data")
        template = {
            "labels": {"acme.example/team": "falcon"},
            "taints": [{"key": "acme-taint", "effect": "NoSchedule"}],
        }
        await env.node_pool("acme-pool", requirements=[instance_types("m5.large")], **template)
        tolerations = [{"key": "acme-taint", "operator": "Exists"}]
        await env.deploy(
            "acme-web", 2, cpu="1500m", tolerations=tolerations, nodeSelector={"acme.example/team": "falcon"}
        )
        await varied_pods(env)
        await env.until_running(2, "acme-web")
        cluster = await env.read_live()
        documents = await snapshot.documents_of(cluster)
        plain = json.dumps(documents)
        for secret in ("hunter2", "acme-user-data", "registry.acme.example"):
            assert secret not in plain
        text = json.dumps(scrub.scrubbed(documents, aws.TERMS))
        pods = tuple(cluster.caches.of(Pod))
        found = {one.metadata.name for cache in cluster.caches for one in cache} - {"default"}
        found |= {one.metadata.uid for one in pods}
        found |= {
            value
            for pod in pods
            for key, value in pod.metadata.labels.items()
            if key not in aws.TERMS.labels.well_known
        }
        found |= {owner.name for pod in pods for owner in pod.metadata.owner_references}
        found |= {slots.id, "acme", "falcon", "missing", "gold"}
        found |= {one.id for one in env.ec2_instances}
        known = set(strings(json.loads(text)))
        # Also as a part of a text, unless the name is so short that a field may contain it.
        assert sorted(name for name in found if name in known or (len(name) > 4 and name in text)) == []
        assert '"name": "default"' not in text
        assert '"namespace": "default"' not in text

    app_environment.run(program)


def test_nodepool_that_cannot_launch_is_in_the_file_and_launches_nothing() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("m5.large")])
        await env.node_class("broken", subnetSelectorTerms=[{"tags": {"no": "subnet"}}])
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "broken"}
        await env.node_pool(
            "broken", requirements=[instance_types("m5.large")], nodeClassRef=reference, weight=50
        )
        await env.sleep(30)
        cluster = await env.read_live()
        documents = await snapshot.documents_of(cluster)
        assert [name for name, _ in cluster.unserved(await cluster.snapshot())] == ["broken"]
        assert [pool.name for pool in read_back(documents).request.snapshot.node_pools] == ["default"]
        assert "NodePool broken opens no nodes: it is not Ready" in read_back(documents).notes

    app_environment.run(program)


def test_default_spread_constraints_of_the_cluster_are_in_the_file() -> None:
    constraint = DefaultConstraint(max_skew=1, topology_key=names.ZONE, when_unsatisfiable="ScheduleAnyway")
    scheduler = SchedulerConfig(pod_topology_spread=PodTopologySpread(default_constraints=(constraint,)))

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("m5.large")])
        await env.sleep(20)
        await env.deploy("web", 3, cpu="1500m")
        await env.sleep(1)
        cluster = await env.read_live()
        pending = (await cluster.snapshot()).snapshot.pending
        assert [len(pod.shape.spreads) for pod in pending] == [1, 1, 1]
        await check(env)

    app_environment.run(program, settings=replace(app_environment.SETTINGS, scheduler=scheduler))


@pytest.mark.parametrize("ready", [True, False])
def test_class_and_nodepool_without_a_status_are_resolved_in_memory(ready: bool) -> None:  # noqa: FBT001 - a case
    async def program(env: AppEnvironment) -> None:
        await env.app.stop()
        slots = env.reserve(total=1)
        terms: Json = {} if ready else {"subnetSelectorTerms": [{"tags": {"no": "subnet"}}]}
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}], **terms)
        await env.node_pool(requirements=[instance_types("m5.large")])
        await env.deploy("web", 1, cpu="1500m")
        await env.sleep(5)
        plan = await check(env)
        assert [claim["reservationID"] for claim in plan["claims"]] == ([slots.id] if ready else [])
        assert not (await env.kube.get(NodePool, "default")).status.conditions
        assert await env.claims() == []
        env.app = env.new_app()
        env.app.start()

    app_environment.run(program)


def test_snapshot_is_taken_once() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("m5.large")])
        await env.sleep(20)
        cluster = await env.read_live()
        first = (await cluster.plan()).snapshot
        await env.deploy("web", 1, cpu="1")
        await asyncio.sleep(5)
        assert (await cluster.plan()).snapshot is first
        assert replace(first, pending=()) == first

    app_environment.run(program)
