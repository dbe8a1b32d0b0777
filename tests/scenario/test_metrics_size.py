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
