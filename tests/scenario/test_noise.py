"""A day of noise: workloads grow and shrink, slots come and go, and nothing is moved for nothing."""

import dataclasses
import random
from datetime import datetime, timedelta

import app_world
from app_world import AppWorld
from disruption_world import pool
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2 import control

LASTS_S = 24 * 3600
STEP_S = 900
QUIET = dataclasses.replace(app_world.FAST, heartbeat_s=60, grace_s=180, poll_s=5)
COOLDOWN = timedelta(minutes=10)
APPS = {"web": ("1500m", 5), "api": ("700m", 6)}


class Past:
    """All that was ever written of claims and pods."""

    def __init__(self, world: AppWorld) -> None:
        self.claims = {claim.metadata.name: claim for claim in world.ever(NodeClaim)}
        self.made: dict[str, datetime | None] = {}  # pods
        self.used: set[str] = set()  # nodes
        for pod in world.ever(Pod):
            self.made[pod.metadata.name] = pod.metadata.creation_timestamp
            self.used |= {pod.spec["nodeName"]} if "nodeName" in pod.spec else set()

    def unused(self) -> list[NodeClaim]:
        """Claims that went without ever having had a pod on a node of theirs."""
        gone = [one for one in self.claims.values() if one.metadata.deletion_timestamp is not None]
        return [claim for claim in gone if claim.status.node_name not in self.used]


async def moved_twice(world: AppWorld, past: Past) -> list[str]:
    """Pods that were made because one was evicted, and were evicted themselves before they were left in peace."""
    evicted = {e.involved_object.name: e.first_timestamp for e in await world.events("Evicted")}
    found = []
    for name, at in evicted.items():
        made = past.made[name]
        for other, earlier in evicted.items():
            if made is None or at is None or earlier is None or _app(other) != _app(name):
                continue
            is_successor = timedelta() <= made - earlier <= timedelta(minutes=1)
            if is_successor and at - made < COOLDOWN:
                found.append(f"{name} at {at}, after {other} at {earlier}")
    return found


def _app(pod: str) -> str:
    return pod.partition("-")[0]


def test_a_day_of_noise_moves_no_pod_twice_and_launches_nothing_that_is_not_used() -> None:
    async def program(world: AppWorld) -> None:
        dice = random.Random(9)  # the same noise each time
        slots = world.reserve(total=3)
        await pool(world, slots, types=("m5.large", "m5.xlarge"), consolidate_after="60s")
        for app, (cpu, most) in APPS.items():
            await world.deploy(app, most // 2, cpu=cpu)
        taken = 0
        for _ in range(LASTS_S // STEP_S):
            app = dice.choice(sorted(APPS))
            await world.scale(app, dice.randint(1, APPS[app][1]))
            if dice.random() < 0.3:
                there = world.ec2.world.reservations[slots.id]
                if there.elsewhere:
                    control.give(world.ec2.world, slots.id, 1)
                elif there.available:
                    control.take(world.ec2.world, slots.id, 1)
                    taken += 1
            await world.sleep(STEP_S)
        past = Past(world)
        assert len(past.claims) > len(await world.claims())  # nodes came and went
        assert await world.events("Evicted")  # something was moved at all
        assert await moved_twice(world, past) == []
        # A slot that a neighbour took since it was counted is found out by asking, and costs a claim but no machine.
        unused = past.unused()
        assert [claim.metadata.name for claim in unused if claim.status.provider_id] == []
        assert {claim.metadata.annotations.get(names.RESERVATION_ID) for claim in unused} <= {slots.id}
        assert len(unused) <= taken

    app_world.run(program, timings=QUIET)
