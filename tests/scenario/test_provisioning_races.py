"""What goes wrong between a plan and a machine: lost races, lost answers, crashes; the real program, in virtual time."""

import asyncio
import dataclasses
from collections.abc import Mapping

import pytest

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast import names
from holdfast.kube.transport import Answer, Transport
from holdfast.runtime.lease import LeaseSettings
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.entities import Reservation

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}


async def with_slots(world: AppWorld, *reservations: Reservation, kinds: tuple[str, ...]) -> None:
    """A pool that may use these reservations, resolved and ready."""
    await world.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in reservations])
    await world.node_pool(requirements=[LARGE, capacity_types(*kinds)])
    await world.sleep(20)


async def until_launched(world: AppWorld, count: int = 1, within_s: float = 10) -> float:
    async def launched() -> bool:
        return len(world.machines) == count

    return await world.until(launched, within_s=within_s)


def test_a_slot_that_another_account_took_is_made_good_by_another_free_slot_within_two_seconds() -> None:
    async def program(world: AppWorld) -> None:
        first, second = world.reserve(total=1), world.reserve(total=1)
        await with_slots(world, first, second, kinds=("reserved", "on-demand"))
        planned = min(first.id, second.id)
        world.ec2.world.faults.add(faults.Taken(reservation_id=planned, times=1))
        await world.deploy("web", 1, **ONE_PER_NODE)

        async def planned_now() -> bool:
            return bool(await world.claims())

        await world.until(planned_now, within_s=10)
        assert await until_launched(world) <= 2
        (machine,) = world.machines
        other = max(first.id, second.id)
        assert machine.reservation_id == other
        await world.until_running(1)
        (claim,) = await world.claims()
        assert claim.metadata.annotations[names.SLOT] == other
        assert claim.metadata.labels[names.CAPACITY_TYPE] == "reserved"

    app_world.run(program)


def test_when_no_slot_is_left_the_pods_are_planned_again_in_the_same_second() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await with_slots(world, slots, kinds=("reserved", "on-demand"))
        world.ec2.world.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        before = world.asked("CreateFleet")
        await world.deploy("web", 1, **ONE_PER_NODE)

        async def refused() -> bool:
            return world.asked("CreateFleet") > before

        await world.until(refused, within_s=10)
        assert await until_launched(world) <= 1
        (machine,) = world.machines
        assert machine.reservation_id == ""
        await world.until_running(1)
        (claim,) = await world.claims()
        assert claim.metadata.labels[names.CAPACITY_TYPE] == "on-demand"
        said = await world.events("InsufficientCapacityError")
        assert {event.involved_object.kind for event in said} == {"NodeClaim", "Pod"}

    app_world.run(program)


def test_a_lost_answer_launches_one_machine() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        world.ec2.world.faults.add(faults.Lost(operation="CreateFleet", times=1))
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.until_running(2)
        assert len(world.all_machines()) == 2
        owned = {claim.status.provider_id for claim in await world.claims()}
        assert len(owned) == 2

    app_world.run(program)


@pytest.mark.fact("NC-6", "NC-37")
def test_a_pool_without_capacity_is_left_for_another_type_at_once() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[instance_types("m5.large", "m5a.large")])
        world.ec2.world.faults.add(faults.NoCapacity(instance_type="m5a.large"))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        assert [machine.instance_type for machine in world.machines] == ["m5.large"]
        assert len(await world.claims()) == 1

    app_world.run(program)


class Dying:
    """The transport of a program that dies with one of its writes: before it arrives, or after it took effect.

    Events are not counted: losing one is part of the Recorder door's promise.
    """

    def __init__(self, transport: Transport, at: int, *, after_effect: bool) -> None:
        self._transport = transport
        self._left = at
        self._after_effect = after_effect
        self.dead = asyncio.Event()

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        is_last = False
        if method != "GET" and not path.endswith("/events"):
            is_last = self._left == 0
            self._left -= 1
        if self.dead.is_set() or (is_last and not self._after_effect):
            await self._die()
        answer = await self._transport.request(method, path, query, headers, body)
        if is_last:
            await self._die()
        return answer

    async def _die(self) -> None:
        self.dead.set()
        await asyncio.get_running_loop().create_future()


async def survives(world: AppWorld, at: int, *, after_effect: bool) -> bool:
    """Whether the program got as far as to die; then another takes its place, and all ends well."""
    slots = world.reserve(total=1)
    await world.app.kill()
    dying = Dying(world.transport, at, after_effect=after_effect)
    world.app = world.new_app(dying)
    world.app.start()
    await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    await world.node_pool(requirements=[LARGE, capacity_types("reserved", "on-demand")])
    await world.deploy("web", 2, **ONE_PER_NODE)
    for _ in range(60):
        await world.sleep(1)
        if dying.dead.is_set():
            await world.restart()
            break
    await world.until_running(2)
    await world.sleep(150)  # the garbage is looked for meanwhile
    claims = await world.claims()
    machines = world.machines
    assert {claim.status.provider_id for claim in claims} == {
        f"aws:///{world.ec2.world.setup.accounts[0].zone_name(one.zone_id)}/{one.id}" for one in machines
    }
    assert len(machines) == len(world.all_machines()) == 2
    assert world.in_reservation(slots) == 1
    assert len(await world.running()) == 2
    return dying.dead.is_set()


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_program_that_dies_at_any_of_its_writes_is_made_good_by_the_next(after_effect: bool) -> None:  # noqa: FBT001 - what is told apart
    deaths = 0
    died = True
    while died:

        async def program(world: AppWorld, at: int = deaths) -> None:
            nonlocal died
            died = await survives(world, at, after_effect=after_effect)

        app_world.run(program)
        deaths += died
    assert deaths > 20


def test_of_two_replicas_the_second_goes_on_where_the_first_died() -> None:
    async def program(world: AppWorld) -> None:
        second = world.new_app()
        second.start()
        await world.node_class()
        await world.node_pool(requirements=[LARGE])
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.until_running(2)
        assert len(world.all_machines()) == 2  # only one of them acts
        await world.app.kill()
        world.app = second
        await world.scale("web", 3)
        await world.until_running(3)
        assert len(world.all_machines()) == 3

    settings = dataclasses.replace(app_world.SETTINGS, election=LeaseSettings("kube-system"))
    app_world.run(program, settings=settings)
