"""The leader loses its connection to the API server, but not to EC2, and another replica becomes the leader."""

import dataclasses

import pytest

import app_world
from api_lines import Line
from app_world import AppWorld, capacity_types, instance_types
from holdfast.api.cluster import Lease
from holdfast.runtime import lease
from holdfast.runtime.lease import LeaseSettings
from holdfast.sim.api.serving import faults
from holdfast.sim.api.serving.front import Request

SETTINGS = dataclasses.replace(app_world.SETTINGS, election=LeaseSettings("kube-system"))
ONE_PER_NODE = {"cpu": "1500m"}


async def leader(world: AppWorld) -> str | None:
    return (await world.kube.get(Lease, lease.NAME, "kube-system")).spec.holder_identity


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
    async def program(world: AppWorld) -> None:
        first, world.line = world.line, Line(world.server, world.clock)
        world.stand_by()
        slots = world.reserve(total=2)
        await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await world.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")]
        )
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        before = await leader(world)
        disconnect_after(first, writes)
        await world.scale("web", 4)
        await world.until_running(4)
        await world.sleep(30)
        assert await leader(world) != before
        first.come_back()  # the old leader has exited, or learns that it lost the Lease
        await world.scale("web", 5)
        await world.until_running(5)
        await world.sleep(300)  # garbage collection runs meanwhile
        assert world.in_reservation(slots) == 2
        owned = {(claim.status.provider_id or "").rpartition("/")[2] for claim in await world.claims()}
        assert owned == {instance.id for instance in world.machines}
        assert len(owned) == 5 == len(world.all_machines())

    app_world.run(program, settings=SETTINGS)
