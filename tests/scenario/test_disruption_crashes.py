"""The process crashes after every write of a replacement and is restarted: it completes the command or rolls it back.

An on-demand node is replaced before it is deleted. A node in the only slot of a reservation is deleted first.
"""

import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, pool, tainted
from holdfast import names

WRITES = {"on-demand": 34, "reserved": 39}  # from the template change until the pod runs again
CASES = [(kind, write) for kind, writes in WRITES.items() for write in range(writes)]


def writes_of_replacement(kind: str, crash_at: int | None) -> int:
    """The number of writes; the process crashes once, after the effect of write `crash_at` and before its answer."""
    write_counts: list[int] = []

    async def program(world: AppWorld) -> None:
        slots = (world.reserve(total=1),) if kind == "reserved" else ()
        await pool(world, *slots, kinds=("reserved",) if slots else ("on-demand",))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        await world.sleep(70)  # until a count shows the launch
        first, hands = len(world.hands.writes), world.hands
        if crash_at is not None:
            hands.die_at(first + crash_at, after_effect=True)
        await drift_all(world)

        async def is_over() -> bool:
            if world.hands.dead.is_set():
                await world.restart()
            nodes = await world.nodes()
            is_single = len(nodes) == len(await world.claims()) == len(await world.running()) == 1
            return is_single and all(map(is_new, nodes))

        await world.until(is_over, within_s=2400)
        write_counts.append(len(hands.writes) - first)
        assert hands.dead.is_set() == (crash_at is not None)
        await world.sleep(130)  # garbage collection runs meanwhile
        assert len(await world.running()) == 1 == len(await world.pods())
        (node,), (claim,) = await world.nodes(), await world.claims()
        assert not tainted(node)
        assert names.DISRUPTION_COMMAND not in claim.metadata.annotations
        assert len(world.machines) == 1

    app_world.run(program)
    return write_counts[0]


@pytest.mark.parametrize("kind", WRITES)
def test_replacement_makes_as_many_writes_as_the_crash_test_covers(kind: str) -> None:
    assert writes_of_replacement(kind, None) == WRITES[kind]


@pytest.mark.parametrize(("kind", "write"), CASES)
def test_restart_recovers_from_a_crash_at_any_write_of_a_replacement(kind: str, write: int) -> None:
    writes_of_replacement(kind, write)
