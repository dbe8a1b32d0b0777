"""The rungs of all classes as arrays: requests, ops, ports and constraints, by variant.

Built once a solve by `solve`; every run shares it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling import problem
from holdfast.core.scheduling.constraints import Row
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.shapes import Op
from holdfast.core.scheduling.world import Ints, Words, World

A = TypeVar("A", bound=np.generic)


@dataclass
class Variants:
    ops: list[Op]  # those of pods, then the filters of groups
    first_filter: int
    c_first: Ints
    v_req: Ints
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
    near_first: Ints
    near: Ints
    far_first: Ints
    far: Ints
    note_first: Ints
    note: Ints
    hopeful: NDArray[np.bool_]  # by class: what it waits for may come while others are placed

    def arrays(self) -> dict[str, Any]:
        """The kernel's view, by the names the world has for them."""
        return {
            field.name: getattr(self, field.name) for field in fields(self) if field.name in World._fields
        }


def build(p: Problem) -> Variants:
    ops, v_ops, v_op_first = _ops(p)
    constraints = p.constraints
    classes = [(c, len(rungs)) for c, rungs in zip(p.classes, p.rungs, strict=True)]
    repeats = np.array([rungs for _, rungs in classes], dtype=np.int64)
    c_first = np.concatenate([[0], np.cumsum(repeats)]).astype(np.int64)
    spread, near = constraints.spread, constraints.near
    steady = [
        not any(row[5] >= 0 for row in spreads) and not nears
        for spreads, nears in zip(spread, near, strict=True)
    ]
    claims = _claims(p)
    notes = [
        [(*row[:3], row[3] + len(ops) if row[3] >= 0 else -1) for row in rows]
        + [(group, -1, 0, -1) for group, _ in of_claims]
        for rows, of_claims in zip(constraints.note, claims, strict=True)
    ]
    claim_first, claim_rows = _ranges(claims, 2)
    words = max(1, -(-len(p.ports) // problem.WORD_BITS))
    v_key_first, v_keys = _ranges(
        [
            [(key,) for key in sorted({r[5] for r in s} | {r[3] for r in n} | {r[1] for r in f}) if key >= 0]
            for s, n, f in zip(spread, near, constraints.far, strict=True)
        ],
        1,
    )
    spread_first, spread_rows = _ranges(spread, 6)
    near_first, near_rows = _ranges(near, 4)
    far_first, far_rows = _ranges(constraints.far, 2)
    note_first, note_rows = _ranges(notes, 4)
    return Variants(
        ops=ops + constraints.filters,
        first_filter=len(ops),
        c_first=c_first,
        v_req=_by_class(
            [problem.request_vector(c.shape, p.resources) for c, _ in classes], repeats, p.resources.size
        ),
        v_ops=v_ops,
        v_op_first=v_op_first,
        v_steady=np.array(steady, dtype=np.uint8),
        v_ports=_by_class(_port_rows(p, words, clashing=False), repeats, words),
        v_clash=_by_class(_port_rows(p, words, clashing=True), repeats, words),
        claims=claim_rows,
        claim_first=claim_first,
        v_keys=v_keys[:, 0],
        v_key_first=v_key_first,
        spread_first=spread_first,
        spread=spread_rows,
        near_first=near_first,
        near=near_rows,
        far_first=far_first,
        far=far_rows,
        note_first=note_first,
        note=note_rows,
        hopeful=np.array(
            [not all(steady[c_first[c] : c_first[c + 1]]) for c in range(len(classes))], dtype=bool
        ),
    )


def _ops(p: Problem) -> tuple[list[Op], Ints, Ints]:
    """The different ops of pods, and which of them each variant tries."""
    index: dict[Op, int] = {}
    tried: list[int] = []
    first = [0]
    shared: dict[int, list[list[int]]] = {}
    for c, rungs in zip(p.classes, p.rungs, strict=True):
        of_class = shared.get(id(rungs))
        if of_class is None or c.shape.volumes.alternatives or c.shape.host_ports:
            of_class = [
                [index.setdefault(op, len(index)) for op in problem.pod_ops(rung, c.shape)] for rung in rungs
            ]
        if not c.shape.volumes.alternatives and not c.shape.host_ports:
            shared[id(rungs)] = of_class
        for ops in of_class:
            tried += ops
            first.append(len(tried))
    return list(index), np.array(tried, dtype=np.int64), np.array(first, dtype=np.int64)


def _claims(p: Problem) -> list[list[Row]]:
    """By variant, the shared volumes of its pods: the host group that counts each, and its driver's column."""
    first = len(p.constraints.groups.hosts)
    group = {claim: first + i for i, claim in enumerate(p.shared_claims)}
    column = {driver: len(p.resources.names) + i for i, driver in enumerate(p.resources.drivers)}
    found = []
    for c, rungs in zip(p.classes, p.rungs, strict=True):
        rows: list[Row] = [
            (group[claim], column[claim[0]])
            for claim in sorted(set(c.shape.volumes.claims))
            if claim in group
        ]
        found += [rows] * len(rungs)
    return found


def _ranges(rows_of: Sequence[Sequence[Row]], width: int) -> tuple[Ints, Ints]:
    first = np.zeros(len(rows_of) + 1, dtype=np.int64)
    np.cumsum([len(rows) for rows in rows_of], out=first[1:])
    flat = [row for rows in rows_of for row in rows]
    return first, np.array(flat, dtype=np.int64).reshape(len(flat), width)


def _by_class(rows: Sequence[NDArray[A]], repeats: Ints, width: int) -> NDArray[A]:
    return np.repeat(np.array(rows).reshape(len(rows), width), repeats, axis=0)


def _port_rows(p: Problem, words: int, *, clashing: bool) -> list[Words]:
    nothing = np.zeros(words, dtype=np.uint64)
    return [
        problem.port_words(c.shape.host_ports, p.ports, clashing=clashing) if c.shape.host_ports else nothing
        for c in p.classes
    ]
