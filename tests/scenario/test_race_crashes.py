"""The process loses a race for a slot, crashes at each of the writes that follow, and is restarted.

Two cases: another listed slot is free and the NodeClaim moves there, or none is free and its pods are planned again.
"""

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.sim.ec2 import faults

SLOTS = {"another is free": 2, "none is free": 1}
WRITES = {
    "another is free": 20,
    "none is free": 23,
}  # from the pending pod to the ready node, without a crash
CASES = [(kind, write) for kind, writes in WRITES.items() for write in range(writes)]


def writes_after_lost_race(kind: str, crash_at: int | None) -> int:
    """The number of writes; the process crashes once, after the effect of write `crash_at` and before its answer."""
    write_counts: list[int] = []

    async def program(env: AppEnvironment) -> None:
        slots = [env.reserve(total=1) for _ in range(SLOTS[kind])]
        await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
        wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
        # Otherwise consolidation moves an on-demand node into a slot that becomes free.
        await env.node_pool(requirements=wanted, disruption={"consolidateAfter": "Never"})
        await env.sleep(20)
        planned = min(slots, key=lambda one: one.id)
        env.ec2.region.faults.add(faults.Taken(reservation_id=planned.id, times=1))
        crashing, first = env.crashing, len(env.crashing.writes)
        if crash_at is not None:
            crashing.crash_after_write(first + crash_at, after_effect=True)
        await env.deploy("web", 1, cpu="1500m")

        async def pod_runs() -> bool:
            if env.crashing.crashed.is_set():
                await env.restart()
            return len(await env.running()) == 1

        await env.until(pod_runs)
        write_counts.append(len(crashing.writes) - first)
        assert crashing.crashed.is_set() == (crash_at is not None)
        for _ in range(26):  # garbage collection runs meanwhile
            await env.sleep(5)
            assert await pod_runs()
        (claim,), (node,), (instance,) = await env.claims(), await env.nodes(), env.ec2_instances
        assert (claim.status.provider_id or "").endswith(instance.id)
        assert node.spec.provider_id == claim.status.provider_id
        assert len(env.all_ec2_instances()) == 1  # no duplicate launch
        assert instance.reservation_id == (max(one.id for one in slots) if len(slots) > 1 else "")
        env.ec2.check_all()

    app_environment.run(program)
    return write_counts[0]


@pytest.mark.parametrize("kind", WRITES)
def test_lost_race_causes_as_many_writes_as_the_crash_test_covers(kind: str) -> None:
    assert writes_after_lost_race(kind, None) == WRITES[kind]


@pytest.mark.parametrize(("kind", "write"), CASES)
def test_restart_recovers_from_a_crash_at_any_write_after_a_lost_race(kind: str, write: int) -> None:
    writes_after_lost_race(kind, write)
