"""A terminal that `holdfast demo` draws on: full screen, without an echo of keys, and restored at the end.

Only lines that changed are written, in one piece, so that the screen does not flicker. A terminal that is closed stops
the program like a signal: it is no error.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

# Alternate screen, no cursor, no automatic line breaks.
ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
CLEAR: Final = "\x1b[2J"
BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"  # terminals that do not know these ignore them
_QUIT: Final = frozenset(b"qQ")
_GONE: Final = (OSError, termios.error)


def is_drawable() -> bool:
    """Whether standard output is a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def has_color() -> bool:
    return not os.environ.get("NO_COLOR")


class Output:
    """Standard output. After it is closed, nothing is written."""

    def __init__(self, closed: Callable[[], None]) -> None:
        self._closed = closed

    def write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:  # the terminal or the pipe was closed
            with open(os.devnull, "w") as nothing:  # noqa: PTH123 - else Python reports the rest of the buffer at exit
                os.dup2(nothing.fileno(), sys.stdout.fileno())
            self._closed()


class Screen:
    """The whole terminal, within a `with` block. `stop` is called when a user presses q or the terminal is closed."""

    def __init__(self, output: Output, stop: Callable[[], None]) -> None:
        self._output = output
        self._stop = stop
        self._settings: list[Any] | None = None  # of the terminal, before
        self._shown: Sequence[str] = ()
        self._size = os.terminal_size((0, 0))

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        self._enter()
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        loop.add_signal_handler(signal.SIGQUIT, self._stop)
        if self._settings is not None:
            loop.add_reader(sys.stdin.fileno(), self._read_keys)
        try:
            yield
        finally:
            if self._settings is not None:
                loop.remove_reader(sys.stdin.fileno())
            loop.remove_signal_handler(signal.SIGTSTP)
            self._leave()

    @property
    def size(self) -> os.terminal_size:
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(sys.stdout.fileno())
            if size.columns and size.lines:
                return size
        return shutil.get_terminal_size()

    def draw(self, lines: Sequence[str], size: os.terminal_size) -> None:
        """Shows the lines, which are made for this size."""
        is_resized = self._size != size
        self._size = size
        changed = update(() if is_resized else self._shown, lines)
        if is_resized or changed:
            self._output.write(BEGIN_UPDATE + (CLEAR if is_resized else "") + changed + END_UPDATE)
        self._shown = tuple(lines)

    def _enter(self) -> None:
        if sys.stdin.isatty():
            with contextlib.suppress(*_GONE):
                self._settings = termios.tcgetattr(sys.stdin)
                tty.setcbreak(sys.stdin, termios.TCSANOW)
        self._output.write(ENTER)
        self._size = os.terminal_size((0, 0))  # draw all lines

    def _leave(self) -> None:
        self._output.write(LEAVE)
        if self._settings is not None:
            with contextlib.suppress(*_GONE):
                termios.tcflush(sys.stdin, termios.TCIFLUSH)
                termios.tcsetattr(sys.stdin, termios.TCSANOW, self._settings)

    def _read_keys(self) -> None:
        try:
            keys = os.read(sys.stdin.fileno(), 1024)
        except OSError:
            keys = b""
        if not keys:  # the terminal was closed
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        if not keys or _QUIT & set(keys):
            self._stop()

    def _suspend(self) -> None:
        """Ctrl-Z: gives the terminal back, stops, and draws again when the shell continues the program."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()


def update(before: Sequence[str], after: Sequence[str]) -> str:
    """What to write to change the lines of the screen."""
    parts = []
    for row in range(max(len(before), len(after))):
        line = after[row] if row < len(after) else ""
        if row >= len(before) or before[row] != line:
            # Erased first: after a full line, some terminals would erase its last character.
            parts.append(f"\x1b[{row + 1};1H\x1b[K{line}")
    return "".join(parts)
