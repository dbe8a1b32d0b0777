"""Stale or wrong information: a pod watch that is open and silent, clocks that are off.

Used by `scripts/run_faults.py` and tests.
"""

import asyncio
import random
from typing import Any, Final

from faults import calls, campaign, environment, steps
from faults.calls import Call
from faults.campaign import Keep, Tell
from faults.damage import Kind
from faults.environment import FaultEnvironment
from faults.proxy import Injection

HOUR_S: Final = 3600
SETTLES_WITHIN_S: Final = 240.0
STALE_S: Final = 45.0  # long enough for the node to be consolidated
_PODS: Final = Call(calls.KUBERNETES, "watch pods")


async def run_stale(
    count: int, seed: int, tell: Tell = lambda _: None, keep: Keep = lambda _: None
) -> dict[str, Any]:
    """Pods are bound to nodes that look empty to the controller, since its pod watch is open and silent."""
    dice, results = random.Random(seed), []
    for _ in range(count):
        async with environment.serving() as made:
            await campaign.begin(made)
            problems = await _stale(made, dice)
        results.append(_result("watch pods", "pod watch silent while a pod is bound", problems, seed))
        tell(str(results[-1]))
        keep({"results": results})
    return {"results": results}


async def _stale(made: FaultEnvironment, dice: random.Random) -> list[str]:
    await made.scale(steps.APP, steps.MIN_REPLICAS + 1)
    problems = await made.converged(SETTLES_WITHIN_S)
    await made.scale(steps.APP, steps.MIN_REPLICAS)
    await asyncio.sleep(dice.uniform(0.8, 1.6))  # the controller observes that a node is empty
    made.current.kube.arm(Injection(Kind.SILENT, _PODS, 1, dice))
    await made.scale(steps.APP, steps.MIN_REPLICAS + 1)
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + STALE_S
    while loop.time() < ends_s and not made.broken_rules():
        await made.clock.sleep(0.2)
    made.current.kube.injections = []
    problems += await made.converged(SETTLES_WITHIN_S)
    return [*problems, *made.broken_rules()]


async def run_clocks(
    count: int, seed: int, tell: Tell = lambda _: None, keep: Keep = lambda _: None, *, first: int = 0
) -> dict[str, Any]:
    """The Date header of one endpoint is off by an hour: exactly as many instances are launched as are needed."""
    dice, results = random.Random(seed), []
    cases = [(endpoint, off_s) for off_s in (HOUR_S, -HOUR_S) for endpoint in (calls.AWS, calls.KUBERNETES)]
    for number in range(first, first + count):
        endpoint, off_s = cases[number % len(cases)]
        async with environment.serving() as made:
            problems = await _clocks(made, endpoint, off_s, dice)
        results.append(_result(endpoint, f"Date header off by {off_s:+d} s", problems, seed))
        tell(str(results[-1]))
        keep({"results": results})
    return {"results": results}


async def _clocks(made: FaultEnvironment, endpoint: str, off_s: int, dice: random.Random) -> list[str]:
    await made.set_up()
    await made.app(steps.APP, steps.MIN_REPLICAS)
    process = await made.prepare()
    proxy = process.aws if endpoint == calls.AWS else process.kube
    proxy.date_off_s = off_s
    await process.start()
    problems = await made.converged(SETTLES_WITHIN_S)
    for date_off_s in (off_s, 0, off_s):  # the offset stays, ends, and returns
        if problems:
            break
        proxy.date_off_s = date_off_s
        await steps.grow(made, dice)
        problems = await made.converged(SETTLES_WITHIN_S, steady_s=8.0)
    needed = made.judge.wanted[steps.APP]
    if len(made.judge.launched) != needed:
        problems.append(f"{len(made.judge.launched)} instances were launched for {needed} pods")
    return [*problems, *made.broken_rules()]


def _result(call: str, kind: str, problems: list[str], seed: int) -> dict[str, Any]:
    outcome = "; ".join(problems) or "recovered"
    return {"call": call, "kind": kind, "step": "grow", "injected": 1, "outcome": outcome, "seed": seed}
