"""A program that cannot read everything at once when it starts; in virtual time."""

import pytest
import structlog

import app_world
from app_world import AppWorld
from holdfast.app.program import App

SYNCED = "karpenter_cluster_state_synced"
UNSYNCED = "karpenter_cluster_state_unsynced_time_seconds"


def shown(app: App) -> tuple[float | None, float | None]:
    app.refresh_gauges()
    return app.metrics.value(SYNCED, {}), app.metrics.value(UNSYNCED, {})


@pytest.mark.fact("ST-3")
def test_unsynced_caches_are_logged_after_30_seconds_and_shown_in_metrics() -> None:
    async def program(world: AppWorld) -> None:
        await world.sleep(5)
        assert shown(world.app) == (1, 0)
        world.line.go_down()
        with structlog.testing.capture_logs() as said:
            await world.restart()
            await world.sleep(25)
            assert shown(world.app) == (0, 25)
            assert not [one for one in said if one["event"] == "waiting for caches to sync"]
            await world.sleep(30)
        told = [one for one in said if one["event"] == "waiting for caches to sync"]
        assert [one["seconds"] for one in told] == [30, 40, 50]
        assert "pods" in told[0]["missing"]
        world.line.come_back()
        await world.sleep(60)
        assert shown(world.app) == (1, 0)

    app_world.run(program)
