"""How long to wait after the nth failure in a row: twice as long each time, up to a cap, with jitter.

Callers: the work queue, reflectors, the Kubernetes client. The first half of a wait is kept, the other half is
rolled, so that many that failed together do not come back together, and none comes back at once.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.ports import Ids

_MOST_DOUBLINGS: Final = 40  # far above any cap; keeps the power from growing without bound


@dataclass(frozen=True, slots=True)
class Backoff:
    base_s: float
    cap_s: float

    def delay_s(self, failures: int, ids: Ids) -> float:
        """The wait after that many failures in a row, 1 being the first."""
        assert failures >= 1, failures
        longest_s = min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        return longest_s / 2 + ids.jitter(longest_s / 2)
