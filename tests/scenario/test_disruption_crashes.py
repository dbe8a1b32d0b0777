"""The program is killed at every third write of a replacement, and started anew: it goes on, or takes everything back.

A node drifts in a story of its own kind: bought nodes are replaced first, the only slot of a reservation goes first.
"""

import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, pool, tainted
from holdfast import names

WRITES = 40


async def look_after(world: AppWorld) -> None:
    if world.hands.dead.is_set():
        await world.restart()


@pytest.mark.parametrize("reserved", [False, True], ids=["bought", "reserved"])
@pytest.mark.parametrize("write", range(1, WRITES, 3))
def test_a_program_that_dies_while_it_replaces_a_node_is_made_good_by_the_next(
    write: int, *, reserved: bool
) -> None:
    async def program(world: AppWorld) -> None:
        slots = (world.reserve(total=1),) if reserved else ()
        await pool(world, *slots, kinds=("reserved",) if reserved else ("on-demand",))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        await world.sleep(150)  # until the launch is in every count
        world.hands.die_at(len(world.hands.writes) + write, after_effect=bool(write % 2))
        await drift_all(world)

        async def replaced() -> bool:
            await look_after(world)
            nodes = await world.nodes()
            return len(nodes) == 1 == len(await world.claims()) and all(map(is_new, nodes))

        await world.until(replaced, within_s=2400)
        for _ in range(30):  # garbage is looked for meanwhile
            await world.sleep(5)
            await look_after(world)
        assert len(await world.running()) == 1 == len(await world.pods())
        (node,), (claim,) = await world.nodes(), await world.claims()
        assert not tainted(node)
        assert names.ORDER not in claim.metadata.annotations
        assert len(world.machines) == 1

    app_world.run(program, seed=write)
