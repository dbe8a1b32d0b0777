"""Exponential backoff with a cap and jitter.

Half of each delay is random, so that requests that failed together are not retried together; the other half is fixed,
so that none is retried at once.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.ports import Ids

_MAX_DOUBLINGS: Final = 40  # far above any cap; keeps the power from overflowing


@dataclass(frozen=True, slots=True)
class Backoff:
    base_s: float
    cap_s: float

    def delay_s(self, failures: int, ids: Ids) -> float:
        """The delay after this many failures in a row, at least 1."""
        assert failures >= 1, failures
        longest_s = min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))
        return longest_s / 2 + ids.jitter(longest_s / 2)
