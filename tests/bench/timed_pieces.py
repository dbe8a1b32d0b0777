"""Runs `holdfast`, and logs at its end the longest steps of its event loop, during which nothing else ran.

    python timed_pieces.py run --cluster-name blue

The line is JSON on standard error, in milliseconds of CPU time: the two longest steps, of which the longest is the freeze
of the garbage collector before it leads.
"""

import asyncio.events
import json
import os
import sys
import time
from typing import Any, NoReturn

EVENT = "longest pieces"


def watch() -> list[float]:
    """The two longest steps from now on, in seconds."""
    longest = [0.0, 0.0]
    run: Any = asyncio.events.Handle._run

    def timed(handle: Any) -> None:
        began_s = time.thread_time()
        run(handle)
        longest[:] = sorted((*longest, time.thread_time() - began_s))[1:]

    asyncio.events.Handle._run = timed  # type: ignore[assignment, method-assign]
    return longest


if __name__ == "__main__":
    found = watch()
    from holdfast.cli import main

    leave = os._exit

    def report_and_leave(status: int) -> NoReturn:
        """`holdfast run` ends with os._exit, which runs no `finally`."""
        line = json.dumps({"message": EVENT, "ms": [one * 1000 for one in found]})
        print(line, file=sys.stderr, flush=True)
        leave(status)

    os._exit = report_and_leave
    main(prog_name="holdfast")
