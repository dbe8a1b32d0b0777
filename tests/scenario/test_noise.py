"""A day of noise: workloads grow and shrink, slots come and go, and nothing is moved for nothing."""

import dataclasses
import random
from datetime import datetime, timedelta

import app_world
from app_world import AppWorld
from disruption_world import pool
from holdfast.sim.ec2 import control

LASTS_S = 24 * 3600
STEP_S = 900
LOOK_S = 30
QUIET = dataclasses.replace(app_world.FAST, heartbeat_s=60, grace_s=180, poll_s=5)
COOLDOWN = timedelta(minutes=10)
APPS = {"web": ("1500m", 5), "api": ("700m", 6)}


class Watch:
    """What was seen of claims and pods."""

    def __init__(self, world: AppWorld) -> None:
        self._world = world
        self.born: dict[str, str] = {}  # claims, with the node they became
        self.used: set[str] = set()  # nodes
        self.made: dict[str, datetime | None] = {}  # pods

    async def look(self) -> None:
        for claim in await self._world.claims():
            self.born[claim.metadata.name] = claim.status.node_name or ""
        for app in APPS:
            for pod in await self._world.pods(app):
                self.used.add(pod.spec.get("nodeName", ""))
                self.made[pod.metadata.name] = pod.metadata.creation_timestamp

    def unused(self) -> list[str]:
        return [claim for claim, node in self.born.items() if node not in self.used]


async def moved_twice(world: AppWorld, watch: Watch) -> list[str]:
    """Pods that were made because one was evicted, and were evicted themselves before they were left in peace."""
    evicted = {e.involved_object.name: e.first_timestamp for e in await world.events("Evicted")}
    found = []
    for name, at in evicted.items():
        made = watch.made.get(name)
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
        dice = random.Random(9)  # noqa: S311: the same noise each time
        slots = world.reserve(total=3)
        await pool(world, slots, types=("m5.large", "m5.xlarge"), consolidate_after="60s")
        for app, (cpu, most) in APPS.items():
            await world.deploy(app, most // 2, cpu=cpu)
        watch = Watch(world)
        for _ in range(LASTS_S // STEP_S):
            app = dice.choice(sorted(APPS))
            await world.scale(app, dice.randint(1, APPS[app][1]))
            if dice.random() < 0.3:
                there = world.ec2.world.reservations[slots.id]
                if there.elsewhere:
                    control.give(world.ec2.world, slots.id, 1)
                elif there.available:
                    control.take(world.ec2.world, slots.id, 1)
            for _ in range(STEP_S // LOOK_S):
                await world.sleep(LOOK_S)
                await watch.look()
        assert await world.events("Evicted")  # something was moved at all
        assert await moved_twice(world, watch) == []
        assert watch.unused() == []

    app_world.run(program, timings=QUIET)
