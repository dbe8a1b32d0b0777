"""How `holdfast run` ends as a process: promptly after SIGTERM."""

import asyncio
import time
from pathlib import Path

import live_world
from live_world import Replica

EXIT_WITHIN_S = 2.0
SLOW_PLAN = Path(__file__).parent.parent / "slow_plan.py"


async def exit_s(replica: Replica) -> float:
    """How long the process runs after it logged that it stopped."""
    replica.process.terminate()
    await replica.says("stopped")
    began_s = time.monotonic()
    assert await replica.ended() == 0
    return time.monotonic() - began_s


def test_sigterm_does_not_wait_for_a_long_poll(tmp_path: Path) -> None:
    async def main() -> None:
        async with live_world.serving(tmp_path) as world:
            replica = await world.start(f"--interruption-queue={world.cloud.queue}")
            await replica.says("leading")

            async def polls() -> bool:
                return ("sqs", "GetQueueUrl", None) in world.cloud.endpoint.counts

            await world.until(polls, "the queue is polled")
            await world.clock.sleep(1)
            assert await exit_s(replica) < EXIT_WITHIN_S

    asyncio.run(main())


def test_sigterm_does_not_wait_for_a_plan(tmp_path: Path) -> None:
    async def main() -> None:
        async with live_world.serving(tmp_path) as world:
            replica = await world.start(program=(str(SLOW_PLAN),))
            await world.node_class()
            await world.node_pool()
            await world.deploy("web", replicas=1)
            await replica.says("planning for long")
            assert await exit_s(replica) < EXIT_WITHIN_S

    asyncio.run(main())
