"""Reservations: used when needed, shared, full, free again, and disabled by the feature gate."""

import dataclasses

import pytest

import app_environment
import cluster_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import aws, conditions
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.app import settings as settings_table
from holdfast.core.scheduling.input.request import Packing
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}
AVAILABLE = "CapacityReservationAvailable"
DAY_S = 24 * 3600


async def with_slots(env: AppEnvironment, *slots: Reservation, kinds: tuple[str, ...]) -> None:
    await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
    await env.node_pool(requirements=[LARGE, capacity_types(*kinds)])


async def kinds_of_nodes(env: AppEnvironment) -> list[str]:
    return sorted(node.metadata.labels[names.CAPACITY_TYPE] for node in await env.nodes())


async def availability(
    env: AppEnvironment, kind: type[Object], name: str = "default"
) -> tuple[str, str] | None:
    found = conditions.find(conditions.of(await env.kube.get(kind, name)), AVAILABLE)
    return None if found is None else (found.status, found.reason or "")


# --- Only when needed -------------------------------------------------------------------------------


@pytest.mark.fact("Q-7")
def test_reservation_that_no_pod_needs_stays_empty_for_a_day() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=10)
        await with_slots(env, slots, kinds=("reserved",))
        await env.sleep(DAY_S)
        assert env.all_ec2_instances() == []
        assert await env.claims() == []
        assert env.free(slots) == 10

    app_environment.run(program, timings=Timings(poll_s=600))


def test_later_pods_use_the_remaining_slots_of_a_reservation() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=6)
        await with_slots(env, slots, kinds=("reserved", "on-demand"))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        for replicas in (4, 6):
            await env.sleep(61)  # until a count shows the launches, which are less than two minutes old
            await env.scale("web", replicas)
            await env.until_running(replicas)
        assert env.in_reservation(slots) == 6 == len(env.all_ec2_instances())

    app_environment.run(program)


@pytest.mark.fact("Q-7", "W-13")
def test_two_clusters_share_a_reservation_without_overselling_it() -> None:
    async def program(blue: AppEnvironment) -> None:
        settings = dataclasses.replace(app_environment.SETTINGS, cluster_name="green")
        green = AppEnvironment(seed=2, settings=settings, beside=blue)
        await green.start()
        slots = blue.reserve(total=10)
        for env in (blue, green):
            await with_slots(env, slots, kinds=("reserved", "on-demand"))
            await env.deploy("web", 8, **ONE_PER_NODE)
        await blue.until_running(8)  # the simulated EC2 checks its invariants after every write
        await green.until_running(8)
        assert blue.in_reservation(slots) == 10
        kinds = [*await kinds_of_nodes(blue), *await kinds_of_nodes(green)]
        assert sorted(kinds) == ["on-demand"] * 6 + ["reserved"] * 10
        await blue.sleep(300)  # neither terminates the instances of the other as garbage
        assert len(blue.ec2_instances) == 16
        assert len(await blue.claims()) == len(await green.claims()) == 8
        await green.stop()

    app_environment.run(program)


# --- Reserved, then spot, then on-demand ------------------------------------------------------------


@pytest.mark.fact("Q-12", "aws-10.5.2")
def test_capacity_types_are_used_in_the_order_reserved_spot_on_demand() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await with_slots(env, slots, kinds=("reserved", "spot", "on-demand"))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        assert await kinds_of_nodes(env) == ["reserved"] * 2
        await env.scale("web", 4)
        await env.until_running(4)
        assert await kinds_of_nodes(env) == ["reserved"] * 2 + ["spot"] * 2
        env.ec2.region.faults.add(faults.NoCapacity(market="spot"))
        await env.scale("web", 6)
        await env.until_running(6)
        assert await kinds_of_nodes(env) == ["on-demand"] * 2 + ["reserved"] * 2 + ["spot"] * 2
        assert env.in_reservation(slots) == 2

    app_environment.run(program)


