"""The optimal plan for a small case, by an integer program that HiGHS solves.

It shares nothing with the planner: nodes are bins, pods are put into bins, and the solver first maximizes the number of
pods, by descending priority, and then minimizes the cost: prices, and `NODE_COST` for each node that is not reserved.
Slots cost nothing.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from holdfast import names
from oracle.cases import APART, OVERHEAD_MILLIS, SHARE_NODE, SHARE_ZONE, ZONES, Case, Group, Pool

NODE_COST = 0.02  # USD an hour


@dataclass(frozen=True)
class Bin:
    """A node that could be launched."""

    pool: str
    type: str
    zone: str
    capacity_type: str
    allocatable_millis: int
    cost: float
    unit: tuple[str, int]  # the reservation and slot, or the number among equal nodes that are not reserved


@dataclass(frozen=True)
class Best:
    placed: tuple[int, ...]  # pods, from the highest priority to the lowest
    cost: float


@dataclass
class _Program:
    """Rows of a program over binary variables."""

    size: int
    rows: list[dict[int, float]]
    most: list[float]

    def variable(self) -> int:
        self.size += 1
        return self.size - 1

    def at_most(self, row: dict[int, float], most: float) -> None:
        self.rows.append(row)
        self.most.append(most)

    def best(self, costs: dict[int, float]) -> float:
        """The least cost."""
        matrix = np.zeros((len(self.rows), self.size))
        for i, row in enumerate(self.rows):
            for variable, factor in row.items():
                matrix[i, variable] += factor
        cost = np.zeros(self.size)
        for variable, factor in costs.items():
            cost[variable] = factor
        found = milp(
            cost,
            integrality=np.ones(self.size),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, ub=np.array(self.most)),
        )
        assert found.success, found.message
        return float(found.fun)


def best(case: Case) -> Best:
    bins, pods = _bins(case), [(g, i) for g, group in enumerate(case.groups) for i in range(group.count)]
    program = _Program(0, [], [])
    used = [program.variable() for _ in bins]
    into = {
        (pod, b): program.variable()
        for pod in pods
        for b, one in enumerate(bins)
        if _suits(case.groups[pod[0]], one)
    }
    _capacities(case, program, bins, pods, used, into)
    for g, group in enumerate(case.groups):
        _relate(program, group, bins, {key: v for key, v in into.items() if key[0][0] == g})
    placed: list[int] = []
    for priority in sorted({group.priority for group in case.groups}, reverse=True):
        those = [v for (pod, _), v in into.items() if case.groups[pod[0]].priority == priority]
        count = -program.best(dict.fromkeys(those, -1.0)) if those else 0.0
        placed.append(round(count))
        program.at_most(dict.fromkeys(those, -1.0), -round(count))
    cost = program.best({used[b]: one.cost for b, one in enumerate(bins)}) if bins else 0.0
    return Best(tuple(placed), cost)


def _bins(case: Case) -> list[Bin]:
    found = []
    pods = sum(group.count for group in case.groups)
    cpus = {t.name: t for t in case.types}
    for pool in case.pools:
        for name in pool.types:
            allocatable_millis = 1000 * cpus[name].cpu - OVERHEAD_MILLIS
            for zone in pool.zones:
                if names.ON_DEMAND in pool.capacity_types:
                    found += [
                        Bin(
                            pool.name,
                            name,
                            zone,
                            names.ON_DEMAND,
                            allocatable_millis,
                            cpus[name].price + NODE_COST,
                            ("", i),
                        )
                        for i in range(pods)
                    ]
                found += [
                    Bin(pool.name, name, zone, names.RESERVED, allocatable_millis, 0.0, (slots.id, i))
                    for slots in case.slots
                    if serves(pool, slots.type, slots.zone) and (slots.type, slots.zone) == (name, zone)
                    for i in range(slots.count)
                ]
    return found


def serves(pool: Pool, type_: str, zone: str) -> bool:
    return names.RESERVED in pool.capacity_types and type_ in pool.types and zone in pool.zones


def _suits(group: Group, one: Bin) -> bool:
    has = {
        names.ZONE: one.zone,
        names.CAPACITY_TYPE: one.capacity_type,
        names.NODEPOOL: one.pool,
        names.INSTANCE_TYPE: one.type,
    }
    return group.cpu_millis <= one.allocatable_millis and all(
        has[key] == value for key, value in group.selects
    )


def _capacities(
    case: Case,
    program: _Program,
    bins: list[Bin],
    pods: list[tuple[int, int]],
    used: list[int],
    into: dict[tuple[tuple[int, int], int], int],
) -> None:
    for pod in pods:
        program.at_most({into[pod, b]: 1.0 for b in range(len(bins)) if (pod, b) in into}, 1)
    for b, one in enumerate(bins):
        load = {into[pod, b]: float(case.groups[pod[0]].cpu_millis) for pod in pods if (pod, b) in into}
        program.at_most(load | {used[b]: -float(one.allocatable_millis)}, 0)
    units: dict[tuple[str, int], list[int]] = {}
    for b, one in enumerate(bins):
        if one.capacity_type == names.RESERVED:
            units.setdefault(one.unit, []).append(b)
    for same in units.values():  # a slot holds one node, of one NodePool
        program.at_most({used[b]: 1.0 for b in same}, 1)
    for b in range(1, len(bins)):  # equal nodes are used in order
        one, before = bins[b], bins[b - 1]
        if one.capacity_type == names.ON_DEMAND and one.unit[1] > 0 and before.unit[1] == one.unit[1] - 1:
            program.at_most({used[b]: 1.0, used[b - 1]: -1.0}, 0)


def _relate(
    program: _Program, group: Group, bins: list[Bin], into: dict[tuple[tuple[int, int], int], int]
) -> None:
    if group.relation == APART:
        for b in range(len(bins)):
            program.at_most({v: 1.0 for (_, other), v in into.items() if other == b}, 1)
    elif group.relation in (SHARE_NODE, SHARE_ZONE):
        zones = group.relation == SHARE_ZONE
        places = ZONES if zones else range(len(bins))
        chosen = {place: program.variable() for place in places}
        program.at_most(dict.fromkeys(chosen.values(), 1.0), 1)
        for (_, b), v in into.items():
            program.at_most({v: 1.0, chosen[bins[b].zone if zones else b]: -1.0}, 0)
