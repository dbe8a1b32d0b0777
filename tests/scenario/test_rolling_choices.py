"""Drift in a full reservation where a node can be replaced in several ways, or in none. In virtual time."""

import dataclasses

import pytest

import app_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, condition_of, drift_all, is_new, pool, tainted
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.app.settings import Settings
from holdfast.core.disruption.inputs import MixedPools
from holdfast.sim.ec2 import control


def rolls(choice: MixedPools) -> Settings:
    disruption = dataclasses.replace(app_environment.SETTINGS.disruption, roll_mixed_pools=choice)
    return dataclasses.replace(app_environment.SETTINGS, disruption=disruption)


@pytest.mark.parametrize(
    ("choice", "kinds"),
    [
        (MixedPools.WAIT, ["reserved", "reserved"]),
        (MixedPools.FALLBACK, ["on-demand", "reserved", "reserved"]),
    ],
)
def test_roll_mixed_pools_setting_chooses_between_waiting_and_on_demand_fallback(
    choice: MixedPools, kinds: list[str]
) -> None:
    """By default the pod waits for its slot; with fallback it moves to an on-demand node and back."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await pool(env, slots, kinds=("reserved", "on-demand"))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await drift_all(env)

        async def rolled() -> bool:
            nodes = await env.nodes()
            return len(nodes) == 1 == env.in_reservation(slots) and all(map(is_new, nodes))

        await env.until(rolled, within_s=1800)
        await env.until_running(1)
        await env.sleep(300)  # no further move
        assert await rolled()
        ever = {c.metadata.name: c.metadata.labels.get(names.CAPACITY_TYPE) for c in env.ever(NodeClaim)}
        assert sorted(map(str, ever.values())) == kinds
        assert len(env.all_ec2_instances()) == len(kinds)

    app_environment.run(program, settings=rolls(choice))


def test_node_whose_drain_a_disruption_budget_blocks_is_not_disrupted_and_gets_an_event() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve("m5.xlarge", total=1)
        await pool(env, slots, types=("m5.xlarge",), kinds=("reserved",))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await env.create(path, {"metadata": {"name": "web"}, "spec": budget})
        (claim,), pods = await env.claims(), {pod.metadata.uid for pod in await env.running()}
        await drift_all(env)
        for _ in range(30):
            await env.sleep(60)
            assert [one.metadata.name for one in await env.claims()] == [claim.metadata.name]
            assert not any(map(tainted, await env.nodes()))
        assert {pod.metadata.uid for pod in await env.running()} == pods
        messages = [event.message for event in await env.events("DisruptionBlocked")]
        assert any("PodDisruptionBudget=default/web" in text for text in messages), messages

    app_environment.run(program)


def test_rolling_continues_after_another_account_takes_and_returns_a_slot() -> None:
    """The process restarts while one slot is taken. The rest is replaced when the slot is free again."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=8)
        await pool(env, slots, kinds=("reserved",), budgets=[{"nodes": "2"}])
        await env.deploy("web", 8, **ONE_PER_NODE)
        await env.until_running(8)
        await drift_all(env)
        while env.free(slots) == 0:
            await env.sleep(0.1)
        control.take(env.ec2.region, slots.id, 1)
        await env.sleep(60)
        await env.restart(after_s=10)
        for _ in range(30):
            await env.sleep(10)
            assert len(await env.running()) >= 6  # one without a slot, one being replaced
        assert env.in_reservation(slots) == 7 == len(await env.running())
        assert sum(map(is_new, await env.nodes())) == 1  # no more nodes are deleted while a slot is missing
        (waiting_claim,) = [one for one in await env.claims() if not one.status.provider_id]
        assert condition_of(waiting_claim, "Launched") == ("Unknown", "WaitsForSlot")
        control.give(env.ec2.region, slots.id, 1)

        async def rolled() -> bool:
            # The budget counts nodes: pods may still be starting on the two nodes that were replaced before.
            assert len(await env.running()) >= 4
            nodes = await env.nodes()
            return len(nodes) == 8 and all(map(is_new, nodes))

        await env.until(rolled, within_s=1800)
        await env.until_running(8)
        assert env.in_reservation(slots) == 8
        assert len(env.all_ec2_instances()) == 16  # no duplicate launch

    app_environment.run(program)
