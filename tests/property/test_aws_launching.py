"""Launches with random faults: every NodeClaim gets exactly one instance, and no instance has two NodeClaims.

A small stand-in for the controller stores what an API server would store: the token of each NodeClaim, written before
the call, and its provider id, written after it. Random calls and answers are lost, and the process crashes.
"""

import random
from dataclasses import dataclass, replace

import pytest

from holdfast import errors
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest
from holdfast.sim.ec2 import faults
from launch_environment import LaunchEnvironment, capacity_type

CLAIMS = 12
ROUNDS_MAX = 60


@dataclass(slots=True)
class StoredClaim:
    """The part of a NodeClaim that survives a crash of the process."""

    request: LaunchRequest
    provider_id: str | None = None


def random_faults(dice: random.Random) -> list[faults.Fault]:
    """A random choice of faults, each for a limited number of calls."""
    kinds: list[faults.Fault] = [
        faults.Lost(operation="CreateFleet", chance=0.4, times=4),
        faults.Lost(operation="CreateLaunchTemplate", chance=0.3, times=2),
        faults.Broken(operation="CreateFleet", chance=0.2, times=2),
        faults.Throttled(operation="DescribeInstances", chance=0.2, times=6),
        faults.Stale(operation="DescribeInstances", lag_s=dice.randint(1, 8), chance=0.5, times=12),
        faults.Partial(at_most=dice.randint(1, 5), chance=0.5, times=4),
        faults.NoCapacity(chance=0.3, times=4),
    ]
    return [kind for kind in kinds if dice.random() < 0.6]


class Controller:
    def __init__(self, env: LaunchEnvironment, dice: random.Random, *requirements: dict[str, object]) -> None:
        self._env = env
        self._dice = dice
        node_class = env.selecting({"tags": {"team": "ml"}})
        self.claims = [
            StoredClaim(request) for request in env.requests(node_class, *requirements, count=CLAIMS)
        ]

    @property
    def waiting(self) -> list[StoredClaim]:
        return [claim for claim in self.claims if claim.provider_id is None]

    def round(self) -> None:
        """Launches some of the waiting NodeClaims, in one call or in several, and stores the answers."""
        batch = [claim for claim in self.waiting if self._dice.random() < 0.8]
        owned = [claim.provider_id for claim in self.claims if claim.provider_id]
        outcomes = self._env.launch([claim.request for claim in batch], owned)
        new_token = self._env.ids.token()
        for claim, outcome in zip(batch, outcomes, strict=True):
            if self._dice.random() < 0.05:
                self._env.new_process()  # the rest of this batch is not stored
                return
            if isinstance(outcome, Instance):
                claim.provider_id = outcome.provider_id
            elif not isinstance(outcome, errors.Unreachable):
                claim.request = replace(claim.request, token=new_token)
        self._env.clock.advance(self._dice.choice((0, 1, 5)))


@pytest.mark.parametrize("seed", range(20))
def test_every_claim_gets_one_instance_and_every_instance_one_claim(seed: int) -> None:
    dice = random.Random(seed)
    env = LaunchEnvironment()
    reserved = seed % 2 == 0
    slots = env.reserve(total=CLAIMS, tags={"team": "ml"})
    controller = Controller(env, dice, capacity_type("reserved" if reserved else "on-demand"))
    for fault in random_faults(dice):
        env.ec2.region.faults.add(fault)
    for _ in range(ROUNDS_MAX):
        if not controller.waiting:
            break
        controller.round()
    provider_ids = [claim.provider_id for claim in controller.claims]
    assert None not in provider_ids, f"seed {seed}: a NodeClaim has no instance"
    assert len(set(provider_ids)) == CLAIMS, f"seed {seed}: two NodeClaims have the same instance"
    instance_ids = {name.rpartition("/")[2] for name in provider_ids if name}
    assert {instance.id for instance in env.ec2_instances} == instance_ids, (
        f"seed {seed}: an instance without a NodeClaim"
    )
    assert {instance.reservation_id for instance in env.ec2_instances} == ({slots.id} if reserved else {""})
