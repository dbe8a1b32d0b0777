"""The process crashes after every write of a replacement and is restarted: it completes the command or rolls it back.

An on-demand node is replaced before it is deleted. A node in the only slot of a reservation is deleted first.
"""

import pytest

import app_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, drift_all, is_new, pool, tainted
from holdfast import names

WRITES = {"on-demand": 35, "reserved": 39}  # from the template change until the pod runs again
CASES = [(kind, write) for kind, writes in WRITES.items() for write in range(writes)]


def writes_of_replacement(kind: str, crash_at: int | None) -> int:
    """The number of writes; the process crashes once, after the effect of write `crash_at` and before its answer."""
    write_counts: list[int] = []

    async def program(env: AppEnvironment) -> None:
        slots = (env.reserve(total=1),) if kind == "reserved" else ()
        await pool(env, *slots, kinds=("reserved",) if slots else ("on-demand",))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await env.sleep(70)  # until a count shows the launch
        first, crashing = len(env.crashing.writes), env.crashing
        if crash_at is not None:
            crashing.crash_after_write(first + crash_at, after_effect=True)
        await drift_all(env)

        async def is_over() -> bool:
            if env.crashing.crashed.is_set():
                await env.restart()
            nodes = await env.nodes()
            is_single = len(nodes) == len(await env.claims()) == len(await env.running()) == 1
            return is_single and all(map(is_new, nodes))

        await env.until(is_over, within_s=2400)
        write_counts.append(len(crashing.writes) - first)
        assert crashing.crashed.is_set() == (crash_at is not None)
        await env.sleep(130)  # garbage collection runs meanwhile
        assert len(await env.running()) == 1 == len(await env.pods())
        (node,), (claim,) = await env.nodes(), await env.claims()
        assert not tainted(node)
        assert names.DISRUPTION_COMMAND not in claim.metadata.annotations
        assert len(env.ec2_instances) == 1

    app_environment.run(program)
    return write_counts[0]


@pytest.mark.parametrize("kind", WRITES)
def test_replacement_makes_as_many_writes_as_the_crash_test_covers(kind: str) -> None:
    assert writes_of_replacement(kind, None) == WRITES[kind]


@pytest.mark.parametrize(("kind", "write"), CASES)
def test_restart_recovers_from_a_crash_at_any_write_of_a_replacement(kind: str, write: int) -> None:
    writes_of_replacement(kind, write)
