"""How `holdfast run` ends as a process: promptly after SIGTERM, and with one line where AWS credentials are missing."""

import asyncio
import base64
import contextlib
import socket
import time
from pathlib import Path

import pytest

import process_environment
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from process_environment import ProcessEnvironment, Replica

EXIT_WITHIN_S = 2.0
SLOW_PLAN = Path(__file__).parent.parent / "support" / "slow_plan.py"


async def exit_s(replica: Replica) -> float:
    """How long the process runs after it logged that it stopped."""
    replica.process.terminate()
    await replica.wait_for_log("stopped")
    began_s = time.monotonic()
    assert await replica.ended() == 0
    return time.monotonic() - began_s


def test_sigterm_does_not_wait_for_a_long_poll(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            replica = await env.start(f"--interruption-queue={env.cloud.queue}")
            await replica.wait_for_log("acquired lease")

            async def polls() -> bool:
                return ("sqs", "GetQueueUrl", None) in env.cloud.endpoint.counts

            await env.until(polls, "the queue is polled")
            await env.clock.sleep(1)
            assert await exit_s(replica) < EXIT_WITHIN_S

    asyncio.run(main())


def test_sigterm_does_not_wait_for_a_plan(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            replica = await env.start(program=(str(SLOW_PLAN),))
            await env.node_class()
            await env.node_pool()
            await env.deploy("web", replicas=1)
            await replica.wait_for_log("planning for long")
            assert await exit_s(replica) < EXIT_WITHIN_S

    asyncio.run(main())


def test_sigterm_does_not_wait_for_a_scraper(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            replica = await env.start()
            started = await replica.wait_for_log("started")
            await replica.wait_for_log("acquired lease")
            with contextlib.ExitStack() as stack:
                for port in (started["metrics_port"], started["health_probe_port"]):
                    scraper = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                    scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: any\r\nContent-Length: 9\r\n\r\nhalf")
                assert await exit_s(replica) < EXIT_WITHIN_S

    asyncio.run(main())


async def last_line(env: ProcessEnvironment) -> str:
    """The last log line of a start that needs no call to AWS. Checks that the exit code is 1."""
    authority = base64.b64encode(env.sandbox.address.authority).decode()
    replica = await env.start(
        f"--cluster-endpoint={env.sandbox.address.url}",
        f"--cluster-ca-bundle={authority}",
        "--service-cidr=10.96.0.0/16",
    )
    assert await replica.ended() == 1
    env.replicas.remove(replica)
    assert [line["message"] for line in replica.lines] == ["starting", "exiting on an error"]
    return str(replica.lines[-1]["error"])


def test_run_without_aws_credentials_ends_with_one_line(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                del env.environ[name]
            env.environ["HOME"] = str(tmp_path)
            assert "AWS_ACCESS_KEY_ID" in await last_line(env)

    asyncio.run(main())


class Refused(NoFaults):
    def __init__(self, code: str) -> None:
        self._code = code

    def fault(self, *_: object) -> ApiError:
        return ApiError(self._code, "The security token included in the request is invalid.", status=403)


@pytest.mark.parametrize("code", ["InvalidClientTokenId", "AuthFailure", "ExpiredToken"])
def test_run_with_refused_aws_credentials_ends_with_one_line(tmp_path: Path, code: str) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            env.cloud.endpoint.faults = Refused(code)
            assert code in await last_line(env)

    asyncio.run(main())
