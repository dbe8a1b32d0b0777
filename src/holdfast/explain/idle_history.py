"""What idle slots cost over the last 24 hours: one sample a minute, in memory. A restart starts anew."""

from collections import deque
from typing import Final

_DAY_S: Final = 24 * 3600
_LONGEST_S: Final = 600  # a longer gap between two samples is not counted: the process was paused
_SAMPLES_MAX: Final = 3 * 24 * 60


class IdleHistory:
    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque(maxlen=_SAMPLES_MAX)  # time, nano-USD an hour

    def add(self, at_s: int, nano_usd_per_hour: int) -> None:
        """Samples are added in order; one that is not later than the last is ignored."""
        if self._samples and at_s <= self._samples[-1][0]:
            return
        self._samples.append((at_s, nano_usd_per_hour))
        while self._samples[0][0] < at_s - _DAY_S:
            self._samples.popleft()

    @property
    def since_s(self) -> int:
        """The time of the first sample; 0: there is none."""
        return self._samples[0][0] if self._samples else 0

    @property
    def nano_usd(self) -> int:
        """The sum. Each rate holds until the next sample."""
        pairs = zip(self._samples, list(self._samples)[1:], strict=False)
        return sum(rate * min(later - at, _LONGEST_S) for (at, rate), (later, _) in pairs) // 3600
