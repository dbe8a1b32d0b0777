"""Runs studies in processes of their own, as many at a time as there are cores.

A process sends the simulated time and, at the end, its result. After SIGINT or SIGTERM each process ends at its next step,
with what it has simulated until then, and no other is started. A process that fails sends the error; the others go on.
"""

import contextlib
import gc
import logging
import multiprocessing
import multiprocessing.connection
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Final

import structlog

from holdfast import errors
from holdfast.api.simulation_results import SimulationResult
from holdfast.simulate.study import Study

_POLL_S: Final = 0.5
# Young and middle collections. Most objects of a simulation last, so each collection visits many of them and frees few.
# Unlike in `runtime.process` a long pause is harmless.
_GC_THRESHOLDS: Final = (100_000, 1_000, 100)


@dataclass(frozen=True, slots=True)
class Failure:
    text: str


Outcome = SimulationResult | Failure
Tell = Callable[[int, int], None]  # the number of the study, and its simulated time


class Studies:
    """Runs studies; `stop` ends them early."""

    def __init__(self, studies: Sequence[Study], at_once: int) -> None:
        self._waiting = list(enumerate(studies))
        self._at_once = at_once
        self._running: dict[Connection, tuple[int, BaseProcess]] = {}

    def stop(self) -> None:
        self._waiting = []
        for _, child in self._running.values():
            child.terminate()

    def run(self, tell: Tell) -> Iterator[tuple[int, Outcome]]:
        """The outcomes with the numbers of the studies, as they end."""
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < self._at_once:
                    self._start(*self._waiting.pop(0))
                for ready in multiprocessing.connection.wait(list(self._running), _POLL_S):
                    assert isinstance(ready, Connection)
                    number, child = self._running[ready]
                    found = _received(ready)
                    if isinstance(found, int):
                        tell(number, found)
                        continue
                    del self._running[ready]
                    child.join()
                    yield number, found
        finally:
            for _, child in self._running.values():
                child.kill()

    def _start(self, number: int, study: Study) -> None:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        child: BaseProcess = context.Process(target=_work, args=(study, sender), daemon=True)
        child.start()
        sender.close()
        self._running[receiver] = (number, child)


def _received(ready: Connection) -> int | Outcome:
    try:
        found: int | Outcome = ready.recv()
    except EOFError:
        return Failure("the process ended without a result")
    return found


def prepare() -> None:
    """The settings of a process that simulates: no log, few garbage collections."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.set_threshold(*_GC_THRESHOLDS)


def _work(study: Study, sender: Connection) -> None:
    """In the process of its own."""
    from holdfast.simulate import run as runs  # noqa: PLC0415 - slow to import

    stopped = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, stop)
    prepare()

    def goes(now_s: int) -> bool:
        try:
            sender.send(now_s)
        except BrokenPipeError:  # the parent process has ended
            return False
        return not stopped

    outcome: Outcome
    try:
        outcome = runs.simulate(study, goes)
    except errors.HoldfastError as error:
        outcome = Failure(str(error))
    except BaseExceptionGroup as group:
        known, others = group.split(errors.HoldfastError)
        if others is not None or known is None:
            raise
        outcome = Failure("; ".join(str(error) for error in _leaves(known)))
    with contextlib.suppress(BrokenPipeError):
        sender.send(outcome)


def _leaves(group: BaseExceptionGroup[errors.HoldfastError]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
