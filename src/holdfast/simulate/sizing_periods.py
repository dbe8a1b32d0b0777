"""The periods for which slots of one instance type in one zone pay for themselves: the best ones, exactly.

`sizing` calls it. Each hour has a gain for every further slot, in integers, that never rises from slot to slot. A period
has at least `shortest` hours. Of all sets of periods, `best` returns one with the highest sum of gains and, among those,
the fewest slot-hours. So each period of the result gains more than 0, also if all the others are reserved.

Without a shortest time, an hour has a slot if the slot gains in this hour. If that leaves periods that are too short, the
rest is a flow of minimum cost: the boundaries of hours are the nodes; a slot in an hour is a unit that flows back over
this hour, at the cost of the hour; a period is a unit that flows forward over at least `shortest` hours, for free. What
flows back has to flow forward again. Successive shortest paths give the optimum, in integers, because the matrix of
periods and hours is totally unimodular.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

_UNLIMITED: Final = 2**62

Gains = tuple[tuple[int, int], ...]
"""Of one hour: how many slots gain how much each, the highest gain first."""


class Period(NamedTuple):
    begins: int  # hour
    ends: int  # the hour after the last
    slots: int


class _Hours:
    """What one more slot gains in an hour, or one less."""

    def __init__(self, gains: Sequence[Gains], idle: int) -> None:
        self._bounds = [list(accumulate(slots for slots, _ in steps)) for steps in gains]
        self._gains = [[*(gain for _, gain in steps), idle] for steps in gains]

    def paying(self) -> list[int]:
        """How many slots gain in each hour."""
        slots = []
        for bounds, gains in zip(self._bounds, self._gains, strict=True):
            steps = sum(gain > 0 for gain in gains[:-1])
            slots.append(bounds[steps - 1] if steps else 0)
        return slots

    def next(self, hour: int, slots: int) -> tuple[int, int]:
        """The gain of one slot more, and how many slots have this gain."""
        bounds = self._bounds[hour]
        step = bisect_right(bounds, slots)
        return self._gains[hour][step], bounds[step] - slots if step < len(bounds) else _UNLIMITED

    def last(self, hour: int, slots: int) -> tuple[int, int]:
        """The gain of the last of these slots, and how many of them have it."""
        bounds = self._bounds[hour]
        step = bisect_left(bounds, slots)
        return self._gains[hour][step], slots - (bounds[step - 1] if step else 0)


@dataclass
class _Matches:
    """Starts and ends of slots that are a period together, and those that are left."""

    periods: list[Period] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)  # slots by hour
    ends: dict[int, int] = field(default_factory=dict)


def best(gains: Sequence[Gains], idle: int, shortest: int) -> list[Period]:
    """The best periods, sorted by begin, the longer first. `idle` is the gain of an unused slot in an hour, at most 0."""
    assert idle <= 0
    assert shortest > 0
    hours = _Hours(*_fewest_slot_hours(gains, idle))
    slots = hours.paying()
    matches = _matched(slots, shortest)
    if matches.starts:
        slots = _Flow(hours, slots, shortest, matches).solve()
        matches = _matched(slots, shortest)
    assert not matches.starts
    assert not matches.ends
    return _merged(matches.periods)


def marginal(periods: Sequence[Period], gains: Sequence[Gains], idle: int) -> list[list[int]]:
    """What each slot of each period gains after those before it, and, as the last value, what one more slot of the
    period would gain next to all periods."""
    reserved = [0] * len(gains)
    values = []
    for period in periods:
        values.append(_further(period, period.slots, gains, idle, reserved))
        for hour in range(period.begins, period.ends):
            reserved[hour] += period.slots
    for period, of_slots in zip(periods, values, strict=True):
        of_slots.extend(_further(period, 1, gains, idle, reserved))
    return values


def _further(
    period: Period, number: int, gains: Sequence[Gains], idle: int, reserved: Sequence[int]
) -> list[int]:
    """What so many further slots gain, one after the other, next to those that are reserved in each hour."""
    changes = [idle * (period.ends - period.begins), *(0 for _ in range(number))]
    for hour in range(period.begins, period.ends):
        first = -reserved[hour]  # of the further slots
        for slots, gain in gains[hour]:
            if first >= number:
                break
            if first + slots > 0:
                changes[max(0, first)] += gain - idle
                changes[min(number, first + slots)] -= gain - idle
            first += slots
    return list(accumulate(changes[:-1]))


def _fewest_slot_hours(gains: Sequence[Gains], idle: int) -> tuple[list[Gains], int]:
    """The same gains, with slot-hours as the second criterion: a slot-hour costs one unit, and all of them together cost
    less than the smallest difference of gains."""
    most = max((sum(slots for slots, _ in steps) for steps in gains), default=0)
    factor = 1 + len(gains) * most  # the best periods have at most so many slots in an hour
    weighted = [tuple((slots, gain * factor - 1) for slots, gain in steps) for steps in gains]
    return weighted, idle * factor - 1


def _matched(slots: Sequence[int], shortest: int) -> _Matches:
    """Each end with the latest start that is early enough. Whatever start an end takes, later ends can take the other
    ones. So an end is left only if all choices leave one."""
    matches = _Matches()
    open_hours: list[int] = []  # of starts without an end
    before = 0
    for hour, now in enumerate((*slots, 0)):
        ends = before - now
        eligible = bisect_right(open_hours, hour - shortest)
        while ends > 0 and eligible:
            start = open_hours[eligible - 1]
            taken = min(ends, matches.starts[start])
            matches.periods.append(Period(start, hour, taken))
            ends -= taken
            matches.starts[start] -= taken
            if not matches.starts[start]:
                eligible -= 1
                del matches.starts[start], open_hours[eligible]
        if ends > 0:
            matches.ends[hour] = ends
        elif now > before:
            open_hours.append(hour)
            matches.starts[hour] = now - before
        before = now
    return matches


def _merged(periods: list[Period]) -> list[Period]:
    slots: dict[tuple[int, int], int] = {}
    for begins, ends, number in periods:
        slots[begins, ends] = slots.get((begins, ends), 0) + number
    ordered = sorted(slots, key=lambda period: (period[0], -period[1]))
    return [Period(begins, ends, slots[begins, ends]) for begins, ends in ordered]


class _Flow:
    """Successive shortest paths, from starts that are left to ends that are left.

    Node `t` is the boundary before hour `t`. Node `t + offset` is the same boundary for a period that has its shortest
    length already; it ends there, or goes on for another hour. Potentials of the nodes keep the reduced costs at 0 or
    above, so Dijkstra's search finds the paths.
    """

    def __init__(self, hours: _Hours, slots: list[int], shortest: int, matches: _Matches) -> None:
        self._hours = hours
        self._slots = slots
        self._starts, self._ends = matches.starts, matches.ends
        self._offset = offset = len(slots) + 1
        self._potentials = [0] * (2 * offset)
        self._arcs: list[dict[int, tuple[int, int]]]  # by node: the next node, the cost and the limit
        self._arcs = [{} for _ in self._potentials]
        for node in range(offset):
            if node + shortest < offset:
                self._arcs[node][node + shortest + offset] = 0, _UNLIMITED
            if node + 1 < offset:
                self._arcs[node + offset][node + offset + 1] = 0, _UNLIMITED
                self._set_hour(node)
            self._arcs[node + offset][node] = 0, _UNLIMITED
        for begins, ends, number in matches.periods:
            nodes = [begins, *range(begins + shortest + offset, ends + offset + 1), ends]
            for node, to in pairwise(nodes):
                self._move(node, to, number)

    def solve(self) -> list[int]:
        """The number of slots by hour. Each path uses up starts, ends, or slots with the same gain."""
        for start, number in self._starts.items():
            left = number
            while left:
                path = self._path(start)
                end = path[-1][1]
                units = min(left, self._ends[end], *(self._arcs[node][to][1] for node, to in path))
                for node, to in path:
                    self._move(node, to, units)
                left -= units
                self._ends[end] -= units
        return self._slots

    def _set_hour(self, hour: int) -> None:
        gain, limit = self._hours.next(hour, self._slots[hour])
        self._arcs[hour + 1][hour] = -gain, limit
        if self._slots[hour]:
            self._arcs[hour][hour + 1] = self._hours.last(hour, self._slots[hour])
        else:
            self._arcs[hour].pop(hour + 1, None)

    def _move(self, node: int, to: int, units: int) -> None:
        """Adds units to the flow of an arc."""
        if max(node, to) < self._offset:
            hour = min(node, to)
            self._slots[hour] += units if to < node else -units
            self._set_hour(hour)
        elif self._arcs[node][to][1] == _UNLIMITED:  # of a period
            self._arcs[to][node] = 0, self._arcs[to].get(node, (0, 0))[1] + units
        elif self._arcs[node][to][1] > units:  # the reverse of one
            self._arcs[node][to] = 0, self._arcs[node][to][1] - units
        else:
            del self._arcs[node][to]

    def _path(self, start: int) -> list[tuple[int, int]]:
        """The arcs of the cheapest path from a start to the nearest end; updates the potentials."""
        potentials = self._potentials
        distances = {start: 0}
        before: dict[int, int] = {}
        final: dict[int, int] = {}
        queue = [(0, start)]
        end = None
        while end is None:
            assert queue, "a path can always give up the slots of the start, hour by hour"
            distance, node = heapq.heappop(queue)
            if node in final:
                continue
            final[node] = distance
            if self._ends.get(node):
                end = node
            base = distance + potentials[node]
            for to, (cost, _) in self._arcs[node].items():
                reduced = base + cost - potentials[to]
                if to not in final and (to not in distances or reduced < distances[to]):
                    distances[to] = reduced
                    before[to] = node
                    heapq.heappush(queue, (reduced, to))
        for node, distance in final.items():
            potentials[node] += distance - final[end]
        path = []
        while end != start:
            path.append((before[end], end))
            end = before[end]
        return path[::-1]
