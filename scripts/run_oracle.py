"""Compares plans of small random cases with the best plans, which an integer program finds: `make oracle`.

Fails when a plan leaves out pods that could be placed, or launches nodes although free slots could replace them.
"""

import argparse
import itertools
import sys

from holdfast.core.scheduling.input.request import Packing
from oracle import cases, compare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    missed = 0
    kinds = (("any", cases.case), ("one pod a node", cases.one_per_node))
    for packing, (name, make) in itertools.product(Packing, kinds):
        found = compare.compare(range(options.seed, options.seed + options.count), packing, make)
        print(f"packing {packing}, {name}: {found.text()}", flush=True)
        for what, seeds in (("fewer pods", found.fewer_pods), ("unused slots", found.unused_slots)):
            missed += len(seeds)
            if seeds:
                print(f"  {what}: seeds {', '.join(map(str, seeds))}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
