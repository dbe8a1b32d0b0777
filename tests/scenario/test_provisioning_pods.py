"""The status field lastPodEventTime of NodeClaims. The real controllers run in virtual time."""

import pytest

import app_environment
from app_environment import AppEnvironment, instance_types
from holdfast.api.nodeclaim import NodeClaim
from holdfast.state.conversion import times


@pytest.mark.fact("NC-43")
def test_last_pod_event_time_is_set_when_a_pod_is_bound_or_removed() -> None:
    async def last_s(env: AppEnvironment, name: str) -> int:
        claim = await env.kube.get(NodeClaim, name)
        assert claim.status.last_pod_event_time is not None
        return times.epoch_s(claim.status.last_pod_event_time)

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[instance_types("m5.xlarge")])
        await env.deploy("web", 2, cpu="1")
        await env.until_running(2)
        await env.sleep(300)
        (claim,) = await env.claims()
        name = claim.metadata.name
        bound_s = await last_s(env, name)
        assert bound_s < env.clock.now_s() - 250
        await env.scale("web", 1)
        await env.sleep(20)
        removed_s = await last_s(env, name)
        assert env.clock.now_s() - 25 < removed_s <= env.clock.now_s()
        await env.sleep(300)
        assert await last_s(env, name) == removed_s

    app_environment.run(program)