def test_nodepools_of_one_capacity_type_serve_the_pods_that_select_it() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        for kind in ("reserved", "spot", "on-demand"):
            await env.node_pool(kind, requirements=[LARGE, capacity_types(kind)])
            chosen = {"nodeSelector": {names.CAPACITY_TYPE: kind}}
            await env.deploy(f"on-{kind}", 2, **ONE_PER_NODE, **chosen)
        for kind in ("reserved", "spot", "on-demand"):
            await env.until_running(2, f"on-{kind}")
        await env.deploy("anywhere", 1, **ONE_PER_NODE)  # it fits on no node of another pod
        await env.until_running(1, "anywhere")
        by_pool: dict[str, set[str]] = {}
        for claim in await env.claims():
            labels = claim.metadata.labels
            by_pool.setdefault(labels[names.NODEPOOL], set()).add(labels[names.CAPACITY_TYPE])
        assert by_pool == {kind: {kind} for kind in ("reserved", "spot", "on-demand")}
        assert env.in_reservation(slots) == 3  # no selector: the free slot is used first
        assert len(env.ec2_instances) == 7

    app_environment.run(program)


# --- Full, and free again ---------------------------------------------------------------------------


@pytest.mark.fact("Q-42", "AW-11")
def test_capacity_reservation_available_is_false_while_full_and_true_when_a_slot_is_free() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_slots(env, slots, kinds=("reserved",))
        await env.sleep(20)
        assert (
            await availability(env, EC2NodeClass)
            == await availability(env, NodePool)
            == ("True", "Available")
        )
        env.ec2.region.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.sleep(90)
        full = ("False", "LimitExceeded")
        assert await availability(env, EC2NodeClass) == await availability(env, NodePool) == full
        claim_versions = [
            one for one in cluster_environment.history(env) if AVAILABLE in one and '"NodeClaim"' in one
        ]
        assert claim_versions, "the NodeClaim was deleted before its condition was set"
        assert all("LimitExceeded" in one for one in claim_versions)
        assert await env.claims() == []
        assert env.ec2_instances == []
        control.give(env.ec2.region, slots.id, 1)
        assert await env.until_running(1) < 60 + 45
        (claim,) = await env.claims()
        assert await availability(env, NodeClaim, claim.metadata.name) == ("True", "Available")
        await env.scale("web", 0)
        await env.kube.delete(claim)
        await env.sleep(240)
        assert env.free(slots) == 1
        assert (
            await availability(env, EC2NodeClass)
            == await availability(env, NodePool)
            == ("True", "Available")
        )

    app_environment.run(program)


@pytest.mark.fact("Q-11", "W-16")
def test_reserved_only_pods_wait_for_a_full_reservation_and_get_an_event() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_slots(env, slots, kinds=("reserved",))
        await env.deploy("web", 3, **ONE_PER_NODE)
        await env.sleep(300)
        assert len(await env.running()) == len(env.all_ec2_instances()) == env.in_reservation(slots) == 1
        assert len(await env.claims()) == 1
        waiting = {event.involved_object.name for event in await env.events("FailedScheduling")}
        assert {pod.metadata.name for pod in await env.pods()} - {
            pod.metadata.name for pod in await env.running()
        } <= waiting

    app_environment.run(program)


def test_event_of_a_pod_that_waits_for_a_slot_does_not_depend_on_the_counts() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await with_slots(env, slots, kinds=("reserved", "spot"))
        env.ec2.region.faults.add(faults.NoCapacity(market="spot"))
        await env.deploy("first", 2, **ONE_PER_NODE)
        await env.until_running(2, "first")
        await env.deploy("second", 1, **ONE_PER_NODE)
        await env.sleep(300)
        texts = {
            event.message
            for event in await env.events("FailedScheduling")
            if event.involved_object.name.startswith("second") and event.source.component == "holdfast"
        }
        full = f"reservation {slots.id} has no free slot; one becomes free when an instance in it terminates"
        no_spot = "spot is not available at the moment for any instance type that suits the pod"
        assert texts == {f"{full}; NodePool default: {no_spot}"}

    app_environment.run(program)


