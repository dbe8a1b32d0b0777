"""Bad weather, one kind at a time: EC2 throttles, answers get lost or are old, the API server restarts, watches break.

Whatever it is, it ends, and then everything is as if it had not been: as many machines as there are pods that need
one, each with its claim.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.runtime.lease import LeaseSettings
from holdfast.sim.api.serving import faults as api
from holdfast.sim.api.serving.front import Request
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.entities import Reservation

ONE_PER_NODE = {"cpu": "1500m"}
WRITES = ("CreateFleet", "CreateLaunchTemplate", "CreateTags", "TerminateInstances")


def is_write(request: Request) -> bool:
    return request.method != "GET"


def is_watch(request: Request) -> bool:
    return request.query.get("watch") == "true"


def is_list(request: Request) -> bool:
    return request.method == "GET" and not is_watch(request)


async def begin(world: AppWorld) -> Reservation:
    slots = world.reserve(total=2)
    await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
    await world.node_pool(requirements=wanted)
    return slots


async def come_and_go(world: AppWorld) -> None:
    """Three pods come; a node is deleted; a fourth pod comes."""
    await world.deploy("web", 3, **ONE_PER_NODE)
    await world.until_running(3, within_s=900)
    await world.kube.delete((await world.claims())[0])
    await world.scale("web", 4)
    await world.until_running(4, within_s=900)


async def judge(world: AppWorld, slots: Reservation) -> None:
    """After long enough for garbage to be seen, and for what was bought meanwhile to move back into the slots."""
    await world.sleep(300)

    async def at_rest() -> bool:
        found = (world.machines, await world.claims(), await world.nodes(), await world.running())
        return {len(one) for one in found} == {4} and world.in_reservation(slots) == 2

    await world.until(at_rest, within_s=900)
    owned = {(claim.status.provider_id or "").rpartition("/")[2] for claim in await world.claims()}
    assert owned == {machine.id for machine in world.machines}
    assert len(world.all_machines()) == len(world.claims_ever())  # nothing was launched twice
    world.ec2.check_all()


@pytest.mark.parametrize("operation", ["", *WRITES, "DescribeInstances", "DescribeCapacityReservations"])
@pytest.mark.parametrize("fault", [faults.Throttled, faults.Lost])
def test_ec2_throttles_or_loses_its_answers(operation: str, fault: type[faults.OfCall]) -> None:
    async def program(world: AppWorld) -> None:
        slots = await begin(world)
        until_s = world.clock.now_s() + 120
        chance = 0.7 if fault is faults.Throttled else 0.4
        world.ec2.world.faults.add(fault(operation=operation, chance=chance, until_s=until_s))
        await come_and_go(world)
        await judge(world, slots)

    app_world.run(program)


def test_ec2_answers_with_what_was_true_half_a_minute_ago() -> None:
    async def program(world: AppWorld) -> None:
        slots = await begin(world)
        world.ec2.world.faults.add(faults.Stale(lag_s=30, until_s=world.clock.now_s() + 300))
        await come_and_go(world)
        await judge(world, slots)

    app_world.run(program)


@pytest.mark.parametrize(
    ("fault", "which"),
    [
        (api.Refuse("InternalError"), is_write),
        (api.Refuse("Conflict"), is_write),
        (api.Refuse("TooManyRequests", 2), is_write),
        (api.Lose(), is_write),
        (api.Lose(after_effect=True), is_write),
        (api.Delay(3), is_write),
        (api.Cut(1), is_watch),
        (api.Half(400), is_watch),
        (api.Refuse("Expired"), is_watch),
        (api.Stale(15), is_list),
        (api.Half(200), is_list),
    ],
)
def test_the_line_to_the_api_server_is_bad(fault: api.Fault, which: Callable[[Request], bool]) -> None:
    async def program(world: AppWorld) -> None:
        slots = await begin(world)
        await world.sleep(5)
        for _ in range(12):
            world.line.add(fault, which, times=2)
        if which is is_list:
            world.line.cut()
            world.line.add(api.Refuse("Expired"), is_watch, times=15)  # so that it lists anew
        await come_and_go(world)
        await judge(world, slots)

    app_world.run(program)


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_api_server_restarts_again_and_again(replicas: int) -> None:
    async def program(world: AppWorld) -> None:
        for _ in range(1, replicas):
            world.stand_by()
        slots = await begin(world)
        await world.deploy("web", 3, **ONE_PER_NODE)
        for up_s, down_s in ((2, 5), (1, 20), (15, 40), (8, 3)):
            await world.sleep(up_s)
            world.line.go_down()
            await world.sleep(down_s)
            world.line.come_back()
        await world.until_running(3)
        await world.kube.delete((await world.claims())[0])
        await world.scale("web", 4)
        await world.sleep(4)
        world.line.go_down()
        await world.sleep(30)
        world.line.come_back()
        await world.until_running(4)
        await judge(world, slots)

    settings = app_world.SETTINGS
    if replicas > 1:
        settings = dataclasses.replace(settings, election=LeaseSettings("kube-system"))
    app_world.run(program, settings=settings)


class HalfPaged(NoFaults):
    """DescribeCapacityReservations breaks off after its first page."""

    def fault(self, _: str, operation: str, params: Mapping[str, Any]) -> ApiError | None:
        broken = operation == "DescribeCapacityReservations" and "NextToken" in params
        return ApiError("InternalError", "try later", 500) if broken else None


@pytest.mark.fact("Q-4")
def test_half_a_listing_of_reservations_changes_nothing() -> None:
    async def program(world: AppWorld) -> None:
        slots = await begin(world)
        await world.sleep(30)
        for _ in range(1100):  # more than a page
            world.reserve("c5.large", 1)
        world.endpoint.faults = HalfPaged()
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        await world.sleep(300)
        (node_class,) = (await world.kube.list(EC2NodeClass)).items
        assert [one.id for one in node_class.status.capacity_reservations] == [slots.id]
        assert world.in_reservation(slots) == 1

    app_world.run(program)
