"""When workloads scale and when Jobs run. Pure: the same seed gives the same times.

Called by `workloads`. Times are seconds since the epoch; days are those of UTC.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from holdfast.api.simulation import DailyReplicas, JobRuns
from holdfast.sim.ids import SeededIds
from holdfast.state.conversion import times

DAY_S: Final = 86_400
_SATURDAY: Final = 5
_PERCENT: Final = 100


def scalings(written: DailyReplicas, begins_s: int, ends_s: int, seed: int) -> Iterator[tuple[int, int]]:
    """When a Deployment is scaled, and the number of its replicas from then on. Only changes."""
    dice = _dice(seed, "replicas", written.deployment)
    every_s = max(1, seconds(written.every))
    last: int | None = None
    for at_s in range(begins_s, ends_s, every_s):
        noise = _between(dice) * written.noise_percent / _PERCENT
        count = max(0, round(replicas(written, at_s) * (1 + noise)))
        if count != last:
            yield at_s, count
        last = count


def replicas(written: DailyReplicas, at_s: int) -> float:
    """The curve at a time, with the share of the weekend."""
    points = sorted((_minutes(point.at) * 60, point.replicas) for point in written.points)
    second = at_s % DAY_S
    before = max((point for point in points if point[0] <= second), default=None)
    after = min((point for point in points if point[0] > second), default=None)
    first, last = points[0], points[-1]
    start_s, low = before or (last[0] - DAY_S, last[1])
    end_s, high = after or (first[0] + DAY_S, first[1])
    found = low + (high - low) * (second - start_s) / (end_s - start_s)
    is_weekend = datetime.fromtimestamp(at_s, UTC).weekday() >= _SATURDAY
    return found * (written.weekend_percent / _PERCENT if is_weekend else 1)


def job_starts(written: JobRuns, begins_s: int, ends_s: int, seed: int) -> list[int]:
    """When the runs of a Job begin."""
    dice = _dice(seed, "job", written.job)
    found = [begins_s + seconds(after) for after in written.at]
    if written.every:
        every_s = max(1, seconds(written.every))
        first_s = found[-1] + every_s if found else begins_s
        found += range(first_s, ends_s, every_s)
    for day_s in range(begins_s, ends_s, DAY_S):
        found += [int(day_s + dice.jitter(DAY_S)) for _ in range(written.per_day)]
    return sorted(at_s for at_s in found if at_s < ends_s)


def run_lengths(written: JobRuns, seed: int) -> Iterator[int | None]:
    """How long the pods of each run take, without end; None: what their annotations say."""
    dice = _dice(seed, "length", written.job)
    while True:
        if written.runs is None:
            yield None
        else:
            factor = 1 + _between(dice) * written.runs_percent / _PERCENT
            yield max(1, round(seconds(written.runs) * factor))


def seconds(text: str) -> int:
    found = times.duration_s(text)
    assert found is not None, "the schema accepts durations only"
    return found


def _minutes(time_of_day: str) -> int:
    hours, minutes = time_of_day.split(":")
    return int(hours) * 60 + int(minutes)


def _dice(seed: int, *names: str) -> SeededIds:
    return SeededIds(f"{seed} {' '.join(names)}")


def _between(dice: SeededIds) -> float:
    """From -1 to 1."""
    return dice.jitter(2) - 1
