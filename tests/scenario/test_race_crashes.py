"""The program loses a race for a slot, is killed at each write of what follows, and started anew.

Two stories: another slot that the claim lists is free, and it moves there; or none is, and its pods are planned again.
"""

import pytest

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast.sim.ec2 import faults

SLOTS = {"another is free": 2, "none is free": 1}
WRITES = {
    "another is free": 20,
    "none is free": 24,
}  # from the pending pod to the ready node, when nobody dies
CASES = [(kind, write) for kind, writes in WRITES.items() for write in range(writes)]


def lost(kind: str, dies_at: int | None) -> int:
    """How many writes it took; the program dies once, when one of them took effect and before it is told so."""
    took: list[int] = []

    async def program(world: AppWorld) -> None:
        slots = [world.reserve(total=1) for _ in range(SLOTS[kind])]
        await world.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
        wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
        # What is bought would move into a slot that comes back: that is another story.
        await world.node_pool(requirements=wanted, disruption={"consolidateAfter": "Never"})
        await world.sleep(20)
        planned = min(slots, key=lambda one: one.id)
        world.ec2.world.faults.add(faults.Taken(reservation_id=planned.id, times=1))
        hands, first = world.hands, len(world.hands.writes)
        if dies_at is not None:
            hands.die_at(first + dies_at, after_effect=True)
        await world.deploy("web", 1, cpu="1500m")

        async def at_rest() -> bool:
            if world.hands.dead.is_set():
                await world.restart()
            return len(await world.running()) == 1

        await world.until(at_rest)
        took.append(len(hands.writes) - first)
        assert hands.dead.is_set() == (dies_at is not None)
        for _ in range(26):  # garbage is looked for meanwhile
            await world.sleep(5)
            assert await at_rest()
        (claim,), (node,), (machine,) = await world.claims(), await world.nodes(), world.machines
        assert (claim.status.provider_id or "").endswith(machine.id)
        assert node.spec.provider_id == claim.status.provider_id
        assert len(world.all_machines()) == 1  # nothing was ever launched twice
        assert machine.reservation_id == (max(one.id for one in slots) if len(slots) > 1 else "")
        world.ec2.check_all()

    app_world.run(program)
    return took[0]


@pytest.mark.parametrize("kind", WRITES)
def test_every_write_after_a_lost_race_is_one_at_which_the_program_dies(kind: str) -> None:
    assert lost(kind, None) == WRITES[kind]


@pytest.mark.parametrize(("kind", "write"), CASES)
def test_a_program_that_dies_after_a_lost_race_is_made_good_by_the_next(kind: str, write: int) -> None:
    lost(kind, write)
