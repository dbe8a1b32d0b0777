"""A Recorder that collects events and metrics, for tests without an API server."""

from collections import Counter
from collections.abc import Iterable, Mapping

from holdfast.api.meta import Object


class KeepingRecorder:
    """Implements the Recorder port."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.decisions: list[tuple[str, str, str]] = []
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.gauges: dict[tuple[str, ...], float] = {}
        self.observed: dict[tuple[str, ...], list[float]] = {}

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        del warning
        self.events.append((about.metadata.name, reason, message))

    def decision(self, type_: str, about: Object, text: str, reasons: Iterable[str] = ()) -> None:
        del reasons
        self.decisions.append((type_, about.metadata.name, text))

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        self.counts[metric, *labels.values()] += int(by)

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        self.observed.setdefault((metric, *labels.values()), []).append(value)

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        self.gauges[metric, *labels.values()] = value

    def replace(self, metric: str, series: dict[tuple[str, ...], float]) -> None:
        self.gauges = {key: value for key, value in self.gauges.items() if key[0] != metric}
        self.gauges |= {(metric, *key): value for key, value in series.items()}

    def forget(self, label: str, value: str) -> None:
        del label
        self.gauges = {key: number for key, number in self.gauges.items() if value not in key[1:]}
