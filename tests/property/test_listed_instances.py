"""What is derived once from a list of instances is the same as from scratch, after any sequence of lists and NodeClaims."""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import objects
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model.instances import Instance, InstanceState
from holdfast.ports import Change
from holdfast.runtime import indexes
from holdfast.runtime.cache import Cache
from holdfast.sim import time
from holdfast.state.cluster.listed_instances import ListedInstances
from planner_builders import reservation

LAG_S = 120
STEPS = 60
IDS = tuple(f"aws:///us-west-2a/i-{number}" for number in range(4))
STATES = (InstanceState.STARTING, InstanceState.RUNNING, InstanceState.RUNNING, InstanceState.ENDING)


class FromScratch:
    """Everything is computed in each call."""

    def __init__(self) -> None:
        self.listed: tuple[Instance, ...] = ()
        self.gone: dict[Instance, int] = {}
        self.first_s: float | None = None

    def store(self, found: tuple[Instance, ...], counts_s: int, now_s: int, monotonic_s: float) -> None:
        ids = {one.provider_id for one in found}
        missed = [one for one in self.listed if one.reservation_id and one.provider_id not in ids]
        self.gone |= {replace(one, state=InstanceState.GONE): now_s for one in missed}
        self.gone = {
            one: at_s
            for one, at_s in self.gone.items()
            if counts_s < at_s + LAG_S and one.provider_id not in ids
        }
        self.listed = found
        self.first_s = monotonic_s if self.first_s is None else self.first_s

    def all(self) -> tuple[Instance, ...]:
        return tuple(sorted((*self.listed, *self.gone), key=lambda one: one.provider_id))

    def are_in_motion(self, owned: set[str | None]) -> bool:
        return any(
            one.reservation_id
            and (one.state in (InstanceState.STARTING, InstanceState.ENDING) or one.provider_id not in owned)
            for one in self.listed
        )

    def are_slots_released(self, used: int, monotonic_s: float) -> bool:
        ours = [one for one in self.all() if one.reservation_id]
        if any(one.state in (InstanceState.ENDING, InstanceState.GONE) for one in ours):
            return True
        if self.first_s is None or monotonic_s - self.first_s >= LAG_S:
            return False
        return used > Counter(one.reservation_id for one in ours)["cr-1"]


def listed(dice: random.Random) -> tuple[Instance, ...]:
    return tuple(
        Instance(
            provider_id=id_,
            instance_type="m5.large",
            zone="us-west-2a",
            capacity_type="reserved",
            state=dice.choice(STATES),
            launched_s=0,
            reservation_id=dice.choice(("cr-1", "cr-1", None)),
        )
        for id_ in IDS
        if dice.random() < 0.7
    )


class Claims:
    """Creates, changes and deletes NodeClaims in a cache."""

    def __init__(self, cache: Cache[NodeClaim], dice: random.Random) -> None:
        self._cache = cache
        self._dice = dice
        self._version = 0

    def change(self) -> None:
        self._version += 1
        name = self._dice.choice(("a", "b", "c"))
        status = {"providerID": id_} if (id_ := self._dice.choice((*IDS, ""))) else {}
        meta = {"resourceVersion": str(self._version), "uid": name}
        kind = self._dice.choice(("MODIFIED", "MODIFIED", "DELETED"))
        self._cache.apply(Change(kind, objects.nodeclaim(name, meta, status)))

    def owned(self) -> set[str | None]:
        return {claim.status.provider_id for claim in self._cache}


@pytest.mark.parametrize("seed", range(20))
def test_derived_values_of_a_list_are_those_from_scratch(seed: int) -> None:
    dice = random.Random(seed)

    async def program() -> None:
        clock = time.VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
        cache = Cache(NodeClaim, clock=clock)
        cache.index(indexes.by_provider_id)
        claims, scratch = Claims(cache, dice), FromScratch()
        instances = ListedInstances(cache, clock=clock, ledger_lag_s=LAG_S)
        last: tuple[Instance, ...] = ()
        for _ in range(STEPS):
            await asyncio.sleep(dice.choice((0, 1, 10, 50)))
            if dice.random() < 0.5:
                claims.change()
            if dice.random() < 0.7:
                last = last if dice.random() < 0.4 else listed(dice)
                counts_s = clock.now_s() - dice.choice((0, 30))
                instances.listed(last, counts_s)
                scratch.store(last, counts_s, clock.now_s(), clock.monotonic_s())
            before = instances.all()
            assert before == scratch.all()
            assert instances.all() is before
            assert instances.are_in_motion() == scratch.are_in_motion(claims.owned())
            used = dice.randrange(4)
            slots = (reservation("cr-1", "m5.large", available=3 - used, total=3),)
            released = scratch.are_slots_released(used, clock.monotonic_s())
            assert instances.are_slots_released(slots) == released

    time.run(program())
