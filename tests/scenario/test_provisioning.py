"""From a pending pod to a ready node. The real controllers run in virtual time."""

import dataclasses
from collections import Counter

import pytest

import app_environment
import aws_environment
import builders
import cluster_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import errors, names
from holdfast.api import conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.scheduler_config import DefaultConstraint, PodTopologySpread, SchedulerConfig
from holdfast.core.scheduling.input.request import Packing
from holdfast.sim.ec2 import control

RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}  # of an m5.large
ZONES = DefaultConstraint(max_skew=1, topology_key=names.ZONE, when_unsatisfiable="DoNotSchedule")


def status_of(claim: NodeClaim, condition: str) -> str:
    found = conditions.find(claim.status.conditions, condition)
    return found.status if found is not None else ""


@pytest.mark.fact("NC-3", "P-10", "P-12")
def test_pending_pods_run_on_nodes_that_were_launched_for_them() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        taint = {"key": "example.com/only", "value": "web", "effect": "NoSchedule"}
        await env.node_pool(
            requirements=[LARGE], labels={"team": "web"}, taints=[taint], terminationGracePeriod="5m"
        )
        await env.deploy("web", 3, **ONE_PER_NODE, tolerations=[{"operator": "Exists"}])
        assert await env.until_running(3) < 60
        claims, nodes = await env.claims(), await env.nodes()
        assert len(claims) == len(nodes) == len(env.ec2_instances) == 3
        for claim in claims:
            assert [status_of(claim, c) for c in ("Launched", "Registered", "Initialized", "Ready")] == [
                "True"
            ] * 4
            assert claim.metadata.labels[names.INSTANCE_TYPE] == "m5.large"
            assert claim.metadata.labels["team"] == "web"
            assert claim.metadata.labels["karpenter.k8s.aws/ec2nodeclass"] == "default"
            assert claim.spec.termination_grace_period == "5m"
            assert claim.spec.expire_after == "720h"
            assert claim.spec.resources is not None
            assert claim.spec.resources.requests["cpu"] == "1500m"
        by_name = {claim.status.node_name: claim for claim in claims}
        for node in nodes:
            claim = by_name[node.metadata.name]
            assert node.spec.provider_id == claim.status.provider_id
            assert claim.metadata.labels.items() <= node.metadata.labels.items()
            assert node.metadata.labels[names.INITIALIZED] == node.metadata.labels[names.REGISTERED] == "true"
            assert [(t.key, t.effect) for t in node.spec.taints] == [("example.com/only", "NoSchedule")]
            assert names.TERMINATION_FINALIZER in node.metadata.finalizers
            assert claim.metadata.uid in {owner.uid for owner in node.metadata.owner_references}

    app_environment.run(program)


def test_claims_of_one_plan_are_launched_by_one_call() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 20, **ONE_PER_NODE)
        await env.until_running(20)
        assert len(env.ec2_instances) == 20
        assert env.asked("CreateFleet") <= 4  # one fleet for all equal NodeClaims of the plan
        tokens = {claim.metadata.annotations[names.LAUNCH_TOKEN] for claim in await env.claims()}
        assert len(tokens) == 1

    app_environment.run(program)


