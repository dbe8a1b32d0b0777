"""Labels follow the actual capacity type of nodes whose reservation ends, is cancelled or changes.

The real controllers run in virtual time.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import aws, conditions
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.reservations.capacity_type import KEY, CapacityType
from holdfast.sim.api.serving import faults as api
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.entities import Reservation

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}
MINUTE_S, HOUR_S = 60, 3600
TEAM = {"team": "blue"}
BOTH = ("reserved", "on-demand")
ON_DEMAND = {names.CAPACITY_TYPE: "on-demand"}
SLOW = dataclasses.replace(app_environment.FAST, heartbeat_s=300, grace_s=900, poll_s=60)  # for a whole day


def reserved(reservation: Reservation, kind: str = "default", interruptible: str = "false") -> dict[str, str]:
    return {
        names.CAPACITY_TYPE: "reserved",
        aws.CAPACITY_RESERVATION_ID: reservation.id,
        aws.CAPACITY_RESERVATION_TYPE: kind,
        aws.CAPACITY_RESERVATION_INTERRUPTIBLE: interruptible,
    }


def labels_of(obj: NodeClaim | Node) -> dict[str, str]:
    """The capacity labels of an object."""
    keys = (names.CAPACITY_TYPE, *aws.RESERVED_CAPACITY_LABELS)
    return {key: obj.metadata.labels[key] for key in keys if key in obj.metadata.labels}


async def all_labels(env: AppEnvironment) -> list[dict[str, str]]:
    """The capacity labels of all NodeClaims, then of all Nodes."""
    objects: list[NodeClaim | Node] = [*await env.claims(), *await env.nodes()]
    return [labels_of(one) for one in objects]


async def pods(env: AppEnvironment) -> Mapping[str, str]:
    """The node of every pod by uid; a pod that replaces an evicted one has another uid."""
    return {pod.metadata.uid: pod.spec["nodeName"] for pod in await env.all(Pod)}


async def with_nodes(
    env: AppEnvironment, count: int, *selected: Reservation, kinds: tuple[str, ...] = BOTH
) -> None:
    """Nodes with a pod each, of a class that selects these reservations."""
    terms: dict[str, Any] = {"capacityReservationSelectorTerms": [{"id": one.id} for one in selected]}
    await env.node_class(**(terms if selected else {}))
    await env.node_pool(requirements=[LARGE, capacity_types(*kinds)])
    await env.deploy("web", count, **ONE_PER_NODE)
    await env.until_running(count)


async def until_all_have(env: AppEnvironment, wanted: dict[str, str], within_s: float) -> None:
    async def all_have() -> bool:
        return all(one == wanted for one in await all_labels(env))

    await env.until(all_have, within_s=within_s)


def ever_drifted(env: AppEnvironment) -> list[str]:
    return [c.metadata.name for c in env.ever(NodeClaim) if conditions.holds(c.status.conditions, "Drifted")]


async def select(env: AppEnvironment, term: dict[str, Any]) -> None:
    node_class = await env.kube.get(EC2NodeClass, "default")
    change = {"spec": {"capacityReservationSelectorTerms": [term]}}
    await env.kube.patch(node_class, change, only_if_unchanged=True)


@pytest.mark.fact("aws-10.5.5")
@pytest.mark.fact(
    "Q-13", "Q-26", "Q-38", "aws-6.1.1", "aws-6.1.3", "aws-6.1.4", "aws-6.1.5", "aws-6.2.5", "AW-13"
)
def test_expiry_of_a_reservation_in_use_changes_only_labels() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2, end_s=env.clock.now_s() + HOUR_S)
        await with_nodes(env, 2, slots)
        assert await all_labels(env) == [reserved(slots)] * 4
        before, instance_ids = await pods(env), {one.id for one in env.ec2_instances}
        env.skip(slots.end_s - env.clock.now_s() - 5)
        await env.sleep(4)
        assert await all_labels(env) == [reserved(slots)] * 4
        await until_all_have(env, ON_DEMAND, within_s=90)
        events = await env.events("ReservationChanged")  # the API server deletes them after an hour
        env.skip(2 * HOUR_S)
        await env.sleep(5 * MINUTE_S)
        assert await all_labels(env) == [ON_DEMAND] * 4
        assert await pods(env) == before
        assert {one.id for one in env.ec2_instances} == instance_ids
        assert all(names.RESERVATION_ID not in claim.metadata.annotations for claim in await env.claims())
        assert {event.involved_object.kind for event in events} == {"NodeClaim", "Node"}
        assert all(slots.id in (event.message or "") for event in events)

    app_environment.run(program)


@pytest.mark.fact("aws-9.4.1")
def test_labels_follow_the_capacity_type_after_the_feature_gate_is_disabled() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_nodes(env, 1, slots)
        env.settings = app_environment.without_reserved(env.settings)
        await env.restart()
        await env.sleep(3 * MINUTE_S)
        assert await all_labels(env) == [reserved(slots)] * 2
        env.cancel(slots)
        await until_all_have(env, ON_DEMAND, within_s=90)

    app_environment.run(program)


@pytest.mark.fact("Q-13", "Q-26")
def test_node_of_a_cancelled_reservation_becomes_on_demand() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_nodes(env, 1, slots)
        before = await pods(env)
        env.cancel(slots)
        await until_all_have(env, ON_DEMAND, within_s=90)
        assert await pods(env) == before

    app_environment.run(program)


def test_each_reconcile_reports_how_many_objects_it_relabelled() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await with_nodes(env, 2, slots)
        controller = CapacityType(
            cluster_state=env.app.cluster_state, caches=env.app.caches, ports=env.app.ports
        )
        assert (await controller.reconcile(KEY)).did == ""
        env.cancel(slots)
        await env.sleep(5)
        assert (await controller.reconcile(KEY)).did == ""  # a second list of instances must confirm it
        assert await all_labels(env) == [reserved(slots)] * 4
        await env.sleep(5)
        assert (await controller.reconcile(KEY)).did == "4 objects relabelled"
        assert await all_labels(env) == [ON_DEMAND] * 4
        await env.sleep(5)
        assert (await controller.reconcile(KEY)).did == ""

    app_environment.run(program)


@pytest.mark.fact("Q-13")
def test_draining_node_of_a_cancelled_reservation_becomes_on_demand() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await with_nodes(env, 1, slots)
        await env.forbid_evictions()
        (claim,) = await env.claims()
        await env.kube.delete(claim)
        await env.sleep(MINUTE_S)
        env.cancel(slots)
        await until_all_have(env, ON_DEMAND, within_s=90)
        assert env.ec2_instances

    app_environment.run(program)


def test_failing_writes_to_one_nodeclaim_do_not_delay_other_labels() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await with_nodes(env, 3, slots)
        bad = sorted(one.metadata.name for one in await env.claims())[1]
        env.line.add(api.Refuse("Forbidden"), lambda request: request.path.endswith(f"/{bad}"), times=10_000)
        env.cancel(slots)
        await env.sleep(3 * MINUTE_S)
        labels_by_claim = {one.metadata.name: labels_of(one) for one in await env.claims()}
        assert labels_by_claim.pop(bad) == reserved(slots)
        assert list(labels_by_claim.values()) == [ON_DEMAND] * 2
        assert [labels_of(node) for node in await env.nodes()] == [ON_DEMAND] * 3

    app_environment.run(program)


@pytest.mark.fact("aws-6.1.8", "AW-14")
def test_labels_name_the_reservation_that_ec2_moved_an_instance_to() -> None:
    async def program(env: AppEnvironment) -> None:
        await with_nodes(env, 1)
        first = env.reserve(total=1, criteria="open", tags=TEAM)  # takes running instances
        await select(env, {"tags": TEAM})
        await until_all_have(env, reserved(first), within_s=150)
        env.cancel(first)
        second = env.reserve(total=1, criteria="open", tags=TEAM)
        assert env.in_reservation(second) == 1
        await until_all_have(env, reserved(second), within_s=150)
        messages = [event.message for event in await env.events("ReservationChanged")]
        assert len(messages) == 4
        moved = f"Instance is in {second.id}, was in {first.id}"
        assert messages.count(moved) == 2

    app_environment.run(program)


@pytest.mark.fact("aws-6.1.2")
def test_on_demand_instance_that_ec2_moved_into_a_selected_reservation_becomes_reserved() -> None:
    async def program(env: AppEnvironment) -> None:
        await with_nodes(env, 1)
        assert await all_labels(env) == [ON_DEMAND] * 2
        before = await pods(env)
        slots = env.reserve(total=1, criteria="open")  # takes running instances
        assert env.in_reservation(slots) == 1
        await env.sleep(2 * MINUTE_S)
        assert await all_labels(env) == [ON_DEMAND] * 2  # no class selects it
        await select(env, {"id": slots.id})
        await until_all_have(env, reserved(slots), within_s=150)
        assert await pods(env) == before
        message = f"Instance is in {slots.id}; capacity type changes from on-demand to reserved without a disruption"
        assert {event.message for event in await env.events("ReservationChanged")} == {message}
        objects: list[NodeClaim | Node] = [*await env.claims(), *await env.nodes()]
        assert all(names.RESERVATION_ID not in one.metadata.annotations for one in objects)

    app_environment.run(program)


@pytest.mark.fact("aws-6.1.6")
def test_failed_list_of_instances_changes_no_labels() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1, end_s=env.clock.now_s() + HOUR_S)
        await with_nodes(env, 1, slots)
        env.skip(slots.end_s - env.clock.now_s() - 5)
        until_s = env.clock.now_s() + 5 * MINUTE_S
        env.ec2.region.faults.add(faults.Broken(operation="DescribeInstances", until_s=until_s))
        await env.sleep(5 * MINUTE_S - 10)
        assert await all_labels(env) == [reserved(slots)] * 2
        await until_all_have(env, ON_DEMAND, within_s=3 * MINUTE_S)

    app_environment.run(program)


def test_stale_list_of_instances_changes_no_labels() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1, end_s=env.clock.now_s() + HOUR_S)
        await with_nodes(env, 1, slots)
        env.skip(slots.end_s - env.clock.now_s() - 5)
        await env.sleep(5)
        await until_all_have(env, ON_DEMAND, within_s=90)
        until_s = env.clock.now_s() + 3 * MINUTE_S
        env.ec2.region.faults.add(faults.Stale(operation="DescribeInstances", lag_s=300, until_s=until_s))
        for _ in range(3 * MINUTE_S // 5):
            await env.sleep(5)
            assert await all_labels(env) == [ON_DEMAND] * 2

    app_environment.run(program)


@pytest.mark.fact("aws-6.1.5", "aws-14.8")
def test_node_is_relabelled_after_a_crash_between_nodeclaim_and_node() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1, end_s=env.clock.now_s() + HOUR_S)
        await with_nodes(env, 1, slots)
        env.skip(slots.end_s - env.clock.now_s() - 5)
        while (await all_labels(env))[0] != ON_DEMAND:  # each process crashes after its first write
            await env.restart()
            env.crashing.crash_after_write(0, after_effect=True)
            await env.crashing.crashed.wait()
        assert await all_labels(env) == [ON_DEMAND, reserved(slots)]
        await env.restart()
        await until_all_have(env, ON_DEMAND, within_s=150)

    app_environment.run(program)


@pytest.mark.fact("Q-25")
def test_on_demand_node_never_enters_an_open_reservation_that_no_class_selects() -> None:
    async def program(env: AppEnvironment) -> None:
        full = env.reserve(total=1, elsewhere=1)
        other = env.reserve(total=3, criteria="open")
        await with_nodes(env, 1, full)
        before = await pods(env)
        for _ in range(24):
            await env.sleep(HOUR_S)
            assert await all_labels(env) == [ON_DEMAND] * 2
            assert env.in_reservation(other) == 0
        assert await pods(env) == before
        assert len(env.all_ec2_instances()) == 1
        assert ever_drifted(env) == []

    app_environment.run(program, timings=SLOW)


@pytest.mark.fact("Q-41")
def test_node_in_direct_mode_stays_on_demand() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        target = {"capacityReservationTarget": {"capacityReservationId": slots.id}}
        await env.node_class(capacityReservationSpec=target)
        await env.node_pool(requirements=[LARGE, capacity_types("on-demand")])
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        assert env.in_reservation(slots) == 1
        direct = ON_DEMAND | {aws.CAPACITY_RESERVATION_ID: slots.id}
        before = await pods(env)
        await until_all_have(env, direct, within_s=90)
        for _ in range(24):
            await env.sleep(5 * MINUTE_S)
            assert await all_labels(env) == [direct] * 2
        assert await pods(env) == before
        assert len(env.all_ec2_instances()) == 1
        assert ever_drifted(env) == []

    app_environment.run(program)


@pytest.mark.fact("aws-6.1.1", "AW-27")
def test_number_of_instance_lists_does_not_depend_on_the_number_of_nodes() -> None:
    asked: list[int] = []
    for count in (1, 6):

        async def program(env: AppEnvironment, count: int = count) -> None:
            await with_nodes(env, count, env.reserve(total=6))
            await env.sleep(MINUTE_S)
            before = env.asked("DescribeInstances")
            await env.sleep(4 * MINUTE_S)
            asked.append(env.asked("DescribeInstances") - before)

        app_environment.run(program)
    assert asked[1] <= asked[0] + 1  # the runs start at different phases
    assert asked[0] <= 4 + 1  # one list serves capacity types, disruption and garbage collection
