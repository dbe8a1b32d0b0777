"""Random choices from a seed, for generators."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def some(self, values: Sequence[T], least: int = 1) -> list[T]:
        """A random subset with at least `least` values, in their order."""
        count = self._random.randint(min(least, len(values)), len(values))
        chosen = set(self._random.sample(range(len(values)), count))
        return [value for index, value in enumerate(values) if index in chosen]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        return self._random.sample(values, len(values))