@pytest.mark.fact("P-11", "P-9")
def test_nodeclaim_has_the_requirements_and_metadata_of_its_plan() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        document = builders.nodepool_document(requirements=[LARGE, capacity_types("reserved", "on-demand")])
        document["spec"]["template"]["metadata"]["annotations"] = {"example.com/note": "of the template"}
        await env.create("/apis/karpenter.sh/v1/nodepools", document)
        await env.sleep(10)
        began_s = env.clock.monotonic_s()
        await env.deploy("web", 2, **ONE_PER_NODE)

        async def planned() -> bool:
            return len(await env.claims()) == 2

        await env.until(planned, within_s=5)
        assert env.clock.monotonic_s() - began_s <= 3
        await env.until_running(2)
        claims = {c.metadata.annotations.get(names.RESERVATION_ID): c for c in await env.claims()}
        assert set(claims) == {slots.id, None}
        wanted = {
            reservation_id: {r.key: r.values for r in claim.spec.requirements}
            for reservation_id, claim in claims.items()
        }
        assert wanted[slots.id][names.CAPACITY_TYPE] == ("reserved",)
        assert wanted[slots.id][RESERVATION] == (slots.id,)
        assert wanted[None][names.CAPACITY_TYPE] == ("on-demand",)
        pool = (await env.kube.list(NodePool)).items[0]
        for claim in claims.values():
            assert claim.metadata.name.startswith("default-")
            assert [(o.kind, o.uid, o.block_owner_deletion) for o in claim.metadata.owner_references] == [
                ("NodePool", pool.metadata.uid, True)
            ]
            assert names.TERMINATION_FINALIZER in claim.metadata.finalizers
            assert (
                claim.metadata.annotations[names.NODEPOOL_HASH]
                == pool.metadata.annotations[names.NODEPOOL_HASH]
            )
            assert claim.metadata.annotations[names.MIN_VALUES_RELAXED] == "false"
            assert claim.metadata.annotations[names.NODEPOOL_HASH_VERSION].startswith("holdfast-")
            assert claim.metadata.annotations["example.com/note"] == "of the template"
            assert not {names.PRICE_OVERLAY_APPLIED, names.CAPACITY_OVERLAY_APPLIED} & set(
                claim.metadata.annotations
            )

    app_environment.run(program)


@pytest.mark.fact("Q-35", "X-3", "X-8")
def test_nodeclaim_lists_every_compatible_reservation() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = [env.reserve(total=1), env.reserve(total=1, zone_id=aws_environment.ZONE_B)]
        other = env.reserve("m5.xlarge", total=1)
        terms = [{"id": one.id} for one in (*slots, other)]
        await env.node_class(capacityReservationSelectorTerms=terms)
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (claim,) = await env.claims()
        (listed,) = [one for one in claim.spec.requirements if one.key == RESERVATION]
        assert (listed.operator, listed.values) == ("In", tuple(sorted(one.id for one in slots)))
        assert claim.metadata.annotations[names.RESERVATION_ID] in listed.values
        with pytest.raises(errors.Rejected, match="never changes"):  # the spec is immutable
            await env.kube.patch(claim, {"spec": {"expireAfter": "1h"}})

    app_environment.run(program)


@pytest.mark.fact("aws-10.5.1")
def test_slots_are_filled_before_on_demand_nodes_are_launched() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")])
        await env.deploy("web", 5, **ONE_PER_NODE)
        await env.until_running(5)
        assert env.in_reservation(slots) == 2
        assert env.free(slots) == 0
        assert len(env.ec2_instances) == 5
        kinds = sorted(node.metadata.labels[names.CAPACITY_TYPE] for node in await env.nodes())
        assert kinds == ["on-demand"] * 3 + ["reserved"] * 2
        inside = [n for n in await env.nodes() if n.metadata.labels[names.CAPACITY_TYPE] == "reserved"]
        assert {n.metadata.labels[RESERVATION] for n in inside} == {slots.id}

    app_environment.run(program)


