"""The program is killed after every single write of a replacement, and started anew: it goes on, or takes everything back.

A node drifts in a story of its own kind: bought nodes are replaced first, the only slot of a reservation goes first.
"""

import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, pool, tainted
from holdfast import names

WRITES = {"bought": 34, "reserved": 39}  # from the change of the template to the last pod in its place
CASES = [(kind, write) for kind, writes in WRITES.items() for write in range(writes)]


def replaced(kind: str, dies_at: int | None) -> int:
    """How many writes it took; the program dies once, when one of them took effect and before it is told so."""
    took: list[int] = []

    async def program(world: AppWorld) -> None:
        slots = (world.reserve(total=1),) if kind == "reserved" else ()
        await pool(world, *slots, kinds=("reserved",) if slots else ("on-demand",))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        await world.sleep(70)  # until a count shows it
        first, hands = len(world.hands.writes), world.hands
        if dies_at is not None:
            hands.die_at(first + dies_at, after_effect=True)
        await drift_all(world)

        async def is_over() -> bool:
            if world.hands.dead.is_set():
                await world.restart()
            nodes = await world.nodes()
            there = len(nodes) == len(await world.claims()) == len(await world.running()) == 1
            return there and all(map(is_new, nodes))

        await world.until(is_over, within_s=2400)
        took.append(len(hands.writes) - first)
        assert hands.dead.is_set() == (dies_at is not None)
        await world.sleep(130)  # garbage is looked for meanwhile
        assert len(await world.running()) == 1 == len(await world.pods())
        (node,), (claim,) = await world.nodes(), await world.claims()
        assert not tainted(node)
        assert names.DISRUPTION_COMMAND not in claim.metadata.annotations
        assert len(world.machines) == 1

    app_world.run(program)
    return took[0]


@pytest.mark.parametrize("kind", WRITES)
def test_every_write_of_a_replacement_is_one_of_those_after_which_the_program_dies(kind: str) -> None:
    assert replaced(kind, None) == WRITES[kind]


@pytest.mark.parametrize(("kind", "write"), CASES)
def test_a_program_that_dies_while_it_replaces_a_node_is_made_good_by_the_next(kind: str, write: int) -> None:
    replaced(kind, write)
