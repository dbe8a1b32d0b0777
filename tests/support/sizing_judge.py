"""An independent judge of the sizing: what slots save, second by second, and the best set of periods.

It shares no code with `holdfast.simulate`. `best_by_enumeration` tries everything and is for some hours. `upper_bound`
is the linear program of the same question and is for a week.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, hstack

HOUR_S = 3600
Changes = Sequence[tuple[int, int]]
Window = tuple[int, int]  # hours


@dataclass(frozen=True)
class Question:
    """Prices are in USD an hour, as text."""

    changes: Changes
    begins: int
    hours: int
    on_demand: str
    slot: str
    shortest: int = 1  # hours

    def running(self) -> npt.NDArray[np.int64]:
        """The number of instances in each second, a row for each hour."""
        seconds = np.zeros(self.hours * HOUR_S, dtype=np.int64)
        for at, number in self.changes:
            seconds[max(0, at - self.begins) :] = number
        return seconds.reshape(self.hours, HOUR_S)

    def windows(self) -> list[Window]:
        return [(a, b) for a in range(self.hours) for b in range(a + self.shortest, self.hours + 1)]

    def saving(self, slots: Sequence[int]) -> Fraction:
        """What so many slots in each hour save, minus what they cost."""
        used_s = int(np.minimum(self.running(), np.array(slots, dtype=np.int64)[:, None]).sum())
        cost = Fraction(self.slot) * sum(slots)
        return Fraction(self.on_demand) * used_s / HOUR_S - cost


def hourly_savings(question: Question, most: int) -> list[list[Fraction]]:
    """For each hour: what 0, 1, ... slots save."""
    table = []
    for row in question.running():
        used = [int(np.minimum(row, slots).sum()) for slots in range(most + 1)]
        table.append(
            [
                Fraction(question.on_demand) * used_s / HOUR_S - Fraction(question.slot) * slots
                for slots, used_s in enumerate(used)
            ]
        )
    return table


def best_by_enumeration(question: Question) -> tuple[Fraction, int]:
    """The highest saving of any set of windows, and the fewest slot-hours that reach it.

    Goes through the hours with all states: how long each reserved slot is reserved already. Before each hour, any number
    of slots that are reserved long enough end, and any number begins, up to one slot more than instances.
    """
    most = int(question.running().max(initial=0)) + 1
    states: dict[tuple[int, ...], tuple[Fraction, int]] = {(): (Fraction(0), 0)}
    for of_hour in hourly_savings(question, most):
        following: dict[tuple[int, ...], tuple[Fraction, int]] = {}
        for ages, (saving, slot_hours) in states.items():
            for kept in _kept(ages, question.shortest):
                for new in range(most - len(kept) + 1):
                    slots = len(kept) + new
                    state = (*(min(age + 1, question.shortest) for age in kept), *(1,) * new)
                    value = saving + of_hour[slots], slot_hours - slots
                    following[state] = max(value, following.get(state, value))
        states = following
    saving, fewest = max(value for ages, value in states.items() if () in _kept(ages, question.shortest))
    return saving, -fewest


def _kept(ages: tuple[int, ...], shortest: int) -> list[tuple[int, ...]]:
    """What is left of these slots, from the oldest to the youngest, if some of them end."""
    can_end = sum(age >= shortest for age in ages)
    return [ages[ended:] for ended in range(can_end + 1)]


def best_single(question: Question) -> tuple[Fraction, int, Window, int]:
    """The best of all (begin, end, slots): its saving, slot-hours as a negative number, window and slots."""
    most = int(question.running().max(initial=0)) + 1
    table = hourly_savings(question, most)
    candidates = []
    for slots in range(1, most + 1):
        sums = [Fraction(0)]
        for of_hour in table:
            sums.append(sums[-1] + of_hour[slots])
        candidates += [(sums[b] - sums[a], -slots * (b - a), (a, b), slots) for a, b in question.windows()]
    return max(candidates)


def upper_bound(question: Question) -> float:
    """No set of windows saves more: HiGHS may reserve parts of slots, too."""
    most = int(question.running().max(initial=0))
    table = hourly_savings(question, most)
    windows = question.windows()
    gains = [float(of_hour[k + 1] - of_hour[k]) for of_hour in table for k in range(most)]
    cells = [(hour, column) for column, (a, b) in enumerate(windows) for hour in range(a, b)]
    rows, columns = zip(*cells, strict=True)
    cover = csr_array((np.ones(len(cells)), (rows, columns)), shape=(question.hours, len(windows)))
    used = csr_array(np.kron(np.eye(question.hours), np.ones(most)))
    idle = csr_array(np.eye(question.hours))
    answer = milp(
        c=-np.concatenate([np.zeros(len(windows)), gains, np.full(question.hours, -float(question.slot))]),
        constraints=LinearConstraint(hstack([cover, -used, -idle]), 0, 0),
        bounds=Bounds(
            0,
            np.concatenate(
                [np.full(len(windows), np.inf), np.ones(len(gains)), np.full(question.hours, np.inf)]
            ),
        ),
    )
    assert answer.success, answer.message
    return -float(answer.fun)
