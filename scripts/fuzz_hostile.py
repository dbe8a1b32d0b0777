"""Runs the whole program with hostile objects in the cluster: `make fuzz-hostile N=100 SEED=1`.

Each seed is one cluster in virtual time. The first seed that fails ends the run with its error.
"""

import argparse

import structlog

import hostile_environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many clusters")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for seed in range(options.seed, options.seed + options.count):
        print(f"seed {seed}", flush=True)
        hostile_environment.run(seed)


if __name__ == "__main__":
    main()
