"""`holdfast demo` as a process: its output, its addresses, and that it removes everything."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from holdfast.api.nodes import Node
from holdfast.kube import kubeconfig
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.http import HttpTransport
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds

WITHIN_S = 90  # on a busy computer
DEMO = (sys.executable, "-m", "holdfast", "demo", "--speed", "30")


class Demo:
    """A demo process and the lines that it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def until(self, wanted: str) -> re.Match[str]:
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            while True:
                for line in self.lines:
                    if found := re.search(wanted, line):
                        return found
                read = await self.process.stdout.readline()
                assert read, f"ended without printing {wanted!r}: {self.lines}"
                self.lines.append(read.decode().rstrip())

    async def interrupt(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        async with asyncio.timeout(WITHIN_S):
            return await self.process.wait()


@asynccontextmanager
async def demo(*flags: str) -> AsyncIterator[Demo]:
    process = await asyncio.create_subprocess_exec(*DEMO, *flags, stdout=asyncio.subprocess.PIPE)
    try:
        yield Demo(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def environment(running: Demo) -> dict[str, str]:
    """The variables of the file that the demo tells the user to source."""
    env = (await running.until(r"In another terminal +source (\S+)"))[1]
    lines = (await asyncio.to_thread(Path(env).read_text)).splitlines()
    return dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))


async def nodes(config: Path) -> list[Node]:
    """The Nodes, read with the demo's kubeconfig."""
    clock = RealClock()
    transport = HttpTransport(kubeconfig.load([config], environ={}, clock=clock))
    try:
        kube = Client(transport=transport, clock=clock, ids=RealIds(), settings=ClientSettings())
        return list((await kube.list(Node)).items)
    finally:
        await transport.aclose()


async def status(page: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session:
        async with session.get(page) as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
        async with session.get(f"{page}/api/v1/status") as answer:
            found: dict[str, Any] = await answer.json()
            return found


def server(config: Path) -> str:
    return kubeconfig.load([config], environ={}, clock=RealClock()).server.url


def is_open(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as connection:
        return connection.connect_ex((parts.hostname or "", parts.port or 0)) == 0


def test_pods_run_in_reserved_slots_and_sigint_removes_everything() -> None:
    async def main() -> None:
        async with demo() as running:
            environ = await environment(running)
            config, aws = Path(environ["KUBECONFIG"]), environ["AWS_ENDPOINT_URL"]
            await running.until(r"launched general-\w+: m5.xlarge in us-west-2a, reserved in cr-")
            await running.until(r"web: 3 of 3 pods run")
            found = await nodes(config)
            assert {n.metadata.labels["karpenter.sh/capacity-type"] for n in found} == {"reserved"}
            assert len(found) == 3
            kubernetes, page = server(config), (await running.until(r"Page +(http://127\.0\.0\.1:\d+)$"))[1]
            assert environ["HOLDFAST_SERVER"] == page
            assert {"reserved"} == {one["capacityType"] for one in (await status(page))["groups"]}
            urls = (aws, kubernetes, page)
            assert all(map(is_open, urls))
            assert await running.interrupt() == 0
            assert not config.parent.exists()
            assert not any(map(is_open, urls))

    asyncio.run(main())


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_remove_the_folder(
    how: signal.Signals,
) -> None:
    async def main() -> None:
        async with demo() as running:
            config = Path((await environment(running))["KUBECONFIG"])
            assert await running.interrupt(how) == 0
            assert not config.parent.exists()

    asyncio.run(main())


def test_an_ending_capacity_block_and_an_interrupted_spot_node_are_drained() -> None:
    async def main() -> None:
        async with demo() as running:
            claim = (await running.until(r"launched (training-\w+): p4d.24xlarge"))[1]
            await running.until(r"EC2 interrupts a spot instance in two minutes")
            await running.until(r"draining and terminating general-\w+")
            await running.until(
                r"cr-\w+ ends in 40 minutes; draining its nodes, because EC2 terminates them in 10"
            )
            await running.until(rf"draining and terminating {claim}")
            await running.until(rf"deleted {claim}")
            await running.until(r"train-\S+ is pending: ")
            assert await running.interrupt() == 0

    asyncio.run(main())


def test_training_story_starts_a_job_when_its_request_is_provisioned_and_sigint_removes_everything() -> None:
    async def main() -> None:
        async with demo("--story", "training") as running:
            config = Path((await environment(running))["KUBECONFIG"])
            await running.until(r"launched training-\w+: p5.48xlarge in us-west-2a, reserved in cr-")
            await running.until(r"ProvisioningRequest llama is Provisioned=True")
            await running.until(r"Kueue starts Job llama, because its request is Provisioned: 3 pods")
            await running.until(r"llama: 3 of 3 pods run")
            await running.until(r"ProvisioningRequest vision waits: only 1 of the 2 pods")
            assert await running.interrupt() == 0
            assert not config.parent.exists()

    asyncio.run(main())


def test_demo_stops_after_the_duration_of_for() -> None:
    async def main() -> None:
        async with demo("--for", "20s", "--no-story") as running:
            await running.until("The demo has stopped")
            async with asyncio.timeout(WITHIN_S):
                assert await running.process.wait() == 0
            assert not any("scale web" in line for line in running.lines)

    asyncio.run(main())


def test_demo_uses_the_folder_of_its_flag_and_removes_it(tmp_path: Path) -> None:
    folder = tmp_path / "demo"

    async def main() -> None:
        async with demo("--folder", str(folder)) as running:
            assert (await environment(running))["KUBECONFIG"] == str(folder / "kubeconfig")
            assert await running.interrupt() == 0

    asyncio.run(main())
    assert not folder.exists()


def test_demo_refuses_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep me")
    refused = subprocess.run(  # noqa: S603 - ourselves
        (*DEMO, "--folder", str(tmp_path)), capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    assert refused.returncode == 1
    assert refused.stderr == f"{tmp_path} is not empty\n"
    assert (tmp_path / "mine").exists()
