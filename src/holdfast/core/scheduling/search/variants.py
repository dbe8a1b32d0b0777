"""The rungs of all classes as arrays: requests, ops, host ports and constraints, by variant.

`solve` builds them once; all runs share them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling.input import problem
from holdfast.core.scheduling.input.classes import Ladder
from holdfast.core.scheduling.input.constraints import Row
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.shapes import Op
from holdfast.core.scheduling.kernel.packing_state import Ints, PackingState, Words


@dataclass
class Variants:
    ops: list[Op]  # of pods, then the filters of groups
    first_filter: int
    c_first: Ints
    demand: NDArray[np.float64]  # [resource] the sum of all requests
    v_req: Ints
    v_load: Ints
    v_level: Ints  # how many preferences a variant has given up
    v_ops: Ints
    v_op_first: Ints
    v_steady: NDArray[np.uint8]
    v_ports: Words
    v_clash: Words
    v_keys: Ints
    v_key_first: Ints
    claims: Ints
    claim_first: Ints
    spread_first: Ints
    spread: Ints
    affinity_first: Ints
    affinity: Ints
    anti_affinity_first: Ints
    anti_affinity: Ints
    counting_first: Ints
    counting: Ints
    may_fit_later: NDArray[np.bool_]  # by class: whether the placement of other pods can make it fit
    unconstrained: NDArray[np.bool_]  # by class: no topology constraints, ports, volumes or preferences

    def arrays(self) -> dict[str, Any]:
        """The arrays that the kernel reads, by their names in the packing state."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name in PackingState._fields
        }


def build(p: Problem) -> Variants:
    """Computes everything except requests once for each ladder, and copies it to the classes that share the ladder."""
    steps = [len(ladder.rungs) for ladder in p.ladders]
    distinct, repeats = _rungs_of_classes(steps, p.ladder_of)
    constraints, ops = p.constraints, list[Op]()
    tried = _ops(p, ops)
    claims = [_claims(p, ladder) for ladder in p.ladders for _ in ladder.rungs]
    notes = [
        [(*row[:3], row[3] + len(ops) if row[3] >= 0 else -1) for row in rows]
        + [(group, -1, 0, -1) for group, _ in of_claims]
        for rows, of_claims in zip(constraints.counting, claims, strict=True)
    ]
    spread, affinity, anti_affinity = constraints.spread, constraints.affinity, constraints.anti_affinity
    keys = [
        [(key,) for key in sorted({r[5] for r in s} | {r[3] for r in n} | {r[1] for r in f}) if key >= 0]
        for s, n, f in zip(spread, affinity, anti_affinity, strict=True)
    ]
    steady = np.array(
        [not any(row[5] >= 0 for row in s) and not n for s, n in zip(spread, affinity, strict=True)],
        dtype=bool,
    )[distinct]
    unconstrained = np.array(
        [
            len(ladder.rungs) == 1
            and len(rung.wanted) == 1
            and not ladder.shape.host_ports
            and not ladder.shape.volumes.claims
            for ladder in p.ladders
            for rung in ladder.rungs
        ],
        dtype=bool,
    ) & ~np.array(
        [any(rows) for rows in zip(spread, affinity, anti_affinity, notes, strict=True)], dtype=bool
    )
    c_first = np.concatenate([[0], np.cumsum(repeats)]).astype(np.int64)
    requests = problem.requests([c.shape for c in p.classes], p.resources)
    found: dict[str, Ints] = {}
    for name, rows_of, width in (
        ("v_op", tried, 1), ("v_key", keys, 1), ("claim", claims, 2), ("spread", spread, 6), ("affinity", affinity, 4),
        ("anti_affinity", anti_affinity, 2), ("counting", notes, 4),
    ):  # fmt: skip
        found[f"{name}_first"], found[name] = _dealt(rows_of, width, distinct)
    return Variants(
        ops=ops + constraints.filters,
        first_filter=len(ops),
        c_first=c_first,
        demand=np.array([len(c.pods) for c in p.classes], dtype=float) @ requests,
        v_req=_needed_capacity(p, affinity, requests, distinct, repeats),
        v_load=np.repeat(requests, repeats, axis=0),
        v_level=np.array([i for ladder in p.ladders for i in _levels(ladder)], dtype=np.int64)[distinct],
        v_steady=steady.astype(np.uint8),
        v_ports=_port_rows(p, clashing=False)[distinct],
        v_clash=_port_rows(p, clashing=True)[distinct],
        v_ops=found.pop("v_op")[:, 0],
        v_keys=found.pop("v_key")[:, 0],
        claims=found.pop("claim"),
        may_fit_later=np.logical_or.reduceat(~steady, c_first[:-1])
        if len(repeats)
        else np.zeros(0, dtype=bool),
        unconstrained=unconstrained[distinct][c_first[:-1]],
        **found,
    )


