"""Starts real programs, waits until they are ready, and stops them in order.

Called by `control_plane` and by tests that run another project's autoscaler. All programs are stopped when the block
ends, the last one first. Each program has its own log.
"""

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from holdfast import errors
from holdfast.ports import Clock
from holdfast.sim import programs

_READY_S: Final = 120.0
_PERIOD_S: Final = 0.1
_STOP_S: Final = 20.0
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Health:
    """The endpoint of a program's readiness check."""

    url: str
    trust: ssl.SSLContext | bool = (
        False  # False: accept any certificate, because it is a local program on loopback
    )
    token: str = ""


class Processes:
    def __init__(self, folder: Path, clock: Clock, find: Callable[[str], Path] = programs.find) -> None:
        self._folder = folder
        self._clock = clock
        self._find = find
        self._running: list[tuple[str, asyncio.subprocess.Process]] = []

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    async def start(
        self, name: str, *flags: str, health: Health, environ: Mapping[str, str] | None = None
    ) -> None:
        """Returns when the program is ready; raises NotReady when it does not become ready, or exits."""
        with self.log(name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *_ending_with_us(),
                self._find(name),
                *flags,
                cwd=self._folder,
                env=environ,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C signals only this process, which stops them in order
            )
        self._running.append((name, process))
        until_s = self._clock.monotonic_s() + _READY_S
        async with aiohttp.ClientSession(trust_env=False) as session:
            while not await _is_ready(session, health):
                if process.returncode is not None or self._clock.monotonic_s() > until_s:
                    raise errors.NotReady(f"{name} did not become ready; see {self.log(name)}")
                await self._clock.sleep(_PERIOD_S)

    def check(self) -> None:
        """Raises NotReady when a program has exited."""
        for name, process in self._running:
            if process.returncode is not None:
                raise errors.NotReady(
                    f"{name} ended by itself, with {process.returncode}; see {self.log(name)}"
                )

    async def stop(self, *, kill: bool = False) -> None:
        """Stops all programs, the last one first. `kill`: like a crash, without a signal that they can handle."""
        while self._running:
            _, process = self._running.pop()
            if process.returncode is None:
                process.kill() if kill else process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()


@contextlib.asynccontextmanager
async def running(
    folder: Path, clock: Clock, find: Callable[[str], Path] = programs.find
) -> AsyncIterator[Processes]:
    started = Processes(folder, clock, find)
    try:
        yield started
    finally:
        await started.stop()


def _ending_with_us() -> tuple[str, ...]:
    """On systems that support it, a program gets SIGTERM when this process is killed."""
    wrapper = shutil.which("setpriv")
    return (wrapper, "--pdeathsig", "TERM", "--") if wrapper else ()


async def _is_ready(session: aiohttp.ClientSession, health: Health) -> bool:
    headers = {"Authorization": f"Bearer {health.token}"} if health.token else {}
    try:
        async with session.get(health.url, headers=headers, ssl=health.trust) as answer:
            return answer.status == _OK
    except (aiohttp.ClientError, OSError):
        return False
