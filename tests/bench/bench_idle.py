"""How many AWS calls all controllers make while nothing happens, by the size of the cluster.

Run by `make bench`. All controllers run in virtual time on the simulated cluster and AWS. Prints a table and asserts
nothing: `tests/scenario/test_idle.py` does.
"""

import logging
import sys

import structlog

import idle_environment

MINUTES = 30
LARGE = 1000  # consolidation of so many pods takes most of the time, and makes no AWS calls
SIZES = ((0, 0), (10, 1), (100, 10), (1000, 100))  # nodes and reservations


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print("calls a minute of all controllers while nothing happens, without SQS (goal 8)")
    print("  nodes  reservations   calls/min   by operation")
    for nodes, reservations in SIZES:
        after = "Never" if nodes >= LARGE else "30s"
        counts = idle_environment.calls(nodes, reservations, MINUTES, consolidate_after=after)
        details = ", ".join(f"{name} {count / MINUTES:.2f}" for name, count in counts.most_common())
        print(f"  {nodes:5}  {reservations:12}   {counts.total() / MINUTES:9.2f}   {details}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
