"""How long further slots of a reservation would have been used, hour by hour.

`sizing` calls it. The k-th slot is used while at least k on-demand instances run, so in every hour a further slot is used
no longer than the one before it. What an hour gains by a slot is therefore concave in the number of slots; the search in
`sizing_periods` depends on it.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

HOUR_S: Final = 3600

Steps = tuple[tuple[int, int], ...]
"""Slots of one hour, the most used first: how many, and how many seconds each of them is used."""


def hourly(changes: Iterable[tuple[int, int]], begins_s: int, hours: int) -> list[Steps]:
    """Of each hour after `begins_s`. A number holds until the next change; the times ascend."""
    ends_s = begins_s + hours * HOUR_S
    seconds_by_number: list[dict[int, int]] = [{} for _ in range(hours)]
    for (since_s, number), (until_s, _) in pairwise((*changes, (ends_s, 0))):
        from_s, to_s = max(0, since_s - begins_s), min(until_s, ends_s) - begins_s
        while number and from_s < to_s:
            hour = from_s // HOUR_S
            next_s = min(to_s, (hour + 1) * HOUR_S)
            seconds_by_number[hour][number] = seconds_by_number[hour].get(number, 0) + next_s - from_s
            from_s = next_s
    return [_steps(of_hour) for of_hour in seconds_by_number]


def _steps(seconds_by_number: dict[int, int]) -> Steps:
    steps = []
    lower, used_s = 0, sum(seconds_by_number.values())
    for number in sorted(seconds_by_number):
        steps.append((number - lower, used_s))
        lower, used_s = number, used_s - seconds_by_number[number]
    return tuple(steps)


def instance_seconds(steps: Steps) -> int:
    return sum(slots * used_s for slots, used_s in steps)


def reduced(steps: Steps, instance_s: int) -> Steps:
    """Without so many instance-seconds, which the least used slots lose."""
    left = max(0, instance_seconds(steps) - instance_s)
    kept: list[tuple[int, int]] = []
    for slots, used_s in steps:
        whole = min(slots, left // used_s)
        left -= whole * used_s
        kept += [(whole, used_s)] if whole else []
        if whole < slots:
            kept += [(1, left)] if left else []
            break
    return tuple(kept)


def uncovered(
    use: Sequence[tuple[int, list[Steps]]], covered_nano_usd_s: int, hours: int
) -> list[list[Steps]]:
    """The use that a Savings Plan does not cover. `use` has the price of an instance in nano-USD an hour, and its steps by
    hour. The plan covers the same amount in each hour, at these prices, and the first of the list before the others."""
    left = [covered_nano_usd_s] * hours
    remaining = []
    for price, steps_by_hour in use:
        of_use = []
        for hour, steps in enumerate(steps_by_hour):
            covered_s = min(instance_seconds(steps), -(-left[hour] // price)) if price else 0
            left[hour] = max(0, left[hour] - covered_s * price)
            of_use.append(reduced(steps, covered_s))
        remaining.append(of_use)
    return remaining
