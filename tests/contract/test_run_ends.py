"""How `holdfast run` ends as a process: promptly after SIGTERM, and with one line where AWS credentials are missing."""

import asyncio
import base64
import contextlib
import socket
import time
from pathlib import Path

import pytest

import live_world
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from live_world import LiveWorld, Replica

EXIT_WITHIN_S = 2.0
SLOW_PLAN = Path(__file__).parent.parent / "support" / "slow_plan.py"


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
            await replica.says("acquired lease")

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


def test_sigterm_does_not_wait_for_a_scraper(tmp_path: Path) -> None:
    async def main() -> None:
        async with live_world.serving(tmp_path) as world:
            replica = await world.start()
            started = await replica.says("started")
            await replica.says("acquired lease")
            with contextlib.ExitStack() as stack:
                for port in (started["metrics_port"], started["health_probe_port"]):
                    scraper = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                    scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: any\r\nContent-Length: 9\r\n\r\nhalf")
                assert await exit_s(replica) < EXIT_WITHIN_S

    asyncio.run(main())


async def last_line(world: LiveWorld) -> str:
    """The last log line of a start that needs no call to AWS. Checks that the exit code is 1."""
    authority = base64.b64encode(world.world.address.authority).decode()
    replica = await world.start(
        f"--cluster-endpoint={world.world.address.url}",
        f"--cluster-ca-bundle={authority}",
        "--service-cidr=10.96.0.0/16",
    )
    assert await replica.ended() == 1
    world.replicas.remove(replica)
    assert [line["message"] for line in replica.lines] == ["starting", "exiting on an error"]
    return str(replica.lines[-1]["error"])


def test_run_without_aws_credentials_ends_with_one_line(tmp_path: Path) -> None:
    async def main() -> None:
        async with live_world.serving(tmp_path) as world:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                del world.environ[name]
            world.environ["HOME"] = str(tmp_path)
            assert "AWS_ACCESS_KEY_ID" in await last_line(world)

    asyncio.run(main())


class Refused(NoFaults):
    def __init__(self, code: str) -> None:
        self._code = code

    def fault(self, *_: object) -> ApiError:
        return ApiError(self._code, "The security token included in the request is invalid.", status=403)


@pytest.mark.parametrize("code", ["InvalidClientTokenId", "AuthFailure", "ExpiredToken"])
def test_run_with_refused_aws_credentials_ends_with_one_line(tmp_path: Path, code: str) -> None:
    async def main() -> None:
        async with live_world.serving(tmp_path) as world:
            world.cloud.endpoint.faults = Refused(code)
            assert code in await last_line(world)

    asyncio.run(main())
