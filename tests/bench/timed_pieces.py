"""Runs `holdfast`, and logs at its end the longest steps of its event loop, during which nothing else ran.

    python timed_pieces.py run --cluster-name blue

The line is JSON on standard error, in milliseconds of CPU time: the two longest steps, of which the longest is the freeze
of the garbage collector before it leads.
"""

import asyncio.events
import json
import sys
import time
from typing import Any

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

    try:
        main(prog_name="holdfast")
    finally:
        print(json.dumps({"message": EVENT, "ms": [one * 1000 for one in found]}), file=sys.stderr)