@pytest.mark.fact("P-1", "P-4")
@pytest.mark.parametrize("how", ["freed", "grown"])
@pytest.mark.parametrize("waited_s", [300, 302, 304])
def test_pending_pods_get_a_slot_within_a_second_of_the_count_that_shows_it(how: str, waited_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1, elsewhere=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(waited_s)
        assert env.ec2_instances == []
        assert await env.events("FailedScheduling")
        read = env.asked("DescribeCapacityReservations")
        if how == "freed":
            control.give(env.ec2.region, slots.id, 1)
        else:
            env.ec2.region.put_reservation(env.ec2.region.reservations[slots.id], total=2, available=1)

        async def is_counted() -> bool:
            return env.asked("DescribeCapacityReservations") > read

        async def launched() -> bool:
            return env.in_reservation(slots) == 1

        await env.until(is_counted, within_s=62)  # the next reading of the counts
        assert await env.until(launched) <= 1  # without the batch window
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("ST-1", "P-3")
def test_slow_launch_delays_no_other_launch_and_no_pod_is_planned_twice() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(10)
        env.crashing.slow["CreateFleet"] = 200
        await env.deploy("slow", 1, **ONE_PER_NODE, nodeSelector={names.ZONE: "us-west-2a"})
        await env.sleep(5)
        assert len(await env.claims()) == 1
        for wave in range(
            3
        ):  # in another zone, or kube-scheduler binds the pod that is pending longest to their nodes
            await env.deploy(f"web-{wave}", 2, **ONE_PER_NODE, nodeSelector={names.ZONE: "us-west-2b"})
            assert await env.until_running(2, f"web-{wave}") < 45
        assert await env.running("slow") == []
        assert len(await env.claims()) == 7
        await env.until_running(1, "slow")
        assert len(env.all_ec2_instances()) == len(await env.claims()) == 7

    app_environment.run(program)


@pytest.mark.fact("S-85")
@pytest.mark.parametrize(("constraints", "nodes"), [((), 1), ((ZONES,), 2)])
def test_pods_are_spread_by_the_default_constraints_of_kube_scheduler(
    constraints: tuple[DefaultConstraint, ...], nodes: int
) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 2, cpu="100m")
        await env.sleep(5)
        zones = [
            value
            for claim in await env.claims()
            for requirement in claim.spec.requirements
            if requirement.key == names.ZONE and len(requirement.values) == 1
            for value in requirement.values
        ]
        assert len(await env.claims()) == nodes
        assert nodes == 1 or len(set(zones)) == 2

    config = SchedulerConfig(pod_topology_spread=PodTopologySpread(default_constraints=constraints))
    app_environment.run(program, settings=dataclasses.replace(app_environment.SETTINGS, scheduler=config))


@pytest.mark.fact("NC-19")
def test_expired_node_is_replaced() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE], expireAfter="1h")
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (first,) = await env.claims()
        assert first.metadata.creation_timestamp is not None
        expires_s = int(first.metadata.creation_timestamp.timestamp()) + 3600
        await env.sleep(expires_s - env.clock.now_s() - 5)
        assert (await env.kube.get(NodeClaim, first.metadata.name)).metadata.deletion_timestamp is None
        await env.sleep(100)
        await env.until_running(1)
        (second,) = await env.claims()
        assert second.metadata.name != first.metadata.name
        assert len(env.ec2_instances) == 1

    app_environment.run(program)


def test_pod_whose_planned_node_was_filled_is_planned_again_at_once() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.deploy("web", 1, **ONE_PER_NODE)
        while not (nodes := (await env.kube.list(Node)).items):
            await env.sleep(0.2)
        spec = cluster_environment.pod_spec(cpu="1500m", nodeName=nodes[0].metadata.name)
        other_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thief"}, "spec": spec}
        await env.create("/api/v1/namespaces/default/pods", other_pod)
        await env.sleep(12)  # a nomination lasts until 20 s after the node is ready
        assert len(await env.claims()) == 2
        await env.until_running(1, "web")

    app_environment.run(program)


@pytest.mark.parametrize("packing", list(Packing))
def test_pods_are_spread_over_the_zones_that_have_a_subnet(packing: Packing) -> None:
    """EC2 offers the types in a fourth zone, where the class has no subnet."""

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("m5.large")])
        over_zones = {
            "maxSkew": 1,
            "topologyKey": names.ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        await env.deploy("web", 7, cpu="1500m", topologySpreadConstraints=[over_zones])
        await env.until_running(7)
        zones = Counter(node.metadata.labels[names.ZONE] for node in await env.nodes())
        assert sorted(zones.values()) == [2, 2, 3]

    planning = dataclasses.replace(app_environment.SETTINGS.planning, packing=packing)
    app_environment.run(program, settings=dataclasses.replace(app_environment.SETTINGS, planning=planning))
