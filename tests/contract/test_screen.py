"""The terminal during and after a program that draws on it, for every way in which the program can end."""

import os
import signal
import sys

import pytest

import terminals
from holdfast.cli import screen

# Draws a line until it is stopped; the argument is raised as an error instead.
PROGRAM = """
import asyncio, sys
from holdfast.cli import signals
from holdfast.cli.screen import Output, Screen

async def main():
    stop = asyncio.Event()
    signals.on_stop(stop.set)
    output = Output(stop.set)
    screen = Screen(output, stop.set)
    with screen.active():
        count = 0
        while not stop.is_set():
            size = screen.size
            screen.draw(["running", f"frame {count}", f"size {size.columns}x{size.lines}"], size)
            count += 1
            await asyncio.sleep(0.01)
            if count == 3 and sys.argv[1:]:
                raise RuntimeError(sys.argv[1])
    output.write("stopped\\n")

asyncio.run(main())
"""
COMMAND = (sys.executable, "-c", PROGRAM)
pytestmark = pytest.mark.usefixtures("hangups")


@pytest.mark.parametrize(
    "keys", [b"q", b"Q", b"abcq", b"\x03", b"\x1c"], ids=["q", "Q", "abcq", "ctrl-c", "ctrl-\\"]
)
def test_key_stops_the_program_and_the_terminal_is_restored(keys: bytes) -> None:
    with terminals.terminal(*COMMAND) as terminal:
        terminal.until("frame 5")
        assert terminal.settings() != terminal.before
        terminal.press(keys)
        assert terminal.wait() == (0, "")
        assert terminal.settings() == terminal.before
    assert terminal.written.decode().replace("\r", "").endswith(f"{screen.LEAVE}stopped\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_terminal_is_restored_after_a_signal(number: signal.Signals) -> None:
    with terminals.terminal(*COMMAND) as terminal:
        terminal.until("frame 5")
        terminal.process.send_signal(number)
        assert terminal.wait() == (0, "")
        assert terminal.settings() == terminal.before
    assert screen.LEAVE in terminal.written.decode()


def test_terminal_is_restored_after_an_error() -> None:
    with terminals.terminal(*COMMAND, "the error") as terminal:
        code, stderr = terminal.wait()
        assert (code, stderr.splitlines()[-1]) == (1, "RuntimeError: the error")
        assert terminal.settings() == terminal.before
    assert screen.LEAVE in terminal.written.decode()


def test_closed_terminal_stops_the_program_without_an_error() -> None:
    with terminals.terminal(*COMMAND) as terminal:
        terminal.until("frame 5")
        terminal.hang_up()
        assert terminal.wait() == (0, "")


def test_suspended_program_returns_the_terminal_and_draws_again_when_it_continues() -> None:
    with terminals.terminal(*COMMAND) as terminal:
        terminal.until("frame 5")
        terminal.press(b"\x1a")
        os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED)
        assert terminal.settings() == terminal.before
        drawn = terminal.written.count(screen.CLEAR.encode())
        terminal.process.send_signal(signal.SIGCONT)
        while terminal.written.count(screen.CLEAR.encode()) == drawn:
            terminal.until("running")
        assert terminal.settings() != terminal.before
        terminal.press(b"q")
        assert terminal.wait() == (0, "")
        assert terminal.settings() == terminal.before


def test_only_changed_lines_are_written_until_the_terminal_is_resized() -> None:
    with terminals.terminal(*COMMAND) as terminal:
        terminal.until("frame 5", "size 80x24")
        assert terminal.written.count(b"running") == 1
        assert terminal.written.count(screen.CLEAR.encode()) == 1
        terminal.resize(100, 30)
        terminal.until("size 100x30")
        assert terminal.written.count(b"running") == 2
        terminal.press(b"q")
        assert terminal.wait() == (0, "")
