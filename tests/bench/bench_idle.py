"""How often the whole program asks AWS for something while nothing happens, by the size of the cluster.

Run by `make bench`. The real program, with all its controllers, in virtual time on the simulated cluster and AWS; prints
a table and asserts nothing: `tests/scenario/test_idle.py` does.
"""

import logging
import sys

import structlog

import idle_world

MINUTES = 30
LARGE = 1000  # looking for a better home for each of so many pods takes the time, and asks AWS for nothing
SIZES = ((0, 0), (10, 1), (100, 10), (1000, 100))  # nodes and reservations


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print("calls a minute of the whole program while nothing happens, without SQS (goal 8)")
    print("  nodes  reservations   calls/min   which")
    for nodes, reservations in SIZES:
        after = "Never" if nodes >= LARGE else "30s"
        which = idle_world.calls(nodes, reservations, MINUTES, consolidate_after=after)
        words = ", ".join(f"{name} {count / MINUTES:.2f}" for name, count in which.most_common())
        print(f"  {nodes:5}  {reservations:12}   {which.total() / MINUTES:9.2f}   {words}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
