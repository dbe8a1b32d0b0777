"""What a NodePool can launch, as rows: one an offering, with everything that is asked of it precomputed.

Built once for each template (a NodePool, its slots or what it can buy) and asked by `shapes` which rows satisfy
a requirement. The rule: an instance type must go together with the requirements of a node at every key that
both define, and so must the offering; see `model.requirements`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.axes import DomainAxis, ResourceAxis
from holdfast.core.scheduling.world import Ints
from holdfast.model import resources
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirement import Requirement
from holdfast.model.requirements import Requirements, go_together
from holdfast.model.resources import Resources

Mask = NDArray[np.bool_]


@dataclass
class Rows:
    """The offerings of one template. Two rows of one type differ in zone, capacity type or reservation."""

    types: tuple[InstanceType, ...]
    offerings: tuple[Offering, ...]
    row_type: Ints  # index in `types`
    rooms: Ints  # [i, resource] allocatable less DaemonSets; rows share them
    room_of: Ints  # [row] index in `rooms`
    reservation: Ints  # index, or -1
    order: tuple[tuple[int | str, ...], ...]  # sorts rows, cheapest first
    capacity: Ints  # [row, limited resource]
    _codes: dict[
        str,
        tuple[
            NDArray[np.int32],
            tuple[Requirement | None, ...],
            NDArray[np.int32],
            tuple[Requirement | None, ...],
        ],
    ] = field(default_factory=dict)
    _masks: dict[Requirement, Mask] = field(default_factory=dict)
    _domains: dict[str, NDArray[np.bool_] | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offerings)

    @property
    def room(self) -> Ints:
        """[row, resource]"""
        return self.rooms[self.room_of]

    def fitting(self, load: Ints) -> Mask:
        """The rows that have room for a load."""
        return self.fitting_rooms(load)[self.room_of]

    def fitting_rooms(self, load: Ints) -> Mask:
        fits: Mask = np.all(self.rooms >= load, axis=1)
        return fits

    def satisfying(self, wanted: Requirement) -> Mask:
        """The rows that go together with a requirement."""
        mask = self._masks.get(wanted)
        if mask is None:
            type_codes, of_types, row_codes, of_rows = self._key(wanted.key)
            types_ok = np.array([u is None or go_together(wanted, u) for u in of_types])
            rows_ok = np.array([u is None or go_together(wanted, u) for u in of_rows])
            mask = types_ok[type_codes][self.row_type] & rows_ok[row_codes]
            self._masks[wanted] = mask
        return mask

    def defines(self, key: str) -> bool:
        """Whether the cloud, not the NodePool, gives nodes this label."""
        _, of_types, _, of_rows = self._key(key)
        return any(u is not None for u in (*of_types, *of_rows))

    def in_domain(self, key: str, domains: Sequence[str]) -> NDArray[np.bool_] | None:
        """[row, domain]: whether a node of the row can be in the domain; None when no row defines the key."""
        if key not in self._domains:
            type_codes, of_types, row_codes, of_rows = self._key(key)
            if all(u is None for u in (*of_types, *of_rows)):
                self._domains[key] = None
            else:
                by_type = np.array([[u is None or u.has(d) for d in domains] for u in of_types], dtype=bool)
                by_row = np.array([[u is None or u.has(d) for d in domains] for u in of_rows], dtype=bool)
                table = by_type.reshape(len(of_types), -1)[type_codes][self.row_type]
                self._domains[key] = table & by_row.reshape(len(of_rows), -1)[row_codes]
        return self._domains[key]

    def _key(
        self, key: str
    ) -> tuple[
        NDArray[np.int32], tuple[Requirement | None, ...], NDArray[np.int32], tuple[Requirement | None, ...]
    ]:
        codes = self._codes.get(key)
        if codes is None:
            codes = (
                *_encoded([t.requirements.by_key.get(key) for t in self.types]),
                *_encoded([o.requirements.by_key.get(key) for o in self.offerings]),
            )
            self._codes[key] = codes
        return codes


def _encoded(
    found: Sequence[Requirement | None],
) -> tuple[NDArray[np.int32], tuple[Requirement | None, ...]]:
    """Which of the different requirements each one is."""
    index: dict[Requirement | None, int] = {}
    codes = np.array([index.setdefault(one, len(index)) for one in found], dtype=np.int32)
    return codes, tuple(index)


def rows(
    types: Sequence[InstanceType],
    wanted: Callable[[Offering], bool],
    axis: ResourceAxis,
    overhead: Callable[[InstanceType], Resources],
    reservations: dict[str, int],
    limited: Sequence[str],
) -> Rows:
    """The rows of a template: the offerings that are wanted, in the order they come."""
    pairs = [(i, t, o) for i, t in enumerate(types) for o in t.offerings if wanted(o)]
    index: dict[tuple[int, Resources, Resources], int] = {}
    rooms: list[Ints] = []
    room_of = []
    for i, t, o in pairs:
        key = (i, o.capacity_override, o.overhead_override)
        if key not in index:
            index[key] = len(rooms)
            left = resources.add(t.allocatable_of(o), negative(overhead(t)))
            rooms.append(axis.vector(left, dict(t.volume_limits)))
        room_of.append(index[key])
    return Rows(
        types=tuple(types),
        offerings=tuple(o for _, _, o in pairs),
        row_type=np.array([i for i, _, _ in pairs], dtype=np.int64),
        rooms=np.array(rooms, dtype=np.int64).reshape(len(rooms), axis.size),
        room_of=np.array(room_of, dtype=np.int64),
        reservation=np.array(
            [reservations.get(o.reservation_id or "", -1) for _, _, o in pairs], dtype=np.int64
        ),
        order=tuple(t.order_key(o) for _, t, o in pairs),
        capacity=np.array(
            [[1 if name == resources.NODES else t.capacity[name] for name in limited] for _, t, _ in pairs],
            dtype=np.int64,
        ).reshape(len(pairs), len(limited)),
    )


def negative(vector: Resources) -> Resources:
    return Resources(tuple((name, -amount) for name, amount in vector.amounts))


def is_reserved(offering: Offering) -> bool:
    return offering.capacity_type == names.RESERVED


def possible_domains(found: Rows, mask: Mask, wanted: Requirements, axis: DomainAxis) -> NDArray[np.uint8]:
    """[domain]: where a node of these rows and requirements may end up, over all keys."""
    possible = np.zeros(axis.size, dtype=np.uint8)
    for k, key in enumerate(axis.keys):
        begin, end = axis.first[k], axis.first[k + 1]
        if begin == end:
            continue
        asked = wanted.by_key.get(key)
        table = found.in_domain(key, axis.domains[k])
        if table is None:
            if asked is not None:  # a label of the NodePool's own making
                possible[begin:end] = [asked.has(d) for d in axis.domains[k]]
            continue
        reachable = table[mask].any(axis=0) if mask.any() else np.zeros(end - begin, dtype=bool)
        allowed = [asked is None or asked.has(d) for d in axis.domains[k]]
        possible[begin:end] = reachable & np.array(allowed)
    return possible
