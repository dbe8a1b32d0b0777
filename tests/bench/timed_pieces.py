"""Runs `holdfast`, and says at its end for how long at most its loop did one thing, and nothing else ran.

    python timed_pieces.py run --cluster-name blue

In milliseconds of processor time, as a line of JSON on standard error: the two longest pieces, of which the first is the
freeze of the garbage collector before it leads.
"""

import asyncio.events
import json
import sys
import time
from typing import Any

EVENT = "longest pieces"


def watch() -> list[float]:
    """The two longest from now on, in seconds."""
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
