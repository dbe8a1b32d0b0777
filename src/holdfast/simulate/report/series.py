"""Values over time, made as short as a chart can show, and the steps of axes.

Called by `plots`, `charts` and `lanes`.
"""

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

POINTS_MAX: Final = 400  # of a chart: about one for every two pixels of a wide screen
_STEPS_S: Final = (
    *(60, 300, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600),
    *(86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400),
)
DAY_S: Final = 86_400
_ROUND_S: Final = (*(60, 120, 300, 600, 900, 1200, 1800), *_STEPS_S[4:])
_MONDAY_S: Final = 4 * DAY_S  # 1970-01-05
_TICKS_MAX: Final = 8
_VALUE_STEPS_MAX: Final = 4
_LARGEST_MIN: Final = 0.04  # lines of an axis are a cent apart at least


class Summary(enum.Enum):
    MEAN = "mean"  # an area keeps its size
    LARGEST = "largest"  # a short peak stays visible


@dataclass(frozen=True, slots=True)
class Span:
    """The time of a chart."""

    begins: int
    ends: int

    def share(self, at: float) -> float:
        """0 at the beginning, 1 at the end."""
        return min(1.0, max(0.0, (at - self.begins) / max(1, self.ends - self.begins)))


@dataclass(frozen=True, slots=True)
class Series:
    """Values from `begins` on, each for `step` seconds."""

    begins: int
    step: int
    values: tuple[float, ...]

    def shortened(self, most: int, how: Summary) -> "Series":
        """At most so many values; each summarizes equally many."""
        size = self._size(math.ceil(len(self.values) / most))
        if size <= 1:
            return self
        groups = (self.values[at : at + size] for at in range(0, len(self.values), size))
        values = (sum(one) / len(one) if how is Summary.MEAN else max(one) for one in groups)
        return Series(self.begins, self.step * size, tuple(values))

    def _size(self, least: int) -> int:
        """How many values become one: at least so many, and a round length of time if there is one."""
        if least <= 1:
            return least
        shortest = least * self.step
        fitting = (one for one in _ROUND_S if shortest <= one <= 2 * shortest and one % self.step == 0)
        return next(fitting, shortest) // self.step

    def at(self, position: int) -> int:
        return self.begins + position * self.step


def top(largest: float) -> tuple[float, float]:
    """The end of an axis from 0 that shows the value, and the distance of its lines: 1, 2 or 5 times a power of ten."""
    if largest <= 0:
        return 1.0, 1.0
    largest = max(largest, _LARGEST_MIN)
    power = 10.0 ** math.floor(math.log10(largest / _VALUE_STEPS_MAX))
    steps = (1 * power, 2 * power, 5 * power, 10 * power, 20 * power)
    step = next(one for one in steps if largest / one <= _VALUE_STEPS_MAX)
    return math.ceil(largest / step - 1e-9) * step, step


def count_top(largest: float) -> tuple[float, float]:
    """As `top`, for whole numbers."""
    end, step = top(largest)
    return (end, step) if step >= 1 else (float(math.ceil(largest)), 1.0)


def time_steps(span: Span) -> tuple[Sequence[int], int]:
    """The times at which an axis has a label, and their distance. Weeks start on Monday."""
    length = span.ends - span.begins
    step = next((one for one in _STEPS_S if length / one <= _TICKS_MAX), 0)
    if not step:
        step = math.ceil(length / _TICKS_MAX / DAY_S) * DAY_S
    offset = _MONDAY_S if step % (7 * DAY_S) == 0 else 0
    first = math.ceil((span.begins - offset) / step) * step + offset
    return range(first, span.ends + 1, step), step


def areas(layers: Sequence[Sequence[float]]) -> Iterator[tuple[float, ...]]:
    """The upper edge of each layer when they are stacked."""
    edge = [0.0] * len(layers[0]) if layers else []
    for layer in layers:
        edge = [below + max(0.0, value) for below, value in zip(edge, layer, strict=True)]
        yield tuple(edge)
