"""Every fault on every call: finds the calls in a run without faults, then injects faults and checks that the sandbox recovers.

Used by `scripts/run_faults.py` and by the tests. A *round* arms a few faults of different calls, runs one step, waits until
each fault was injected, removes them, adds a pod, and waits until everything is settled. A round that fails is repeated with
one fault at a time in a new sandbox, which shows the fault that causes it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from faults import calls, damage, environment, steps
from faults.calls import Call
from faults.damage import Kind
from faults.environment import FaultEnvironment
from faults.proxy import Injection

BATCH: Final = 3
BATCH_OF_SLOW_STEPS: Final = 6
INJECTED_WITHIN_S: Final = 12.0
LEADS_WITHIN_S: Final = 90.0  # after a restart
LONG_POLL_S: Final = 25.0
SETTLES_WITHIN_S: Final = 150.0
SLOW_SETTLES_WITHIN_S: Final = 420.0  # after a slow fault
TRIES: Final = 3
IDLE_MAX: Final = 20  # after so many steps, no step makes the calls of the faults that are left

Pair = tuple[Call, Kind]
StepCalls = dict[str, frozenset[Call]]  # the calls that each step makes
Tell = Callable[[str], None]
Keep = Callable[[dict[str, Any]], None]  # takes all results so far


@dataclass
class Result:
    """One fault of one call: how often it was injected, and the outcome."""

    endpoint: str
    call: str
    kind: str
    step: str
    injected: int
    outcome: str  # "recovered", "not met", or what went wrong
    seconds: float
    seed: int

    @property
    def is_failure(self) -> bool:
        return self.outcome not in ("recovered", "not met")


@dataclass
class Round:
    step: str
    pairs: list[Pair]
    alone: bool = False  # repeated, to find the fault of a round that failed


@dataclass
class Outcome:
    results: list[Result] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    failed_rounds: list[dict[str, Any]] = field(default_factory=list)
    left: int = 0  # faults that were not injected in the time

    def plain(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "left": self.left,
            "results": [asdict(result) for result in self.results],
            "failed_rounds": self.failed_rounds,
        }


# --- The calls ------------------------------------------------------------------------------------------


async def discover(
    tell: Tell = lambda _: None, step_names: Iterable[str] = steps.CLEAN_RUN_STEPS
) -> StepCalls:
    """The calls of each step, from a run without faults."""
    found: dict[str, set[Call]] = {}
    async with environment.serving() as made:
        await begin(made)
        found["restart"] = set(made.current.call_counts)
        dice = random.Random(0)
        for name in step_names:
            process, before = made.current, Counter(made.current.call_counts)
            await steps.STEPS[name](made, dice)
            await asyncio.sleep(1.0)
            problems = [*await made.converged(SETTLES_WITHIN_S), *made.broken_rules()]
            assert not problems, f"without any fault, {name} does not settle: {problems}"
            made_calls = made.current.call_counts - (before if process is made.current else Counter())
            found.setdefault(name, set()).update(made_calls)
            tell(f"clean {name}: {len(made_calls)} calls")
    return {name: frozenset(made_calls) for name, made_calls in found.items()}


async def begin(made: FaultEnvironment) -> None:
    await made.set_up()
    await made.app(steps.APP, steps.MIN_REPLICAS)
    await made.start_process()
    problems = await made.converged(SETTLES_WITHIN_S)
    assert not problems, f"the environment does not come up: {problems}"


def pairs(step_calls: StepCalls, kinds: Iterable[Kind] = tuple(Kind)) -> list[Pair]:
    every = sorted(frozenset[Call]().union(*step_calls.values()))
    return [(call, kind) for call in every for kind in kinds if damage.applies(kind, to_watch=call.is_watch)]


def sample(every: list[Pair], count: int, seed: int) -> list[Pair]:
    return random.Random(seed).sample(every, min(count, len(every)))


# --- Rounds ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Campaign:
    step_calls: StepCalls
    seed: int
    time_s: float  # from the moment on that the first sandbox is up
    tell: Tell = lambda _: None
    keep: Keep = lambda _: None
    outcome: Outcome = field(default_factory=Outcome)
    todo: list[Pair] = field(default_factory=list)
    suspects: list[Round] = field(default_factory=list)
    _ends_s: float = float("inf")  # on the loop's clock
    _tries: Counter[Pair] = field(default_factory=Counter)
    _idle: int = 0  # steps in a row that were run for no fault
    _number: int = 0

    def begin(self, chosen: list[Pair]) -> None:
        self.todo = list(chosen)
        random.Random(self.seed).shuffle(self.todo)
        self.outcome.calls = sorted({f"{call.endpoint} {call}" for call, _ in chosen})

    @property
    def is_over(self) -> bool:
        done = not self.todo and not self.suspects
        return done or asyncio.get_running_loop().time() >= self._ends_s

    async def work(self, worker: int) -> None:
        """Runs rounds in sandboxes of its own, until nothing is left or the time is over."""
        slots = environment.MANY_SLOTS if worker % 2 else environment.SLOTS
        while not self.is_over:
            async with environment.serving(slots=slots) as made:
                await begin(made)
                self._ends_s = min(self._ends_s, asyncio.get_running_loop().time() + self.time_s)
                healthy = True
                while healthy and not self.is_over:
                    healthy = await self._next(made, worker)

    async def _next(self, made: FaultEnvironment, worker: int) -> bool:
        self._number += 1
        dice = random.Random(self.seed * 1_000_003 + self._number)
        chosen = self._suspect(made) or self._choose(made, dice)
        if chosen is None:
            self.todo = []
            return True
        began_s = asyncio.get_running_loop().time()
        armed, problems = await run_round(made, chosen, dice)
        took_s = asyncio.get_running_loop().time() - began_s
        self._record(chosen, armed, problems, took_s)
        self.keep(self.outcome.plain())
        text = ", ".join(f"{one.call}: {one.kind} x{one.hits}" for one in armed)
        self.tell(f"[{worker}] {chosen.step} {took_s:.1f} s, {text}: {'; '.join(problems) or 'recovered'}")
        for line in environment.lines(made.current)[-6:] if problems else ():
            self.tell(f"      {line}")
        return not problems

    def _suspect(self, made: FaultEnvironment) -> Round | None:
        for number, one in enumerate(self.suspects):
            if steps.may_run(one.step, made):
                return self.suspects.pop(number)
        return None

    def _choose(self, made: FaultEnvironment, dice: random.Random) -> Round | None:
        """A step that makes calls of faults that are left, and some of those faults."""
        names = [name for name in steps.STEPS if steps.may_run(name, made)]
        met = {name: {pair for pair in self.todo if self._makes_call(name, pair[0])} for name in names}
        useful = [name for name in names if met[name]]
        if not useful:
            cleaning = [name for name in ("remove-class", "shrink") if name in names]
            self._idle += 1
            return Round(cleaning[0], []) if self.todo and cleaning and self._idle < IDLE_MAX else None
        self._idle = 0
        step = dice.choices(useful, [len(met[name]) / steps.COST[name] for name in useful])[0]
        cheaper = {pair for name in names if steps.COST[name] < steps.COST[step] for pair in met[name]}
        is_slow = any(kind in damage.SLOW for _, kind in sorted(met[step], key=self.todo.index)[:1])
        most = BATCH if step == "grow" and not is_slow else BATCH_OF_SLOW_STEPS
        batch: list[Pair] = []
        # Faults whose calls no cheaper step makes come first.
        for pair in sorted(self.todo, key=lambda one: one in cheaper):
            is_new = all(pair[0] != other for other, _ in batch)
            alike = (pair[1] in damage.SLOW) == is_slow
            if len(batch) < most and is_new and alike and pair in met[step]:
                batch.append(pair)
                self.todo.remove(pair)
        return Round(step, batch)

    def _makes_call(self, step: str, call: Call) -> bool:
        if call in self.step_calls.get(step, ()):
            return True
        # The client lists again when a watch has expired, and the proxy can expire a watch at any time.
        return step == "grow" and call.name.startswith("list ") and calls_watch(self.step_calls, call)

    def _record(self, chosen: Round, armed: list[Injection], problems: list[str], took_s: float) -> None:
        if problems:
            self.outcome.failed_rounds.append(
                {
                    "step": chosen.step,
                    "faults": [f"{one.call}: {one.kind} x{one.hits}" for one in armed],
                    "problems": problems,
                    "seed": self.seed,
                    "alone": chosen.alone,
                }
            )
            if not chosen.alone and len(armed) > 1:
                self.suspects += [
                    Round(chosen.step, [(one.call, one.kind)], alone=True) for one in armed if one.hits
                ]
                return
        for one in armed:
            pair = (one.call, one.kind)
            if not one.hits and not problems and self._tries[pair] + 1 < TRIES:
                self._tries[pair] += 1
                self.todo.append(pair)
                continue
            outcome = "; ".join(problems) if problems else "recovered" if one.hits else "not met"
            self.outcome.left -= 1
            self.outcome.results.append(
                Result(
                    one.call.endpoint, str(one.call), one.kind, chosen.step, one.hits, outcome,
                    round(took_s / max(1, len(armed)), 1), self.seed,
                )
            )  # fmt: skip


async def run_round(
    made: FaultEnvironment, chosen: Round, dice: random.Random
) -> tuple[list[Injection], list[str]]:
    """Runs one round; returns the armed faults and the problems after it."""
    armed = [environment.injection(kind, call, dice) for call, kind in chosen.pairs]
    for one in armed:
        made.current.proxy_of(one.call).arm(one)
    await steps.STEPS[chosen.step](made, dice)
    if chosen.step != "restart":
        for one in armed:
            if one.call.name.startswith("list "):
                await made.current.kube.expire(one.call.name.removeprefix("list "))
    await _until_injected(made, armed)
    for process in made.processes:
        for proxy in process.proxies:
            proxy.injections = []
    await asyncio.sleep(0.2)
    if steps.may_run("grow", made):
        await steps.grow(made, dice)
    is_slow = any(one.kind in damage.SLOW for one in armed)
    problems = await made.converged(SLOW_SETTLES_WITHIN_S if is_slow else SETTLES_WITHIN_S)
    problems += made.broken_rules()
    if problems:
        problems.append(made.judge.summary())
    return armed, problems


async def _until_injected(made: FaultEnvironment, armed: list[Injection]) -> None:
    loop = asyncio.get_running_loop()
    wait_s = LONG_POLL_S if any(steps.waits_long(one) for one in armed) else INJECTED_WITHIN_S
    leads_by_s = loop.time() + LEADS_WITHIN_S
    while loop.time() < leads_by_s and not made.current.has_logged("acquired lease"):
        await made.keep_running()
        await asyncio.sleep(0.1)
    ends_s = loop.time() + wait_s
    while loop.time() < ends_s and not all(one.hits for one in armed):
        await made.keep_running()
        await asyncio.sleep(0.1)
    last = {one: one.hits for one in armed}
    while loop.time() < ends_s and any(one.hits < one.times for one in armed):
        await made.keep_running()
        await asyncio.sleep(1.0)
        now = {one: one.hits for one in armed}
        if now == last:
            return
        last = now


def calls_watch(step_calls: StepCalls, call: Call) -> bool:
    watch = Call(calls.KUBERNETES, f"watch {call.name.removeprefix('list ')}")
    return any(watch in made for made in step_calls.values())


async def run(
    step_calls: StepCalls,
    chosen: list[Pair],
    *,
    seed: int,
    time_s: float,
    environments: int = 1,
    tell: Tell = lambda _: None,
    keep: Keep = lambda _: None,
) -> Outcome:
    """Injects as many of the faults as the time allows, in an order from the seed."""
    campaign = Campaign(step_calls, seed, time_s, tell, keep)
    campaign.begin(chosen)
    campaign.outcome.left = len(chosen)
    async with asyncio.TaskGroup() as group:
        for worker in range(environments):
            group.create_task(campaign.work(worker))
    return campaign.outcome
