"""Slots that become free: pods use them, and nothing is launched on demand.

The real controllers run in virtual time.
"""

import dataclasses
from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import ONE_PER_NODE, drift_all, is_new, pool
from holdfast.app.settings import Settings
from holdfast.controllers.provisioning.slots import KEY, Slots
from holdfast.core.scheduling.input.request import Packing
from holdfast.ports import ReservationCounts
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation

LARGE = instance_types("m5.large")


def packed(packing: Packing) -> Settings:
    planning = dataclasses.replace(app_environment.SETTINGS.planning, packing=packing)
    return dataclasses.replace(app_environment.SETTINGS, planning=planning)


@pytest.mark.parametrize("packing", list(Packing))
@pytest.mark.parametrize("running_s", [120, 135])  # counts are read once a minute: two phases of that minute
def test_a_scale_up_seconds_after_slots_are_free_again_launches_nothing_on_demand(
    packing: Packing, running_s: float
) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")])
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        await env.sleep(running_s)
        await env.scale("web", 0)

        async def both_free() -> bool:
            return env.free(slots) == 2

        await env.until(both_free)
        await env.scale("web", 2)
        await env.until_running(2)
        assert {instance.reservation_id for instance in env.ec2_instances} == {slots.id}
        assert len(env.all_ec2_instances()) == 4

    app_environment.run(program, settings=packed(packing))


def test_a_scale_to_zero_and_back_five_seconds_later_keeps_both_nodes() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")])
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        await env.sleep(120)
        await env.scale("web", 0)
        await env.sleep(5)
        await env.scale("web", 2)
        await env.sleep(300)
        assert len(await env.running()) == 2
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program)


def test_the_catalog_and_the_ledger_of_a_snapshot_come_from_one_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=8)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")])
        await env.sleep(90)
        cloud, discovery = env.app.cloud, env.app.discovery
        instance_types = cloud.instance_types

        async def read_again() -> None:
            control.take(env.ec2.region, slots.id, 1)
            await discovery.count_again()

        async def read_around(*arguments: Any) -> Any:
            await read_again()
            found = await instance_types(*arguments)
            await read_again()
            return found

        monkeypatch.setattr(cloud, "instance_types", read_around)
        for _ in range(3):
            await env.sleep(1)
            snapshot = (await env.app.cluster_state.snapshot()).snapshot
            offered = {
                offering.reservation_id: offering.count
                for pool in snapshot.node_pools
                for known in pool.instance_types
                for offering in known.offerings
                if offering.reservation_id is not None
            }
            assert offered == {one.id: one.available for one in snapshot.reservations}
            for before in snapshot.count_before.values():
                assert before.read_s < snapshot.counts_read_s

    app_environment.run(program)


def test_counts_are_read_at_a_bounded_rate_while_a_slot_is_released() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.deploy("web", 1, cpu="1500m")
        await env.until_running(1)
        await env.sleep(120)
        await env.scale("web", 0)

        async def has_no_instance() -> bool:
            return not env.ec2_instances

        await env.until(has_no_instance)
        before = env.asked("DescribeCapacityReservations")
        await env.deploy("waiting", 20, cpu="1500m")  # nineteen of them stay pending
        await env.sleep(60)
        assert env.asked("DescribeCapacityReservations") - before <= 30
        assert env.asked("DescribeCapacityReservations") - before >= 5

    app_environment.run(program)


def test_provisioning_is_triggered_once_for_each_slot_that_becomes_free() -> None:
    async def program(env: AppEnvironment) -> None:
        now_s = env.clock.now_s()
        slots = env.reserve(total=2)
        later = env.reserve(total=1, start_s=now_s + 600)
        control.take(env.ec2.region, slots.id, 2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}, {"id": later.id}])
        await env.sleep(70)  # counts are read once a minute
        triggered: list[int] = []
        watcher = Slots(
            cluster_state=env.app.cluster_state,
            caches=env.app.caches,
            cloud=env.app.cloud,
            clock=env.own_clock,
            trigger=lambda: triggered.append(env.clock.now_s()),
        )

        async def after(seconds: float) -> int:
            """How often provisioning is triggered until this many seconds later."""
            await env.sleep(seconds)
            before = len(triggered)
            result = await watcher.reconcile(KEY)
            assert bool(result.did) == (len(triggered) > before)
            return len(triggered)

        assert await after(0) == 0
        control.give(env.ec2.region, slots.id, 1)
        assert await after(70) == 1
        assert await after(70) == 1
        control.take(env.ec2.region, slots.id, 1)
        assert await after(70) == 1
        await env.sleep(later.start_s - env.clock.now_s() - 1)
        assert await after(0) == 1
        assert await after(2) == 2  # the status of the class lists it
        env.reserve(total=1)
        assert await after(70) == 2  # no class selects it

    app_environment.run(program)