def test_event_of_a_waiting_pod_does_not_name_the_slot_that_became_free() -> None:
    """Other pods use that slot. Another slot is free in the next plan, and the reason is the same."""

    async def program(env: AppEnvironment) -> None:
        slots = [env.reserve(total=1) for _ in range(3)]
        await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
        await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("reserved")])
        for app in ("a", "b", "c"):
            await env.deploy(app, 1, **ONE_PER_NODE)
            await env.until_running(1, app)
        await env.deploy("web", 5, **ONE_PER_NODE)
        await env.sleep(60)
        for app in ("a", "b", "c"):
            await env.scale(app, 0)
            await env.sleep(240)
        assert len(await env.running()) == 3
        texts: dict[str, set[str]] = {}
        for event in await env.events("FailedScheduling"):
            if event.source.component == "holdfast":
                texts.setdefault(event.involved_object.name, set()).add(event.message)
        waiting = {pod.metadata.name for pod in await env.pods()} - {
            pod.metadata.name for pod in await env.running()
        }
        ids = ", ".join(sorted(one.id for one in slots))
        full = "each has no free slot; one becomes free when an instance in it terminates"
        assert {name: texts[name] for name in waiting} == {
            name: {f"reservations {ids}: {full}"} for name in waiting
        }

    app_environment.run(program)


def test_pod_that_is_launched_on_demand_has_an_event_with_the_reason() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        env.reserve("m5.xlarge", total=1)  # that no class selects
        await with_slots(env, slots, kinds=("reserved", "on-demand"))
        await env.deploy("first", 1, **ONE_PER_NODE)
        await env.until_running(1, "first")
        assert await env.events("NotReserved") == []
        await env.sleep(60)
        await env.deploy("second", 2, **ONE_PER_NODE)
        await env.until_running(2, "second")
        found = await env.events("NotReserved")
        assert {event.involved_object.name for event in found} == {
            pod.metadata.name for pod in await env.pods("second")
        }
        full = f"reservation {slots.id} has no free slot; one becomes free when an instance in it terminates"
        assert {(event.type, event.count, event.message) for event in found} == {
            ("Normal", 1, f"Pod is not in a capacity reservation: {full}")
        }

    app_environment.run(program)


def test_slots_that_one_deployment_frees_are_used_by_the_next() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await with_slots(env, slots, kinds=("reserved",))
        await env.deploy("first", 2, **ONE_PER_NODE)
        await env.until_running(2, "first")
        await env.deploy("second", 2, **ONE_PER_NODE)
        await env.sleep(30)
        await env.scale("first", 0)
        for claim in await env.claims():
            await env.kube.delete(claim)
        await env.until_running(2, "second", within_s=400)
        assert env.in_reservation(slots) == len(env.ec2_instances) == 2

    app_environment.run(program)


# --- Waiting for a releasing slot -------------------------------------------------------------------


async def with_releasing_slot(env: AppEnvironment) -> Reservation:
    """Its instance is terminated, EC2 does not count the slot as free yet, and a pod waits up to ten minutes for it."""
    slots = env.reserve(total=1)
    await with_slots(env, slots, kinds=("reserved", "on-demand"))
    wait = {"metadata": {"annotations": {names.RESERVATION_WAIT: "10m"}}}
    await env.kube.patch(await env.kube.get(NodePool, "default"), wait)
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    (claim,) = await env.claims()
    await env.kube.delete(claim)

    async def is_removed() -> bool:
        return claim.metadata.name not in {one.metadata.name for one in await env.claims()}

    await env.until(is_removed)
    assert (env.ec2_instances, env.free(slots)) == ([], 0)
    return slots


