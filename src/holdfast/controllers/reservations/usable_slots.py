"""The slots that NodePools can use, of the instance types of their classes: computed again only when one of them changed."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from holdfast.api.nodepool import NodePool
from holdfast.core.reservations import pool_slots
from holdfast.model.offerings import InstanceType
from holdfast.state.conversion import nodepools


class _Usable(NamedTuple):
    generation: int
    types: tuple[InstanceType, ...]
    slots: Mapping[str, int]


class UsableSlots:
    def __init__(self, well_known: AbstractSet[str]) -> None:
        self._well_known = well_known
        self._of: dict[str, _Usable] = {}  # by uid of the NodePool

    def of(self, pool: NodePool, types: tuple[InstanceType, ...]) -> Mapping[str, int]:
        """Free slots by reservation. The cloud returns the same tuple of types while nothing changed. Raises InvalidInput
        if the NodePool cannot be parsed."""
        meta = pool.metadata
        known = self._of.get(meta.uid)
        if known is None or known.generation != meta.generation or known.types is not types:
            slots = pool_slots.usable(nodepools.template_requirements(pool), types, self._well_known)
            known = self._of[meta.uid] = _Usable(meta.generation, types, slots)
        return known.slots

    def keep(self, uids: Collection[str]) -> None:
        """Forgets the other NodePools."""
        self._of = {uid: one for uid, one in self._of.items() if uid in uids}
