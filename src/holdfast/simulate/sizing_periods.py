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
from collections import Counter
from collections.abc import Mapping, Sequence
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
    factor = 1 + len(gains) * sum(slots for steps in gains for slots, _ in steps)
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
    length already; it ends there, or goes on for another hour. Potentials of the nodes keep the
    reduced costs at 0 or above.
    """

    def __init__(self, hours: _Hours, slots: list[int], shortest: int, matches: _Matches) -> None:
        self._hours = hours
        self._slots = list(slots)
        self._shortest = shortest
        self._last = len(slots)
        self._offset = self._last + 1
        self._starts, self._ends = matches.starts, matches.ends
        self._flow: dict[tuple[int, int], int] = {}  # of the arcs of periods
        self._potentials = [0] * (2 * self._offset)
        for begins, ends, number in matches.periods:
            nodes = [begins, *range(begins + shortest + self._offset, ends + self._offset + 1), ends]
            for arc in pairwise(nodes):
                self._flow[arc] = self._flow.get(arc, 0) + number

    def solve(self) -> list[int]:
        """The number of slots by hour. Each round leaves fewer starts and ends, or uses up a gain of an hour."""
        while self._starts:
            tree = self._tree()
            pushed: Counter[tuple[int, int]] = Counter()
            for end in sorted(self._ends):
                self._push(_path(tree, end), pushed)
        return self._slots

    def _arcs(self, node: int) -> list[tuple[int, int, int]]:
        """The residual arcs. The reverse of a period's arc has the flow as its limit."""
        arcs = []
        if node < self._offset:
            if node < self._last and self._slots[node]:
                gain, limit = self._hours.last(node, self._slots[node])
                arcs.append((node + 1, gain, limit))
            if node:
                gain, limit = self._hours.next(node - 1, self._slots[node - 1])
                arcs.append((node - 1, -gain, limit))
            if node + self._shortest <= self._last:
                arcs.append((node + self._shortest + self._offset, 0, _UNLIMITED))
            reversible = [node + self._offset]
        else:
            arcs.append((node - self._offset, 0, _UNLIMITED))
            if node - self._offset < self._last:
                arcs.append((node + 1, 0, _UNLIMITED))
            reversible = [node - 1, node - self._offset - self._shortest]
        arcs += [(to, 0, self._flow[to, node]) for to in reversible if self._flow.get((to, node))]
        return arcs

    def _tree(self) -> dict[int, tuple[int, int]]:
        """The cheapest paths from the starts, by Dijkstra: for each node the one before it, and the limit of the arc
        between them. Updates the potentials; then each arc of the tree has the reduced cost 0."""
        potentials = self._potentials
        highest = max(potentials[start] for start in self._starts)
        distances = {start: highest - potentials[start] for start in self._starts}
        tree: dict[int, tuple[int, int]] = {}
        final: dict[int, int] = {}
        queue = [(distance, start) for start, distance in distances.items()]
        heapq.heapify(queue)
        while queue:
            distance, node = heapq.heappop(queue)
            if node in final:
                continue
            final[node] = distance
            for to, cost, limit in self._arcs(node):
                reduced = distance + cost + potentials[node] - potentials[to]
                if to not in final and (to not in distances or reduced < distances[to]):
                    distances[to] = reduced
                    tree[to] = node, limit
                    heapq.heappush(queue, (reduced, to))
        farthest = max(final.values())
        for node in range(len(potentials)):
            potentials[node] += final.get(node, farthest)
        return tree

    def _push(self, path: list[tuple[int, int, int]], pushed: Counter[tuple[int, int]]) -> None:
        """Moves as many units along a path as it can take, next to those that were pushed over the same tree."""
        start, end = path[0][0], path[-1][1]
        limits = (limit - pushed[node, to] for node, to, limit in path)
        units = min(self._starts.get(start, 0), self._ends[end], *limits)
        if not units:
            return
        for node, to, _ in path:
            pushed[node, to] += units
            self._add(node, to, units)
        for nodes, node in ((self._starts, start), (self._ends, end)):
            nodes[node] -= units
            if not nodes[node]:
                del nodes[node]

    def _add(self, node: int, to: int, units: int) -> None:
        if node < self._offset and to == node + 1:
            self._slots[node] -= units
        elif node < self._offset and to == node - 1:
            self._slots[to] += units
        elif self._flow.get((to, node)):
            self._flow[to, node] -= units
        else:
            self._flow[node, to] = self._flow.get((node, to), 0) + units


def _path(tree: Mapping[int, tuple[int, int]], end: int) -> list[tuple[int, int, int]]:
    """The arcs to a node, with their limits."""
    path = []
    while end in tree:
        node, limit = tree[end]
        path.append((node, end, limit))
        end = node
    return path[::-1]
