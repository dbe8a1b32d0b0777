"""The signals that stop `holdfast demo` and `holdfast sandbox`."""

import asyncio
import signal
from collections.abc import Callable


def on_stop(stop: Callable[[], None]) -> None:
    """Calls `stop` on SIGINT, SIGTERM and SIGHUP; not on SIGHUP when the command was started with nohup."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop)
