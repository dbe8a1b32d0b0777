"""How long the sizing takes: a week with 200 instance types and 100,000 changes of the number of instances.

Run by `make bench`. Three loads, two shortest durations. Prints a table and asserts nothing.
"""

import math
import random
import time
from typing import Final

from holdfast.api.simulation import ReservationPrice
from holdfast.api.simulation_results import OnDemandUse
from holdfast.simulate import sizing

TYPES: Final = 200
CHANGES: Final = 500  # of each type
WEEK_S: Final = 168 * 3600
LOADS: Final = ("random walk", "daily curve", "20 to 60 at random")
DURATIONS: Final = ("1h", "24h")


def main() -> None:
    print(f"{TYPES} instance types with {CHANGES} changes each, a slot at 0.7 of the on-demand price")
    for load in LOADS:
        uses = [use(load, number) for number in range(TYPES)]
        for shortest in DURATIONS:
            prices = [price(one, shortest) for one in uses]
            began_s = time.process_time()
            answer = sizing.size(uses, 0, WEEK_S, prices)
            took_s = time.process_time() - began_s
            print(f"{load:20} at least {shortest:4} {took_s:6.2f} s, {len(answer.results):6,} results")


def use(load: str, number: int) -> OnDemandUse:
    dice = random.Random(number)
    running, changes = 10, []
    for at in sorted(dice.sample(range(WEEK_S), CHANGES)):
        if load == "random walk":
            running = max(0, running + dice.choice((-1, 1)))
        elif load == "daily curve":
            running = round(30 + 20 * math.sin(at / 86_400 * math.tau)) + dice.randint(-3, 3)
        else:
            running = dice.randint(20, 60)
        changes.append((at, running))
    usd = 1 + number / 100
    return OnDemandUse(instance_type=f"t{number}", zone="a", usd_per_hour=usd, changes=tuple(changes))


def price(one: OnDemandUse, shortest: str) -> ReservationPrice:
    usd = f"{one.usd_per_hour * 0.7:.4f}"
    return ReservationPrice(instance_type=one.instance_type, usd_per_hour=usd, min_duration=shortest)


if __name__ == "__main__":
    main()
