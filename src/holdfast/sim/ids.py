"""The Ids port from a seed: the same names and random numbers in every run."""

import random


class SeededIds:
    def __init__(self, seed: int | str) -> None:
        # Two generators, so that one more jitter does not change all later names.
        self._names = random.Random(f"names {seed}")  # noqa: S311 - dice with a seed are what replays a run
        self._waits = random.Random(f"waits {seed}")  # noqa: S311 - as above

    def token(self) -> str:
        return f"{self._names.getrandbits(128):032x}"

    def jitter(self, seconds: float) -> float:
        return self._waits.random() * seconds
