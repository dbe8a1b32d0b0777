"""Real programs beside the simulator: started, waited for until they are ready, and ended in order.

Called by `control_plane` and by tests that run another project's autoscaler. The rules: everything that was
started has ended when the block ends, the last one first; each program writes to a log of its own.
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
    """Where a program says that it is ready."""

    url: str
    trust: ssl.SSLContext | bool = (
        False  # False: any certificate will do, since it is our own program on loopback
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
        """Returns when the program says that it is ready; NotReady when it does not, or ends."""
        with self.log(name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *_ending_with_us(),
                self._find(name),
                *flags,
                cwd=self._folder,
                env=environ,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is ours alone; we end them in order
            )
        self._running.append((name, process))
        until_s = self._clock.monotonic_s() + _READY_S
        async with aiohttp.ClientSession(trust_env=False) as session:
            while not await _is_ready(session, health):
                if process.returncode is not None or self._clock.monotonic_s() > until_s:
                    raise errors.NotReady(f"{name} did not become ready; see {self.log(name)}")
                await self._clock.sleep(_PERIOD_S)

    def check(self) -> None:
        """NotReady when a program has ended by itself."""
        for name, process in self._running:
            if process.returncode is not None:
                raise errors.NotReady(
                    f"{name} ended by itself, with {process.returncode}; see {self.log(name)}"
                )

    async def stop(self) -> None:
        while self._running:
            _, process = self._running.pop()
            if process.returncode is None:
                process.terminate()
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
    """Where the system supports it, a program gets SIGTERM when this process is killed and cannot send it."""
    wrapper = shutil.which("setpriv")
    return (wrapper, "--pdeathsig", "TERM", "--") if wrapper else ()


async def _is_ready(session: aiohttp.ClientSession, health: Health) -> bool:
    headers = {"Authorization": f"Bearer {health.token}"} if health.token else {}
    try:
        async with session.get(health.url, headers=headers, ssl=health.trust) as answer:
            return answer.status == _OK
    except (aiohttp.ClientError, OSError):
        return False
