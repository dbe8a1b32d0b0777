"""Slots in the placement kernel: a new node gets a slot whenever moves can free one, and slots are counted exactly.

The functions run as Python on a state that holds only the arrays they use. The expected answer is a maximum matching of
nodes to slots, computed anew for each pod.
"""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from holdfast.core.scheduling.kernel import slots
from holdfast.core.scheduling.kernel.packing_state import FREE_SLOTS, REGISTERS, RESERVED

CASES = 300
PODS = 30  # for one case
RESOURCES = 2
ZONES = 2


class Packing:
    """Reservations of several sizes, shapes that allow some of them, and the nodes that hold slots so far."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        reservations, shapes = dice.randint(1, 7), dice.randint(1, 4)
        self.total = np.array([dice.randint(0, 2) for _ in range(reservations)], dtype=np.int64)
        allocatable = np.array(
            [[dice.randint(2, 8) for _ in range(RESOURCES)] for _ in range(reservations)], dtype=np.int64
        )
        allowed = [
            dice.sample(range(reservations), dice.randint(1, reservations)) for _ in range(shapes)
        ]  # in the order in which slots are taken
        rows = [r for some in allowed for r in some]
        ends = np.cumsum([len(some) for some in allowed])
        self.allowed = allowed
        self.zone = np.array([dice.randint(-1, ZONES - 1) for _ in range(reservations)], dtype=np.int64)
        state: Any = SimpleNamespace(
            reg=np.zeros(REGISTERS, dtype=np.int64),
            v_req=np.array(
                [[dice.randint(0, 4) for _ in range(RESOURCES)] for _ in range(PODS)], dtype=np.int64
            ),
            claim_first=np.zeros(PODS + 1, dtype=np.int64),
            claims=np.zeros((0, 2), dtype=np.int64),
            d_free=np.zeros(ZONES, dtype=np.int64),
            n_shape=np.zeros(PODS, dtype=np.int64),
            n_load=np.zeros((PODS, RESOURCES), dtype=np.int64),
            n_reservation=np.full(PODS, -1, dtype=np.int64),
            n_template=np.zeros(PODS, dtype=np.int64),
            listed=np.zeros((3, PODS), dtype=np.int64),
            lengths=np.zeros((3, 2), dtype=np.int64),
            s_slots=np.array([[end - len(some), end] for end, some in zip(ends, allowed, strict=True)]),
            s_reserved=np.array(
                [[r in some for r in range(reservations)] for some in allowed], dtype=np.uint8
            ),
            slot_reservation=np.array(rows, dtype=np.int64),
            slot_allocatable=allocatable[rows],
            r_free=self.total.copy(),
            r_allocatable=allocatable[np.newaxis],
            r_zone=self.zone,
            free_max_allocatable=np.zeros((1, RESOURCES), dtype=np.int64),
            visit=np.zeros((reservations, 3), dtype=np.int64),
            queue=np.full(reservations, -1, dtype=np.int64),
        )
        self.ps = state
        self.ps.reg[FREE_SLOTS] = self.total.sum()
        for r, zone in enumerate(self.zone):
            if zone >= 0:
                self.ps.d_free[zone] += self.total[r]
        slots.update_free_max(self.ps)
        self.nodes = 0

    def place(self, pod: int) -> None:
        """Tries the pod on a new node, or on one that holds a slot."""
        ps, shape = self.ps, self.dice.randrange(len(self.allowed))
        new = not self.nodes or self.dice.random() < 0.6
        n = self.nodes if new else self.dice.randrange(self.nodes)
        shape = shape if new else int(ps.n_shape[n])
        load = ps.v_req[pod] + (0 if new else ps.n_load[n])
        before = ps.n_reservation.copy()
        expected = self._is_matched(shape, load) if new else self._can_grow(n, load)
        assert slots.can_hold_slot(ps, pod, -1 if new else n, shape) == expected
        assert (ps.n_reservation == before).all()
        assert slots.hold_slot(ps, pod, n, shape) == expected
        if not expected:
            assert (ps.n_reservation == before).all()
        elif new:
            ps.n_shape[n], ps.listed[RESERVED, n] = shape, n
            ps.lengths[RESERVED, 0] = self.nodes = self.nodes + 1
        if expected:
            ps.n_load[n] = load
        self.check()

    def check(self) -> None:
        ps = self.ps
        held = ps.n_reservation[: self.nodes]
        used = np.bincount(held, minlength=len(self.total))
        assert (ps.r_free == self.total - used).all()
        assert (ps.r_free >= 0).all()
        assert ps.reg[FREE_SLOTS] == ps.r_free.sum()
        for zone in range(ZONES):
            assert ps.d_free[zone] == ps.r_free[self.zone == zone].sum()
        for n in range(self.nodes):
            assert self._fits(int(ps.n_shape[n]), ps.n_load[n], int(held[n]))
        free = ps.r_allocatable[0][ps.r_free > 0]
        assert (ps.free_max_allocatable[0] == (free.max(axis=0) if len(free) else 0)).all()

    def _fits(self, shape: int, load: Any, r: int) -> bool:
        return r in self.allowed[shape] and bool((load <= self.ps.r_allocatable[0, r]).all())

    def _can_grow(self, n: int, load: Any) -> bool:
        """A node that grows stays in its slot or moves to a free one; no other node moves for it."""
        ps, shape = self.ps, int(self.ps.n_shape[n])
        return any(
            self._fits(shape, load, r) and (ps.r_free[r] > 0 or r == ps.n_reservation[n])
            for r in range(len(self.total))
        )

    def _is_matched(self, shape: int, load: Any) -> bool:
        """Whether all nodes and the new one can hold slots at once."""
        ps = self.ps
        wanted = [(int(ps.n_shape[n]), ps.n_load[n]) for n in range(self.nodes)] + [(shape, load)]
        holders: list[list[int]] = [[] for _ in self.total]

        def found(node: int, tried: set[int]) -> bool:
            for r in range(len(self.total)):
                if r in tried or not self._fits(*wanted[node], r):
                    continue
                tried.add(r)
                if len(holders[r]) < self.total[r]:
                    holders[r].append(node)
                    return True
                for i, other in enumerate(holders[r]):
                    if found(other, tried):
                        holders[r][i] = node
                        return True
            return False

        return all(found(node, set()) for node in range(len(wanted)))


@pytest.mark.fact("R-17")
def test_a_new_node_holds_a_slot_if_a_matching_of_all_nodes_exists() -> None:
    for seed in range(CASES):
        packing = Packing(random.Random(seed))
        for pod in range(PODS):
            packing.place(pod)
