"""When a command that serves until it is told otherwise is told so. Called by `demo` and `sandbox`, inside their loop."""

import asyncio
import signal
from collections.abc import Callable


def when_told(stop: Callable[[], None]) -> None:
    """On Ctrl-C, on SIGTERM, and when the terminal is closed, unless it was started to outlive that, as nohup does."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop)
