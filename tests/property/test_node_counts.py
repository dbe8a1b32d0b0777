"""The nodes of NodePools by capacity type and reservation, counted as NodeClaims change, equal a count of all NodeClaims."""

import random
from collections import Counter
from typing import Any

import pytest

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.controllers.reservations.slot_status import NodeCounts
from holdfast.ports import Change
from holdfast.runtime.cache import Cache
from manual_ports import ManualClock
from objects import nodeclaim

POOLS = ("a", "b")
RESERVATION = "example.com/reservation-id"


class Claims:
    """Applies random changes to the cache of NodeClaims."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.cache = Cache(NodeClaim, clock=ManualClock())
        self._version = 0

    def change(self) -> None:
        self._version += 1
        values = {
            names.NODEPOOL: self.dice.choice((*POOLS, None)),
            names.CAPACITY_TYPE: self.dice.choice((*names.CAPACITY_TYPES, None)),
            RESERVATION: self.dice.choice(("cr-1", "cr-2", None)),
        }
        labels = {key: value for key, value in values.items() if value is not None}
        meta: dict[str, Any] = {"labels": labels, "resourceVersion": str(self._version)}
        if self.dice.random() < 0.2:
            meta["deletionTimestamp"] = "2026-11-15T10:00:00Z"
        launched = {"providerID": "cloud:///1"} if self.dice.random() < 0.8 else {}
        claim = nodeclaim(f"c{self.dice.randrange(5)}", meta, launched)
        self.cache.apply(Change("DELETED" if self.dice.random() < 0.3 else "MODIFIED", claim))

    def counted(self, pool: str, label: str) -> Counter[str]:
        """Of all NodeClaims."""
        return Counter(
            claim.metadata.labels.get(label, "")
            for claim in self.cache
            if claim.metadata.labels.get(names.NODEPOOL) == pool
            and claim.status.provider_id
            and claim.metadata.deletion_timestamp is None
        )


@pytest.mark.parametrize("seed", range(20))
def test_incremental_counts_of_nodes_equal_counts_from_scratch(seed: int) -> None:
    claims = Claims(seed)
    for _ in range(claims.dice.randrange(10)):
        claims.change()
    counts = NodeCounts(claims.cache, RESERVATION)
    for _ in range(200):
        claims.change()
        for pool in POOLS:
            by_type, in_reservations = counts.by_capacity_type(pool), counts.in_reservations(pool)
            assert dict(by_type) == dict(claims.counted(pool, names.CAPACITY_TYPE))
            assert dict(in_reservations) == dict(claims.counted(pool, RESERVATION))