def _needed_capacity(
    p: Problem, affinity: Sequence[Sequence[Row]], requests: Ints, distinct: Ints, repeats: Ints
) -> Ints:
    """[variant, resource] the capacity that a node needs for a pod: its requests, or those of all pods that must share the
    node."""
    found = np.repeat(requests, repeats, axis=0)
    quarters = np.array([r.group_quarters for ladder in p.ladders for r in ladder.rungs], dtype=np.int64)
    if not quarters.any():
        return found
    of_group: dict[tuple[int, int], Ints] = {}
    class_of = np.repeat(np.arange(len(repeats)), repeats)
    for v in np.flatnonzero(quarters[distinct]).tolist():
        for group in (
            (row[0], int(quarters[distinct[v]])) for row in affinity[distinct[v]] if row[1] and row[3] < 0
        ):
            if group not in of_group:
                members = {
                    int(class_of[i])
                    for i in range(len(distinct))
                    if _has_group(affinity[distinct[i]], group[0])
                }
                counts = {c: len(p.classes[c].pods) * group[1] // 4 for c in members}
                of_group[group] = sum((count * requests[c] for c, count in counts.items()), 0 * requests[0])
            found[v] = np.maximum(found[v], of_group[group])
    return found


def _levels(ladder: Ladder) -> list[int]:
    """By rung, how many rungs come before it; rungs for different shares of a group are counted separately."""
    alone = sum(rung.group_quarters == 0 for rung in ladder.rungs)
    return [i % alone for i in range(len(ladder.rungs))]


def _has_group(affinity: Sequence[Row], group: int) -> bool:
    return any(row[0] == group and row[3] < 0 for row in affinity)


def _rungs_of_classes(steps: Sequence[int], ladder_of: Sequence[int]) -> tuple[Ints, Ints]:
    """[variant] the index of its rung over all ladders; and [class] how many variants it has."""
    of_ladder = np.array(steps, dtype=np.int64)
    first = np.cumsum(of_ladder) - of_ladder
    ladders = np.array(ladder_of, dtype=np.int64)
    repeats = of_ladder[ladders]
    return _ranges_from(first[ladders], repeats), repeats


def _ranges_from(first: Ints, lengths: Ints) -> Ints:
    """first[0], first[0] + 1, ... for each length, one range after another."""
    ends = np.cumsum(lengths)
    found: Ints = np.repeat(first - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)
    return found


def _dealt(rows_of: Sequence[Sequence[Row]], width: int, distinct: Ints) -> tuple[Ints, Ints]:
    """Rows by rung as a table of rows by variant, with the index of each variant's first row."""
    lengths = np.array([len(rows) for rows in rows_of], dtype=np.int64)
    flat = [row for rows in rows_of for row in rows]
    table = np.array(flat, dtype=np.int64).reshape(len(flat), width)
    begins = np.cumsum(lengths) - lengths
    first = np.concatenate([[0], np.cumsum(lengths[distinct])]).astype(np.int64)
    return first, table[_ranges_from(begins[distinct], lengths[distinct])]


def _ops(p: Problem, ops: list[Op]) -> list[list[Row]]:
    """By rung, the ops that its pods try; adds the different ones to `ops`."""
    index: dict[Op, int] = {}
    tried: list[list[Row]] = [
        [(index.setdefault(op, len(index)),) for op in problem.pod_ops(rung, ladder.shape)]
        for ladder in p.ladders
        for rung in ladder.rungs
    ]
    ops += index
    return tried


def _claims(p: Problem, ladder: Ladder) -> list[Row]:
    """The shared volumes of its pods: the host group that counts each, and the resource column of its driver."""
    first = len(p.constraints.groups.hosts)
    return [
        (first + p.shared_claims.index(claim), len(p.resources.names) + p.resources.drivers.index(claim[0]))
        for claim in sorted(set(ladder.shape.volumes.claims))
        if claim in p.shared_claims
    ]


def _port_rows(p: Problem, *, clashing: bool) -> Words:
    """[rung, word]"""
    rows = [
        problem.port_words(ladder.shape.host_ports, p.ports, clashing=clashing)
        for ladder in p.ladders
        for _ in ladder.rungs
    ]
    return np.array(rows, dtype=np.uint64).reshape(len(rows), problem.words(p.ports))
