"""The size of /metrics, how long a scrape takes, and the longest step of the event loop meanwhile.

Run by `make bench`. Prints a table and asserts nothing: `tests/contract/test_metrics_size.py` asserts the sizes.
"""

import asyncio
import dataclasses
import gc
import logging
import time

import structlog

import app_environment
import metrics_cluster
from bench import timed_pieces
from holdfast.app.program import App
from holdfast.app.settings import Settings

EACH = dataclasses.replace(app_environment.SETTINGS, metrics_per_object=True)
ROWS = (
    (20, 10, app_environment.SETTINGS),
    (5_000, 10, app_environment.SETTINGS),
    (10_000, 10, app_environment.SETTINGS),
    (1_000, 10, EACH),
    (10_000, 10, EACH),
)


async def scrape(app: App) -> tuple[float, float, int]:
    """Seconds, the longest step in seconds, and bytes."""
    longest = timed_pieces.watch()
    began_s = time.perf_counter()
    await app.refresh_metrics()
    size = 0
    for piece in app.metrics.chunks():
        size += len(piece)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    return time.perf_counter() - began_s, max(longest), size


async def measured(nodes: int, each: int, settings: Settings) -> str:
    app = metrics_cluster.app(nodes, each, settings)
    metrics_cluster.record_everything(app)
    gc.freeze()  # as `holdfast run` does after its caches are synced
    first, following = await scrape(app), await scrape(app)
    gc.unfreeze()
    kind = "each" if settings.metrics_per_object else "sums"
    return (
        f"{nodes:7,} {nodes * each:7,}  {kind:9} {following[2] / 1000:6,.0f}"
        f"   {first[0]:6.2f}, {following[0]:6.2f}         {first[1] * 1000:6.0f}, {following[1] * 1000:6.0f}"
    )


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print("  nodes    pods  series of     KB   seconds: first, next   longest step, ms: first, next")
    for nodes, each, settings in ROWS:
        print(asyncio.run(measured(nodes, each, settings)), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
