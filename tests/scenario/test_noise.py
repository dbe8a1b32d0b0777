"""A simulated day in which workloads scale and slots are taken and freed: no pod is moved without need."""

import dataclasses
import random
from datetime import datetime, timedelta

import app_environment
from app_environment import AppEnvironment
from disruption_environment import pool
from holdfast import names
from holdfast.api.cluster import Event
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2 import control

LASTS_S = 24 * 3600
STEP_S = 900
QUIET = dataclasses.replace(app_environment.FAST, heartbeat_s=60, grace_s=180, poll_s=5)
COOLDOWN = timedelta(minutes=10)
APPS = {"web": ("1500m", 5), "api": ("700m", 6)}


class History:
    """Every NodeClaim, every pod and every eviction. The API server deletes events after an hour."""

    def __init__(self, env: AppEnvironment) -> None:
        self.claims = {claim.metadata.name: claim for claim in env.ever(NodeClaim)}
        self.created_at: dict[str, datetime | None] = {}  # pods
        self.used_nodes: set[str] = set()  # nodes
        self.evicted = {  # pods
            event.involved_object.name: event.first_timestamp
            for event in env.ever(Event)
            if event.reason == "Evicted"
        }
        for pod in env.ever(Pod):
            self.created_at[pod.metadata.name] = pod.metadata.creation_timestamp
            self.used_nodes |= {pod.spec["nodeName"]} if "nodeName" in pod.spec else set()

    def unused(self) -> list[NodeClaim]:
        """Deleted NodeClaims whose node never had a pod."""
        deleted = [one for one in self.claims.values() if one.metadata.deletion_timestamp is not None]
        return [claim for claim in deleted if claim.status.node_name not in self.used_nodes]


def moved_twice(history: History) -> list[str]:
    """Pods that replaced an evicted pod and were themselves evicted within the cool-down."""
    found = []
    for name, at in history.evicted.items():
        created_at = history.created_at[name]
        for other, earlier in history.evicted.items():
            if created_at is None or at is None or earlier is None or _app(other) != _app(name):
                continue
            is_successor = timedelta() <= created_at - earlier <= timedelta(minutes=1)
            if is_successor and at - created_at < COOLDOWN:
                found.append(f"{name} at {at}, after {other} at {earlier}")
    return found


def _app(pod: str) -> str:
    return pod.partition("-")[0]


def test_a_day_of_scaling_moves_no_pod_twice_and_launches_no_unused_node() -> None:
    async def program(env: AppEnvironment) -> None:
        dice = random.Random(9)  # the same sequence in every run
        slots = env.reserve(total=3)
        await pool(env, slots, types=("m5.large", "m5.xlarge"), consolidate_after="60s")
        for app, (cpu, most) in APPS.items():
            await env.deploy(app, most // 2, cpu=cpu)
        taken = 0
        for _ in range(LASTS_S // STEP_S):
            app = dice.choice(sorted(APPS))
            await env.scale(app, dice.randint(1, APPS[app][1]))
            if dice.random() < 0.3:
                reservation = env.ec2.region.reservations[slots.id]
                if reservation.elsewhere:
                    control.give(env.ec2.region, slots.id, 1)
                elif reservation.available:
                    control.take(env.ec2.region, slots.id, 1)
                    taken += 1
            await env.sleep(STEP_S)
        history = History(env)
        assert len(history.claims) > len(await env.claims())  # nodes were launched and deleted
        assert history.evicted  # at least one pod was moved
        assert moved_twice(history) == []
        # If a slot is taken after the count, EC2 refuses the launch: that costs a NodeClaim but no instance.
        unused = history.unused()
        assert [claim.metadata.name for claim in unused if claim.status.provider_id] == []
        assert {claim.metadata.annotations.get(names.RESERVATION_ID) for claim in unused} <= {slots.id}
        assert len(unused) <= taken

    app_environment.run(program, timings=QUIET)
