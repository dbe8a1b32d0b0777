"""Runs the program through random faults in virtual time and checks the state at the end: `make sim SEED=7`.

With one seed all steps are printed; with more (`make sim SEED=1 N=1000`), only the seeds that fail. The same seed gives
the same steps each time.
"""

import argparse
import sys
from collections import Counter

import structlog

from fault_simulation import harness
from fault_simulation.harness import Outcome


def main() -> int:
    options = _options()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(20 if options.log else 50))
    failed, judged = 0, Counter[str]()
    for seed in range(options.seed, options.seed + options.count):
        outcome = harness.run(seed, print if options.count == 1 else _keep_quiet)
        failed += bool(outcome.problems)
        judged += outcome.judged
        if outcome.problems or options.count == 1:
            print(text(outcome))
    if options.count > 1:
        print(f"{options.count} fault schedules, {failed} failed")
        print(
            "looked at meanwhile: " + ", ".join(f"{what} ({times})" for what, times in judged.most_common())
        )
    return 1 if failed else 0


def text(outcome: Outcome) -> str:
    if not outcome.problems:
        return f"seed {outcome.seed}: every rule holds {outcome.quiet_after_s:.0f} s after the last fault"
    lines = [f"seed {outcome.seed} fails; replay with: make sim SEED={outcome.seed}", *outcome.problems]
    return "\n  ".join(lines)


def _keep_quiet(_: str) -> None: ...


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--log", action="store_true", help="with what the program says")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
