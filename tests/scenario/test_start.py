"""A start while the API server does not answer, in virtual time."""

import pytest
import structlog

import app_environment
from app_environment import AppEnvironment
from holdfast.app.program import App

SYNCED = "karpenter_cluster_state_synced"
UNSYNCED = "karpenter_cluster_state_unsynced_time_seconds"


def sync_gauges(app: App) -> tuple[float | None, float | None]:
    app.refresh_gauges()
    return app.metrics.value(SYNCED, {}), app.metrics.value(UNSYNCED, {})


@pytest.mark.fact("ST-3")
def test_unsynced_caches_are_logged_after_30_seconds_and_shown_in_metrics() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.sleep(5)
        assert sync_gauges(env.app) == (1, 0)
        env.line.go_down()
        with structlog.testing.capture_logs() as lines:
            await env.restart()
            await env.sleep(25)
            assert sync_gauges(env.app) == (0, 25)
            assert not [one for one in lines if one["event"] == "waiting for caches to sync"]
            await env.sleep(30)
        waiting_lines = [one for one in lines if one["event"] == "waiting for caches to sync"]
        assert [one["seconds"] for one in waiting_lines] == [30, 40, 50]
        assert "pods" in waiting_lines[0]["missing"]
        env.line.come_back()
        await env.sleep(60)
        assert sync_gauges(env.app) == (1, 0)

    app_environment.run(program)
