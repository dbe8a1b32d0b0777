"""A program on a terminal of its own, for tests of what it draws and of how it leaves the terminal."""

import fcntl
import itertools
import os
import pty
import queue
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import draw_demo

WITHIN_S = 90  # on a busy computer
SCREENS = 1000  # that a test waits for; the demo draws at most four a second
_CODE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal:
    def __init__(self, command: tuple[str, ...], size: tuple[int, int], environ: Mapping[str, str]) -> None:
        self.ours, self._theirs = pty.openpty()
        self.resize(*size)
        self.before = self.settings()
        self.process = subprocess.Popen(  # noqa: S603 - ourselves
            ("/usr/bin/setsid", "--ctty", *command),  # the terminal controls the program: closing it sends SIGHUP
            stdin=self._theirs, stdout=self._theirs, stderr=subprocess.PIPE, env=environ,
        )  # fmt: skip
        self.written = b""
        self._chunks: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._screens = draw_demo.screens(iter(lambda: self._chunks.get(timeout=WITHIN_S), b""))

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def settings(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def until(self, *wanted: str) -> list[str]:
        """The lines of the first screen with all of `wanted`, without colors."""
        return self._first(lambda lines: all(re.search(one, "\n".join(lines)) for one in wanted), str(wanted))

    def until_it_fits(self, columns: int, rows: int) -> list[str]:
        """The lines of the first screen of at most that size."""
        return self._first(
            lambda lines: len(lines) <= rows and max(map(len, lines)) <= columns, f"{columns}x{rows}"
        )

    def _first(self, is_wanted: Callable[[list[str]], bool], name: str) -> list[str]:
        lines = [""]
        for drawn in itertools.islice(self._screens, SCREENS):
            lines = plain(drawn).split("\n")
            if is_wanted(lines):
                return lines
        raise AssertionError(f"no screen has {name}; the last is\n" + "\n".join(lines))

    def wait(self) -> tuple[int, str]:
        """The exit code and standard error, after the program has ended."""
        _, stderr = self.process.communicate(timeout=WITHIN_S)
        return self.process.returncode, stderr.decode()

    def hang_up(self) -> None:
        """Closes the terminal as its window does."""
        os.close(self._theirs)
        self._theirs = -1
        os.close(self.ours)
        self.ours = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        if self._theirs >= 0:
            os.close(self._theirs)
        self._reader.join()
        if self.ours >= 0:
            os.close(self.ours)

    def _read(self) -> None:
        with suppress(OSError):  # raised when no program has the other end
            while chunk := os.read(self.ours, 65536):
                self.written += chunk
                self._chunks.put(chunk)
        self._chunks.put(b"")


@contextmanager
def terminal(
    *command: str, size: tuple[int, int] = (80, 24), environ: Mapping[str, str] = os.environ
) -> Iterator[Terminal]:
    one = Terminal(command, size, {"TERM": "xterm", **environ})
    try:
        yield one
    finally:
        one.close()


def plain(screen: str) -> str:
    return _CODE.sub("", screen)