def test_pod_waits_for_a_releasing_slot_and_no_on_demand_node_is_launched() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await with_releasing_slot(env)
        await env.until_running(1)
        assert (env.in_reservation(slots), len(env.all_ec2_instances())) == (1, 2)

    app_environment.run(program)


def test_pod_stops_waiting_for_a_slot_that_another_account_takes() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await with_releasing_slot(env)

        async def free() -> bool:
            return env.free(slots) == 1

        await env.until(free)
        control.take(env.ec2.region, slots.id, 1)
        await env.until_running(1)
        assert await kinds_of_nodes(env) == ["on-demand"]

    app_environment.run(program)


@pytest.mark.parametrize("wait_s", [0, 120])
def test_pod_waits_for_a_slot_no_longer_than_the_reservation_wait(
    wait_s: int,
) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_slots(env, slots, kinds=("reserved", "on-demand"))
        await env.deploy("held", 1, **ONE_PER_NODE)
        await env.until_running(1, "held")
        await env.forbid_evictions("held")
        (claim,) = await env.claims()
        await env.kube.delete(claim)  # its drain does not end
        await env.deploy("web", 1, **ONE_PER_NODE)
        assert wait_s <= await env.until_running(1) < wait_s + 45
        assert env.in_reservation(slots) == 1  # the draining instance still runs
        assert set(await kinds_of_nodes(env)) == {"on-demand", "reserved"}

    planning = dataclasses.replace(app_environment.SETTINGS.planning, reservation_wait_s=wait_s)
    app_environment.run(program, settings=dataclasses.replace(app_environment.SETTINGS, planning=planning))


# --- Feature gate -----------------------------------------------------------------------------------


@pytest.mark.fact("Q-33")
@pytest.mark.parametrize("gate", ["ReservedCapacity", "CapacityReservations"])
@pytest.mark.parametrize("on", ["true", "false"])
def test_feature_gate_has_two_names_and_disables_reservations(gate: str, on: str) -> None:
    read = settings_table.read({}, {"CLUSTER_NAME": "x", "FEATURE_GATES": f"{gate}={on}"}).app
    settings = dataclasses.replace(app_environment.SETTINGS, planning=read.planning, capacity=read.capacity)

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await with_slots(env, slots, kinds=("reserved", "on-demand"))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        (node_class,) = (await env.kube.list(EC2NodeClass)).items
        inside, listed = env.in_reservation(slots), len(node_class.status.capacity_reservations)
        pinned = [c for c in await env.claims() if names.RESERVATION_ID in c.metadata.annotations]
        targets = [one.spec.targets for one in env.ec2_instances]
        if on == "true":
            assert (inside, listed, len(pinned), targets) == (2, 1, 2, [True, True])
        else:
            assert (inside, listed, len(pinned), targets) == (0, 0, 0, [False, False])
            assert await kinds_of_nodes(env) == ["on-demand"] * 2
            assert {one.spec.preference for one in env.ec2_instances} == {""}

    app_environment.run(program, settings=settings)


@pytest.mark.parametrize(("tenancies", "used"), [((), 0), (("dedicated",), 1), (("default", "dedicated"), 1)])
@pytest.mark.parametrize("packing", list(Packing))
def test_dedicated_reservation_is_used_by_nodepools_that_require_dedicated_tenancy(
    packing: Packing, tenancies: tuple[str, ...], used: int
) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1, tenancy="dedicated")
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        tenancy = {"key": aws.INSTANCE_TENANCY, "operator": "In", "values": list(tenancies)}
        wanted = [LARGE, capacity_types("reserved", "on-demand"), *([tenancy] if tenancies else [])]
        await env.node_pool(requirements=wanted)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        assert env.in_reservation(slots) == used
        assert {one.spec.tenancy for one in env.ec2_instances} == {"dedicated" if used else "default"}

    planning = dataclasses.replace(app_environment.SETTINGS.planning, packing=packing)
    app_environment.run(program, settings=dataclasses.replace(app_environment.SETTINGS, planning=planning))
