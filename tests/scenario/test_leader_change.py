"""The leader loses its connection to the API server, but not to EC2, and another replica becomes the leader."""

import dataclasses

import pytest

import app_environment
import gang_environment
from api_lines import Line
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.cluster import Lease
from holdfast.runtime import lease
from holdfast.runtime.lease import LeaseSettings
from holdfast.sim.api.serving import faults
from holdfast.sim.api.serving.front import Request
from holdfast.sim.ec2.entities import Reservation

SETTINGS = dataclasses.replace(app_environment.SETTINGS, election=LeaseSettings("kube-system"))
ONE_PER_NODE = {"cpu": "1500m"}


async def leader(env: AppEnvironment) -> str | None:
    return (await env.kube.get(Lease, lease.NAME, "kube-system")).spec.holder_identity


def disconnect_after(line: Line, writes: int) -> None:
    """Disconnect after this many writes; the answer to the next one is lost."""
    remaining = writes

    def is_last(request: Request) -> bool:
        nonlocal remaining
        remaining -= request.method != "GET" and "/leases/" not in request.path
        if remaining < 0:
            line.go_down()
        return remaining < 0

    line.add(faults.Lose(after_effect=True), is_last)


@pytest.mark.parametrize("writes", [*range(8), 12, 16, 24])
def test_new_leader_replaces_a_disconnected_one_without_duplicate_launches(writes: int) -> None:
    async def program(env: AppEnvironment) -> None:
        first, env.line = env.line, Line(env.server, env.clock)
        env.stand_by()
        slots = env.reserve(total=2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")]
        )
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        before = await leader(env)
        disconnect_after(first, writes)
        await env.scale("web", 4)
        await env.until_running(4)
        await env.sleep(30)
        assert await leader(env) != before
        first.come_back()  # the old leader has exited, or learns that it lost the Lease
        await env.scale("web", 5)
        await env.until_running(5)
        await env.sleep(300)  # garbage collection runs meanwhile
        assert env.in_reservation(slots) == 2
        owned = {(claim.status.provider_id or "").rpartition("/")[2] for claim in await env.claims()}
        assert owned == {instance.id for instance in env.ec2_instances}
        assert len(owned) == 5 == len(env.all_ec2_instances())

    app_environment.run(program, settings=SETTINGS)


@pytest.mark.parametrize("writes", [1, 3, 5, 7, 9])
def test_new_leader_launches_a_gang_once_if_the_launch_was_sent_by_the_old_one(writes: int) -> None:
    """The old leader is disconnected from the API server after this many writes, and EC2 answers it."""

    async def program(env: AppEnvironment) -> None:
        first, env.line = env.line, Line(env.server, env.clock)
        env.stand_by()
        await gang_environment.reserved(env, env.reserve(total=6))
        await env.sleep(10)
        before = await leader(env)
        disconnect_after(first, writes)
        await gang_environment.train(env)
        await env.until_running(3, "train")
        await env.sleep(30)
        assert await leader(env) != before
        first.come_back()
        await env.sleep(300)  # garbage collection runs meanwhile
        assert len(env.all_ec2_instances()) == len(env.ec2_instances) == len(await env.claims()) == 3
        gang_environment.assert_launched_whole(env)

    app_environment.run(program, settings=SETTINGS, gangs=True)


@pytest.mark.parametrize("after_s", [0, 20, 60])
def test_new_leader_uses_a_slot_next_to_recent_launches(after_s: int) -> None:
    """The new process has read one count of EC2, which cannot show whether it includes the launches."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")],
            disruption={"consolidateAfter": "Never"},
        )
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        await env.restart(after_s=after_s)
        await env.scale("web", 3)
        await env.until_running(3)
        assert (env.in_reservation(slots), len(env.all_ec2_instances())) == (3, 3)
        await env.scale("web", 4)
        await env.until_running(4)
        assert (env.in_reservation(slots), len(env.all_ec2_instances())) == (3, 4), "and oversells none"

    app_environment.run(program)


async def until_free(env: AppEnvironment, slots: Reservation, count: int) -> None:
    async def free() -> bool:
        return env.free(slots) == count

    await env.until(free)


async def until_terminated(env: AppEnvironment, count: int) -> None:
    """Waits until EC2 lists so many instances as terminated; their slots are released later."""

    async def terminated() -> bool:
        return sum(one.state == "terminated" for one in env.all_ec2_instances()) == count

    await env.until(terminated)


def test_new_leader_uses_a_slot_that_is_released_after_its_first_count() -> None:
    """It does not list the instance, which terminated before."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")]
        )
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await env.sleep(150)
        await env.scale("web", 0)
        await until_terminated(env, 1)
        await env.restart()
        await until_free(env, slots, 1)
        await env.scale("web", 1)
        await env.until_running(1)
        assert [one.reservation_id for one in env.ec2_instances] == [slots.id]

    app_environment.run(program)


def test_new_leader_does_not_take_a_slot_that_is_being_released_for_one_of_another_cluster() -> None:
    """Next to a recent launch, free slots are known only if it is known how many slots other clusters use."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")]
        )
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        await env.sleep(150)
        await env.deploy("new", 1, **ONE_PER_NODE)
        await env.until_running(1, "new")
        await env.scale("web", 1)
        await until_terminated(env, 1)
        await env.restart()
        await until_free(env, slots, 1)
        await env.scale("new", 2)
        await env.until_running(2, "new")
        assert [one.reservation_id for one in env.ec2_instances] == [slots.id] * 3

    app_environment.run(program)
