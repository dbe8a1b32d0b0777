"""Pauses of the leader: it is stopped with SIGSTOP while it works, another replica leads, and then it continues.

When it continues, its connections to the API server are silent, and AWS is reachable. The judge checks every write when
it takes effect: none may come from a replica that does not hold the Lease. Used by `scripts/run_faults.py` and tests.
"""

import asyncio
import random
import signal
from typing import Any, Final

from faults import environment, steps
from faults.calls import Call
from faults.campaign import Keep, Tell
from faults.environment import FaultEnvironment, Process

FIRST_WRITES: Final = 8
LEADS_WITHIN_S: Final = 60.0
SILENT_S: Final = 6.0  # how long the connections of the old leader stay silent after the pause
SETTLES_WITHIN_S: Final = 180.0
SHORTEST_S: Final = 8.0
LONGEST_S: Final = 30.0
_NOT_COUNTED: Final = ("leases", "events")


async def run(
    count: int,
    seed: int,
    tell: Tell = lambda _: None,
    keep: Keep = lambda _: None,
    *,
    shortest_s: float = SHORTEST_S,
) -> dict[str, Any]:
    dice = random.Random(seed)
    results: list[dict[str, Any]] = []
    while len(results) < count:
        async with environment.serving(slots=environment.MANY_SLOTS) as made:
            await made.set_up()
            await made.app(steps.APP, steps.MIN_REPLICAS)
            await made.start_process()
            problems = await made.converged(SETTLES_WITHIN_S)
            assert not problems, problems
            while not problems and len(results) < count:
                result = await _pause(made, dice, seed, dice.uniform(shortest_s, LONGEST_S))
                tell(f"pause {len(results) + 1}: {result}")
                results.append(result)
                keep({"results": results})
                problems = [] if result["outcome"] == "recovered" else [result["outcome"]]
    return {"results": results}


async def _pause(made: FaultEnvironment, dice: random.Random, seed: int, pause_s: float) -> dict[str, Any]:
    leader, step = made.current, dice.choice(("grow", "replace", "grow-and-replace"))
    standby = await made.start_process()
    await standby.running.wait_for_log("synced caches")
    stopped = asyncio.Event()
    _stop_at_write(leader, dice, stopped)
    for name in step.split("-and-"):
        await steps.STEPS[name](made, dice)
    try:
        await asyncio.wait_for(stopped.wait(), 10)
    except TimeoutError:
        leader.signal(signal.SIGSTOP)
    await asyncio.sleep(pause_s)
    took_over = await _leads(made, standby, pause_s)
    leader.kube.stall()
    leader.signal(signal.SIGCONT)
    await asyncio.sleep(SILENT_S)
    leader.kube.flow()
    problems = await _settle(made, leader, standby)
    problems += made.broken_rules()
    return {
        "call": step,
        "kind": "pause, the other replica leads" if took_over else "pause, the leader goes on",
        "step": f"{pause_s:.1f} s",
        "injected": 1,
        "outcome": "; ".join(problems) or "recovered",
        "seed": seed,
    }


def _stop_at_write(leader: Process, dice: random.Random, stopped: asyncio.Event) -> None:
    """Stops the process right before it reads the answer to a write, when its next call is already decided. The write is
    often one of a NodeClaim, which a launch or a termination follows."""
    name, most = dice.choice((("patch nodeclaims", 2), ("patch nodeclaims", 2), ("", FIRST_WRITES)))
    left = dice.randint(1, most)

    async def hook(call: Call, phase: str) -> bool:
        nonlocal left
        counts = call.name == name if name else call.is_write and not call.name.endswith(_NOT_COUNTED)
        if phase == "after" and counts:
            left -= 1
            if left == 0:
                leader.signal(signal.SIGSTOP)
                stopped.set()
        return True

    leader.kube.hook = leader.aws.hook = hook


async def _leads(made: FaultEnvironment, standby: Process, pause_s: float) -> bool:
    """Whether the standby holds the Lease. After a pause longer than the Lease, it waits until the standby does."""
    if pause_s > environment.LEASE_S:
        async with asyncio.timeout(LEADS_WITHIN_S):
            while made.judge.holder != standby.number:
                await made.clock.sleep(0.1)
        await asyncio.sleep(3.0)  # and it launches
    return made.judge.holder == standby.number


async def _settle(made: FaultEnvironment, leader: Process, standby: Process) -> list[str]:
    """One of the two exits or is stopped, and the other continues alone."""
    if made.judge.holder == standby.number:
        try:
            await asyncio.wait_for(leader.running.ended(), 60)
        except TimeoutError:
            return ["the old leader neither leads nor exits"]
    else:
        standby.signal(signal.SIGTERM)
        await standby.running.ended()
        made.processes.remove(standby)
        made.processes.insert(made.processes.index(leader), standby)
    return await made.converged(SETTLES_WITHIN_S)