@pytest.mark.parametrize(
    "phase_s", [1, 4, 7]
)  # of the ten seconds after which pending pods are planned again
def test_a_pending_pod_gets_a_slot_within_seconds_of_the_count_that_shows_it(phase_s: float) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        control.take(env.ec2.region, slots.id, 1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])

        async def count_is_read() -> None:
            asked = env.asked("DescribeCapacityReservations")
            while env.asked("DescribeCapacityReservations") == asked:
                await env.sleep(0.5)

        await count_is_read()
        await env.sleep(phase_s)
        await env.deploy("web", 1, cpu="1500m")
        await count_is_read()
        control.give(env.ec2.region, slots.id, 1)
        await count_is_read()
        await env.sleep(6)
        assert len(env.ec2_instances) == 1

    app_environment.run(program)


# --- Slots that other accounts release ----------------------------------------------------------------

DESCRIBE = "DescribeCapacityReservations"


async def used_elsewhere(env: AppEnvironment, total: int = 2) -> Reservation:
    """A reservation whose slots another account uses, counted some seconds ago; nodes are not consolidated."""
    slots = env.reserve(total=total, elsewhere=total)
    await pool(env, slots, consolidate_after="Never")
    await env.deploy("other", 1, **ONE_PER_NODE)
    await env.sleep(180)  # a new leader reads the counts more often
    await next_count(env)
    await env.sleep(15)
    return slots


async def next_count(env: AppEnvironment) -> None:
    asked = env.asked(DESCRIBE)
    while env.asked(DESCRIBE) == asked:
        await env.sleep(0.5)


def test_slots_that_another_account_released_since_the_last_count_are_used() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await used_elsewhere(env)
        control.give(env.ec2.region, slots.id, 2)
        await env.sleep(5)
        await env.deploy("web", 3, **ONE_PER_NODE)
        await env.until_running(3)
        assert env.in_reservation(slots) == 2
        assert len(env.ec2_instances) == 1 + 3

    app_environment.run(program)


def test_replacement_of_a_drifted_node_uses_a_slot_that_another_account_released() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await used_elsewhere(env, 1)
        assert env.in_reservation(slots) == 0
        assert len(env.ec2_instances) == 1
        control.give(env.ec2.region, slots.id, 1)
        await drift_all(env)

        async def replaced() -> bool:
            nodes = await env.nodes()
            return len(nodes) == 1 and is_new(nodes[0])

        await env.until(replaced)
        assert env.in_reservation(slots) == 1
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program)


@pytest.mark.parametrize("fault", ["refused", "throttled", "silent"])
def test_launch_on_demand_waits_at_most_seconds_for_counts(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await used_elsewhere(env)
        if fault == "refused":
            env.ec2.region.faults.add(faults.Denied(operation=DESCRIBE))
        elif fault == "throttled":
            env.ec2.region.faults.add(faults.Throttled(operation=DESCRIBE))
        else:
            read = env.app.cloud.reservations

            async def silent(*, max_age_s: float | None = None) -> ReservationCounts:
                await env.clock.sleep(600 if max_age_s is not None else 0)
                return await read(max_age_s=max_age_s)

            monkeypatch.setattr(env.app.cloud, "reservations", silent)
        began_s = env.clock.monotonic_s()
        for i in range(3):
            await env.deploy(f"web-{i}", 1, **ONE_PER_NODE)
            await env.sleep(4)
        await env.until(lambda: has_instances(env, 1 + 3))
        assert env.clock.monotonic_s() - began_s <= 20
        assert env.in_reservation(slots) == 0

    app_environment.run(program)


async def has_instances(env: AppEnvironment, count: int) -> bool:
    return len(env.ec2_instances) == count


def test_counts_are_read_at_a_bounded_rate_while_nodes_are_launched_next_to_a_full_reservation() -> None:
    async def program(env: AppEnvironment) -> None:
        await used_elsewhere(env)
        asked = env.asked(DESCRIBE)
        for i in range(30):
            await env.deploy(f"web-{i}", 1, **ONE_PER_NODE)
            await env.sleep(2)
        assert 5 <= env.asked(DESCRIBE) - asked <= 14
        asked = env.asked(DESCRIBE)
        await env.sleep(300)  # no pod is pending
        assert env.asked(DESCRIBE) - asked <= 6

    app_environment.run(program)


@pytest.mark.parametrize("kinds", [("reserved", "on-demand"), ("reserved",)])
def test_slot_that_another_account_released_after_a_launch_is_used(kinds: tuple[str, ...]) -> None:
    """The count may not include the launch, so the free slot could be that of the launched instance."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2, elsewhere=1)
        await pool(env, slots, kinds=kinds, consolidate_after="Never")
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        assert env.in_reservation(slots) == 1
        control.give(env.ec2.region, slots.id, 1)
        await next_count(env)
        await env.deploy("more", 1, **ONE_PER_NODE)
        await env.sleep(20)
        assert env.in_reservation(slots) == 2
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program)


def test_doubtful_slot_that_ec2_refuses_costs_seconds() -> None:
    """EC2's count does not include the launch for a minute."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await pool(env, slots, consolidate_after="Never")
        await env.sleep(180)
        env.ec2.region.faults.add(faults.Stale(operation=DESCRIBE, lag_s=60))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await env.deploy("more", 2, **ONE_PER_NODE)
        began_s = env.clock.monotonic_s()
        await env.until(lambda: has_instances(env, 3))
        assert env.clock.monotonic_s() - began_s <= 15
        assert env.in_reservation(slots) == 1

    app_environment.run(program)
