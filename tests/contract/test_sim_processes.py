"""Real programs beside a simulation: started until they are ready, checked, and stopped with it."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane, processes
from holdfast.sim.processes import Health, Processes


def python(_: str) -> Path:
    """Python stands in for every program."""
    return Path(sys.executable)


async def serve(started: Processes, port: int) -> None:
    flags = ("-m", "http.server", "--bind", "127.0.0.1", str(port))
    await started.start("server", *flags, health=Health(f"http://127.0.0.1:{port}/"))


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def test_program_listens_once_it_is_ready_and_stops_when_the_block_ends(tmp_path: Path) -> None:
    async def main() -> None:
        (port,) = control_plane.free_ports(1)
        async with processes.running(tmp_path, RealClock(), python) as started:
            await serve(started, port)
            started.check()
            assert listens(port)
        assert not listens(port)
        assert b"GET / " in (tmp_path / "server.log").read_bytes()

    asyncio.run(main())


def test_program_that_does_not_become_ready_is_reported_with_its_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with processes.running(tmp_path, RealClock(), python) as started:
            await started.start(
                "broken", "-c", "raise SystemExit('no luck')", health=Health("http://127.0.0.1:1/")
            )

    with pytest.raises(errors.NotReady, match=rf"broken did not become ready; see {tmp_path}/broken\.log"):
        asyncio.run(main())
    assert (tmp_path / "broken.log").read_text().strip() == "no luck"


def test_program_that_exits_is_reported(tmp_path: Path) -> None:
    async def main() -> None:
        (port,) = control_plane.free_ports(1)
        async with processes.running(tmp_path, RealClock(), python) as started:
            once = (
                "import http.server as h, sys\n"
                f"h.HTTPServer(('127.0.0.1', {port}), h.SimpleHTTPRequestHandler).handle_request()\n"
                "sys.exit(7)\n"
            )
            await started.start("mortal", "-c", once, health=Health(f"http://127.0.0.1:{port}/"))
            async with asyncio.timeout(30):
                while True:
                    started.check()
                    await asyncio.sleep(0.05)

    with pytest.raises(errors.NotReady, match="mortal ended by itself, with 7"):
        asyncio.run(main())
