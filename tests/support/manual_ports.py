"""Ports for tests: a clock that a test moves, ids from a seed, and a recorder that collects events and metrics."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping

from holdfast.api.meta import Object
from holdfast.cloud.aws import metrics as aws_metrics

START_S = 1_794_736_800  # 2026-11-15T10:00:00Z


class ManualClock:
    """A clock that advances only when a test moves it or a task sleeps."""

    def __init__(self, start_s: int = START_S) -> None:
        self._now_s = float(start_s)
        self.slept: list[float] = []

    def now_s(self) -> int:
        return int(self._now_s)

    def monotonic_s(self) -> float:
        return self._now_s - START_S

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self._now_s += seconds


class SeededIds:
    def __init__(self, seed: int = 1) -> None:
        self._dice = random.Random(seed)

    def token(self) -> str:
        return f"{self._dice.getrandbits(128):032x}"

    def jitter(self, seconds: float) -> float:
        return self._dice.uniform(0, seconds)


class CollectingRecorder:
    """Collects events and metrics, so that tests can check them."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self.gauges: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.observed: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
        self.events: list[tuple[str, str, str]] = []
        self.decisions: list[tuple[str, str, str]] = []

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        del warning
        self.events.append((about.metadata.name, reason, message))

    def decision(self, type_: str, about: Object, text: str, reasons: Iterable[str] = ()) -> None:
        del reasons
        self.decisions.append((type_, about.metadata.name, text))

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        self.counts[metric, tuple(sorted(labels.items()))] += int(by)

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        self.observed.setdefault((metric, tuple(sorted(labels.items()))), []).append(value)

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        self.gauges[metric, tuple(sorted(labels.items()))] = value

    def replace(self, metric: str, series: dict[tuple[str, ...], float]) -> None:
        (labels,) = (one.labels for one in aws_metrics.METRICS if one.name == metric)
        self.gauges = {key: value for key, value in self.gauges.items() if key[0] != metric}
        self.gauges |= {
            (metric, tuple(sorted(zip(labels, key, strict=True)))): value for key, value in series.items()
        }

    def forget(self, label: str, value: str) -> None:
        self.gauges = {key: number for key, number in self.gauges.items() if (label, value) not in key[1]}

    def total(self, metric: str, **labels: str) -> int:
        """The sum of a counter over all label sets that contain these labels."""
        expected = set(labels.items())
        return sum(
            n
            for (name, metric_labels), n in self.counts.items()
            if name == metric and expected <= set(metric_labels)
        )
