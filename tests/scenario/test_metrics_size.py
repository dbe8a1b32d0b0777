"""The size of /metrics stays bounded: with the instance types of a region, many NodePools, nodes and pods."""

import asyncio
import dataclasses

import pytest

import app_environment
import metrics_cluster
from app_environment import AppEnvironment, capacity_types
from holdfast import names
from holdfast.app.settings import Settings

EACH = dataclasses.replace(app_environment.SETTINGS, metrics_per_object=True)
OFFERINGS = dataclasses.replace(app_environment.SETTINGS, offering_metrics=True)


@pytest.mark.parametrize(
    ("settings", "most_kb"),
    [(app_environment.SETTINGS, 300), (OFFERINGS, None)],
    ids=["default", "offerings"],
)
def test_page_of_twenty_nodepools_that_launched_and_ended_nodes(
    settings: Settings, most_kb: int | None
) -> None:
    """All instance types of the region are in the catalog. Only offering metrics have series of them."""

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        for number in range(metrics_cluster.POOLS):
            await env.node_pool(f"team-{number:02}", requirements=[capacity_types("on-demand", "spot")])
        await env.sleep(70)
        for number in range(metrics_cluster.POOLS):
            await env.deploy(
                f"web-{number}", 1, nodeSelector={names.NODEPOOL: f"team-{number:02}"}, cpu="1500m"
            )
        await env.sleep(180)
        assert len(await env.claims()) == metrics_cluster.POOLS
        for number in range(0, metrics_cluster.POOLS, 2):
            await env.scale(f"web-{number}", 0)
        await env.sleep(600)
        await env.app.refresh_metrics()
        page = env.app.metrics.text()
        has_offerings = b"karpenter_cloudprovider_instance_type_offering_price_estimate{" in page
        assert has_offerings == settings.offering_metrics
        assert most_kb is None or len(page) < most_kb * 1000

    app_environment.run(program, settings=settings)


def test_page_of_five_thousand_nodes_with_ten_pods_each_is_below_two_megabytes() -> None:
    async def program() -> tuple[int, bytes]:
        app = metrics_cluster.app(5000, 10)
        metrics_cluster.record_everything(app)
        await app.refresh_metrics()
        page = app.metrics.text()
        return len(page), page

    size, page = asyncio.run(program())
    assert size < 2_000_000
    assert b'phase="Running",ready="true",managed="true"} 1250' in page


@pytest.mark.parametrize("settings", [app_environment.SETTINGS, EACH], ids=["sums", "each"])
def test_other_tasks_run_during_a_scrape(settings: Settings) -> None:
    """At least once for each hundred nodes or pods, and for each thousand lines."""

    async def program() -> tuple[int, int]:
        app = metrics_cluster.app(1000, 10, settings)
        turns = 0

        async def other_task() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(other_task())
        await app.refresh_metrics()
        of_refresh, turns = turns, 0
        lines = 0
        for piece in app.metrics.chunks():
            lines += piece.count(b"\n")
            await asyncio.sleep(0)
        other.cancel()
        assert turns >= lines / 1000
        return of_refresh, lines

    turns, lines = asyncio.run(program())
    assert turns >= 1000 / 100 * 4  # nodes, their pods, their conditions and the NodeClaims
    assert (lines > 10_000) == settings.metrics_per_object
