"""The status field lastPodEventTime of NodeClaims. The real controllers run in virtual time."""

import pytest

import app_world
from app_world import AppWorld, instance_types
from holdfast.api.nodeclaim import NodeClaim
from holdfast.state.conversion import times


@pytest.mark.fact("NC-43")
def test_last_pod_event_time_is_set_when_a_pod_is_bound_or_removed() -> None:
    async def last_s(world: AppWorld, name: str) -> int:
        claim = await world.kube.get(NodeClaim, name)
        assert claim.status.last_pod_event_time is not None
        return times.epoch_s(claim.status.last_pod_event_time)

    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[instance_types("m5.xlarge")])
        await world.deploy("web", 2, cpu="1")
        await world.until_running(2)
        await world.sleep(300)
        (claim,) = await world.claims()
        name = claim.metadata.name
        bound_s = await last_s(world, name)
        assert bound_s < world.clock.now_s() - 250
        await world.scale("web", 1)
        await world.sleep(20)
        removed_s = await last_s(world, name)
        assert world.clock.now_s() - 25 < removed_s <= world.clock.now_s()
        await world.sleep(300)
        assert await last_s(world, name) == removed_s

    app_world.run(program)
