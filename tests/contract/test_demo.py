"""`holdfast demo` as a process: what it shows, what can be done in it, and what it leaves."""

import asyncio
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.api.nodes import Node
from holdfast.kube import kubeconfig
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.http import HttpTransport
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds

WITHIN_S = 90  # of a machine that is busy with much else
CLEAR = "\x1b[H\x1b[J"
DEMO = (sys.executable, "-m", "holdfast", "demo", "--speed", "30")


class Watched:
    """A demo whose lines are read as they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def says(self, wanted: str) -> re.Match[str]:
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            while True:
                for line in self.lines:
                    if found := re.search(wanted, line):
                        return found
                read = await self.process.stdout.readline()
                assert read, f"it ended and never said {wanted!r}: {self.lines}"
                self.lines.append(read.decode().rstrip())

    async def interrupt(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        async with asyncio.timeout(WITHIN_S):
            return await self.process.wait()


@asynccontextmanager
async def demo(*flags: str) -> AsyncIterator[Watched]:
    process = await asyncio.create_subprocess_exec(*DEMO, *flags, stdout=asyncio.subprocess.PIPE)
    try:
        yield Watched(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def nodes(config: Path) -> list[Node]:
    """As anybody sees them who has the kubeconfig."""
    clock = RealClock()
    transport = HttpTransport(kubeconfig.load([config], environ={}, clock=clock))
    try:
        kube = Client(transport=transport, clock=clock, ids=RealIds(), settings=ClientSettings())
        return list((await kube.list(Node)).items)
    finally:
        await transport.aclose()


def server(config: Path) -> str:
    return kubeconfig.load([config], environ={}, clock=RealClock()).server.url


def is_open(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as tried:
        return tried.connect_ex((parts.hostname or "", parts.port or 0)) == 0


def test_pods_run_in_paid_slots_and_an_interrupt_leaves_nothing() -> None:
    async def main() -> None:
        async with demo() as watched:
            config = Path((await watched.says(r"KUBECONFIG=(\S+)"))[1])
            aws = (await watched.says(r"AWS_ENDPOINT_URL=(\S+)"))[1]
            await watched.says(r"is launched: m5.xlarge in us-west-2a, in a paid slot of cr-")
            await watched.says(r"web: 3 of 3 pods run")
            found = await nodes(config)
            assert {n.metadata.labels["karpenter.sh/capacity-type"] for n in found} == {"reserved"}
            assert len(found) == 3
            kubernetes = server(config)
            assert is_open(aws)
            assert is_open(kubernetes)
            assert await watched.interrupt() == 0
            assert not config.parent.exists()
            assert not is_open(aws)
            assert not is_open(kubernetes)

    asyncio.run(main())


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_either_when_it_is_told_to_stop_or_its_terminal_is_closed(
    how: signal.Signals,
) -> None:
    async def main() -> None:
        async with demo() as watched:
            config = Path((await watched.says(r"KUBECONFIG=(\S+)"))[1])
            assert await watched.interrupt(how) == 0
            assert not config.parent.exists()

    asyncio.run(main())


def test_a_block_that_ends_is_drained_before_ec2_takes_it_and_so_is_an_interrupted_spot_node() -> None:
    async def main() -> None:
        async with demo() as watched:
            claim = (await watched.says(r"(training-\w+) is launched: p4d.24xlarge"))[1]
            await watched.says(r"EC2 takes a spot instance back in two minutes")
            await watched.says(r"general-\w+ is being emptied and ended")
            await watched.says(
                r"cr-\w+ ends in 40 minutes, and EC2 takes it back in 10: its nodes are drained"
            )
            await watched.says(rf"{claim} is being emptied and ended")
            await watched.says(rf"{claim} is gone")
            await watched.says(r"train-\S+ waits: ")
            assert await watched.interrupt() == 0

    asyncio.run(main())


def test_it_ends_by_itself_when_it_was_told_for_how_long() -> None:
    async def main() -> None:
        async with demo("--for", "20s", "--no-story") as watched:
            await watched.says("nothing is left of it")
            async with asyncio.timeout(WITHIN_S):
                assert await watched.process.wait() == 0
            assert not any("wants" in line for line in watched.lines)

    asyncio.run(main())


def test_on_a_terminal_it_draws_a_picture_and_gives_the_screen_back() -> None:
    ours, terminal = pty.openpty()
    size = {"COLUMNS": "100", "LINES": "50"}
    with subprocess.Popen(DEMO, stdout=terminal, env=os.environ | size) as process:  # noqa: S603 - ourselves
        os.close(terminal)
        frames = drawn(ours, until="web     3 of 3 run")
        process.send_signal(signal.SIGINT)
        rest = drawn(ours, until="")
        assert process.wait(WITHIN_S) == 0
    os.close(ours)
    assert "\x1b[?1049h" in frames[0]
    assert "\x1b[?1049l" in rest[-1]
    last = re.sub(r"\x1b\[[0-9;?]*[a-z]|\r", "", frames[-1])
    assert re.search(r"cr-\w+ +m5.xlarge +us-west-2a +targeted +\S+ +3 of 3 in use", last), last
    assert re.search(r"general-\w+ +m5.xlarge +us-west-2a +reserved +paid +(ready|joined) +web-", last), last
    assert re.search(r"capacity block +\S+ +\d of 1 in use +ends in 0:", last), last
    assert max(len(line) for line in last.splitlines()) <= 100


def drawn(terminal: int, until: str) -> list[str]:
    """The frames up to the first that shows something, whole; or all of them, to the end."""
    written = b""
    with suppress(OSError):  # how a terminal whose program has ended says so
        while chunk := os.read(terminal, 65536):
            written += chunk
            *frames, _ = written.decode(errors="replace").split(CLEAR)
            if until and frames and until in frames[-1]:
                return frames
    assert not until, "it ended and never showed it"
    return written.decode().split(CLEAR)
