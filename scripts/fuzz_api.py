"""Sends malformed requests to the embedded API server: `make fuzz-api N=10000 SEED=1`.

Each seed is one request. The server must reject it with 4xx and a Status, or carry it out if the mutation left it
well-formed. A 5xx, an exception or a hang is a failure. A seed that fails is printed with its request.
"""

import argparse
import asyncio
import sys
from collections import Counter

import malformed


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="how many requests")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    server = await malformed.server()
    statuses, failed = Counter[int](), 0
    for seed in range(options.seed, options.seed + options.count):
        case = malformed.case(seed)
        verdict = await malformed.check_case(server, case)
        statuses[verdict.status] += 1
        if verdict.problem:
            failed += 1
            print(f"seed {seed}: {verdict.problem}: {str(case.request)[:500]}")
    counted = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
    print(f"{options.count} requests: {counted}; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
