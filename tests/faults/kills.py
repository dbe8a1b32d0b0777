"""`kill -9` at random writes: the proxy kills the process right before or right after it forwards a write.

Kills happen during scale-up, scale-down, drift, and the replacement of all nodes of a full reservation; the process is restarted each time.
Used by `scripts/run_faults.py` and tests.
"""

import asyncio
import random
import signal
from collections import Counter
from typing import Any, Final

from faults import campaign, environment, steps
from faults.calls import Call
from faults.campaign import Keep, Tell
from faults.environment import FaultEnvironment, Process

STEPS: Final = ("grow", "drift", "replace", "shrink")
KILLS_A_STEP: Final = 4
SLOTS: Final = (environment.SLOTS, environment.MANY_SLOTS)
LATEST_WRITE: Final = 12
IN_FLIGHT_S: Final = 0.5  # requests that the process has sent arrive within this time
SETTLES_WITHIN_S: Final = 400.0
_NOT_COUNTED: Final = ("leases", "events")


async def run(
    count: int, seed: int, tell: Tell = lambda _: None, keep: Keep = lambda _: None, *, environments: int = 3
) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    async with asyncio.TaskGroup() as group:
        for worker in range(min(environments, count)):
            group.create_task(_work(results, count, seed * 1000 + worker, tell, keep))
    return {"results": results}


async def _work(results: list[dict[str, Any]], count: int, seed: int, tell: Tell, keep: Keep) -> None:
    dice = random.Random(seed)
    while _kills(results) < count:
        async with environment.serving(slots=dice.choice(SLOTS)) as made:
            await campaign.begin(made)
            problems: list[str] = []
            while not problems and _kills(results) < count:
                killer = Killer(made, dice, min(KILLS_A_STEP, count - _kills(results)))
                step = dice.choice([name for name in STEPS if steps.may_run(name, made)])
                problems = await killer.step(step)
                tell(f"{step}: {killer.killed}: {'; '.join(problems) or 'recovered'}")
                for line in environment.lines(made.current)[-8:] if problems else ():
                    tell(f"      {line}")
                results += [_result(step, call, n, problems, seed) for call, n in killer.killed.items()]
                keep({"results": results})


def _kills(results: list[dict[str, Any]]) -> int:
    return sum(row["injected"] for row in results)


def _result(step: str, call: str, times: int, problems: list[str], seed: int) -> dict[str, Any]:
    outcome = "; ".join(problems) or "recovered"
    return {
        "call": call,
        "kind": f"kill -9 during {step}",
        "step": step,
        "injected": times,
        "outcome": outcome,
        "seed": seed,
    }


class Killer:
    def __init__(self, made: FaultEnvironment, dice: random.Random, most: int) -> None:
        self._env = made
        self._dice = dice
        self._left = most
        self.killed: Counter[str] = Counter()

    async def step(self, name: str) -> list[str]:
        """Runs a step with kills; returns the problems after it."""
        self._env.restarts = False  # the process is started again here, with the next kill
        self._aim(self._env.current)
        restarting = asyncio.create_task(self._restart())
        try:
            await steps.STEPS[name](self._env, self._dice)
            await asyncio.sleep(1.0)
            problems = await self._env.converged(SETTLES_WITHIN_S, steady_s=2.0)
            if not problems and steps.may_run("grow", self._env):  # next to recent launches
                await steps.grow(self._env, self._dice)
                problems = await self._env.converged(SETTLES_WITHIN_S)
        finally:
            restarting.cancel()
            await asyncio.gather(restarting, return_exceptions=True)
            self._env.restarts = True
        for proxy in self._env.current.proxies:
            proxy.hook = _pass
        return [*problems, *self._env.broken_rules()]

    def _aim(self, process: Process) -> None:
        """Chooses one of the next writes, and kills the process right before or right after its effect."""
        if self._left <= 0:
            return
        left, phase = self._dice.randint(1, LATEST_WRITE), self._dice.choice(("before", "after"))

        async def hook(call: Call, now: str) -> bool:
            nonlocal left
            if now != phase or not call.is_write or call.name.endswith(_NOT_COUNTED):
                return True
            left -= 1
            if left:
                return True  # also after the kill: requests already sent arrive
            process.signal(signal.SIGKILL)
            self._left -= 1
            self.killed[f"{phase} {call}"] += 1
            return False

        process.kube.hook = process.aws.hook = hook

    async def _restart(self) -> None:
        while True:
            process = self._env.current
            if process.replica is not None and not process.running.is_running:
                await process.running.ended()
                await asyncio.sleep(IN_FLIGHT_S)
                process.kube.hook = process.aws.hook = _drop
                await self._env.replace_lease()
                following = await self._env.prepare()
                self._aim(following)
                await following.start()
            await asyncio.sleep(0.05)


async def _drop(_call: Call, _phase: str) -> bool:
    return False


async def _pass(_call: Call, _phase: str) -> bool:
    return True
