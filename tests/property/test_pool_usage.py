"""The usage of NodePools, updated by each change, equals the usage computed from all nodes and NodeClaims."""

import asyncio
import random
from typing import Any

import pytest

from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.model.resources import Resources
from holdfast.ports import Change
from holdfast.runtime.cache import Cache
from holdfast.state.cluster.pool_usage import PoolUsage
from holdfast.state.conversion import nodepools, nodes
from manual_ports import ManualClock
from objects import node, nodeclaim

POOLS = ("a", "b")
IDS = tuple(f"cloud:///{n}" for n in range(4))
CHANGES = 200


class Fleet:
    """Applies random changes of nodes and NodeClaims to their caches."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.nodes, self.claims = Cache(Node, clock=ManualClock()), Cache(NodeClaim, clock=ManualClock())
        self._version = 0

    def change(self) -> None:
        number = self.dice.randrange(len(IDS))
        if self.dice.random() < 0.5:
            self._apply(self.nodes, self._node(number))
        else:
            self._apply(self.claims, self._claim(number))

    def computed_usage(self, pool: str) -> dict[str, int]:
        views = map(nodes.view, nodes.pairs(self.nodes, self.claims))
        return amounts(nodepools.used(views).get(pool, nodepools.NONE_USED))

    def _apply(self, cache: Cache[Any], obj: Object) -> None:
        cache.apply(Change("DELETED" if self.dice.random() < 0.3 else "MODIFIED", obj))

    def _node(self, number: int) -> Node:
        labels = dict.fromkeys(self._some("karpenter.sh/registered", "karpenter.sh/initialized"), "true")
        return node(
            f"n{number}",
            self._meta(labels),
            spec={"providerID": IDS[number]},
            status={"capacity": self._capacity()},
        )

    def _claim(self, number: int) -> NodeClaim:
        launched = {"providerID": IDS[number], "capacity": self._capacity()}
        return nodeclaim(f"c{number}", self._meta({}), launched if self.dice.random() < 0.8 else {})

    def _meta(self, labels: dict[str, str]) -> dict[str, Any]:
        self._version += 1
        pool = {"karpenter.sh/nodepool": self.dice.choice(POOLS)} if self.dice.random() < 0.8 else {}
        ending = {"deletionTimestamp": "2026-11-15T10:00:00Z"} if self.dice.random() < 0.2 else {}
        return {"labels": labels | pool, "resourceVersion": str(self._version), **ending}

    def _capacity(self) -> dict[str, str]:
        return {name: str(self.dice.randrange(5)) for name in self._some("cpu", "memory", "pods")}

    def _some(self, *names: str) -> list[str]:
        return [name for name in names if self.dice.random() < 0.7]


def amounts(found: Resources) -> dict[str, int]:
    return {name: amount for name, amount in found.amounts if amount}


@pytest.mark.fact("ST-14")
@pytest.mark.parametrize("seed", range(20))
def test_incremental_usage_of_a_nodepool_equals_usage_from_scratch(seed: int) -> None:
    async def test() -> None:
        fleet = Fleet(seed)
        for _ in range(fleet.dice.randrange(10)):
            fleet.change()
        usage = PoolUsage(nodes=fleet.nodes, claims=fleet.claims, clock=ManualClock())
        for _ in range(CHANGES):
            fleet.change()
            if fleet.dice.random() < 0.5:
                for pool in POOLS:
                    assert amounts(await usage.of(pool)) == fleet.computed_usage(pool)

    asyncio.run(test())
