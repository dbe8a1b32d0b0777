"""The series of one metric, and their lines in Prometheus' text format.

Called by `metrics`. The name and labels of a series are formatted once, when the series is created: a page of 100,000
lines is then mostly joining strings. A label with an empty value is left out, because Prometheus treats it as missing.
"""

import math
import operator
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

QUANTILES: Final = (0.0, 0.5, 0.9, 0.99, 1.0)  # Karpenter's
_RECENT: Final = 1000  # observations whose quantiles a summary has
# Buckets are some of Karpenter's: its 45 for durations would be most of the page (ADR 0056).
SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

LabelValues = tuple[str, ...]
Sample = tuple[
    str, LabelValues, str, str, float
]  # suffix, label values, name and value of one more label, value


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


@dataclass(slots=True)
class Distribution:
    """The observations of one series of a histogram or a summary."""

    counts: list[int]  # by bucket; the last one has no upper bound
    total: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))


class Family:
    """All series of a metric, by their label values."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._values_of = _getter(metric.labels)
        self._numbers: dict[LabelValues, float] = {}
        self._distributions: dict[LabelValues, Distribution] = {}
        self._texts: dict[LabelValues, str] = {}  # the labels, formatted
        self._is_replaced = False
        if not metric.labels:
            self._start()

    def _start(self) -> None:
        """A metric without labels exists from the start, as in other clients of Prometheus."""
        if self.metric.kind in ("counter", "gauge"):
            self._numbers[()] = 0.0
        else:
            self._distribution(())

    def key(self, labels: Mapping[str, str]) -> LabelValues:
        """Raises KeyError or ValueError if these are not the labels of the metric."""
        if len(labels) != len(self.metric.labels):
            raise ValueError(f"labels {sorted(labels)} instead of {sorted(self.metric.labels)}")
        return self._values_of(labels)

    def add(self, labels: Mapping[str, str], by: float) -> None:
        if by < 0:
            raise ValueError("a counter never decreases")
        key = self.key(labels)
        self._numbers[key] = self._numbers.get(key, 0.0) + by

    def set(self, labels: Mapping[str, str], value: float) -> None:
        self._numbers[self.key(labels)] = value

    def observe(self, labels: Mapping[str, str], value: float) -> None:
        found = self._distribution(self.key(labels))
        found.counts[bisect_left(self.metric.buckets, value)] += 1
        found.total += value
        if self.metric.kind == "summary":
            found.recent.append(value)

    def replace(self, series: dict[LabelValues, float]) -> None:
        """Sets all series at once; series that are not given are removed. Keeps the mapping, without a copy."""
        if series and len(next(iter(series))) != len(self.metric.labels):
            raise ValueError(f"not a value for each of {self.metric.labels}")
        self._numbers = series
        self._is_replaced = True
        if len(self._texts) > 2 * len(series):
            self._texts = {}

    def forget(self, label: str, value: str) -> None:
        """Removes the series that have this value of a label. Series that are replaced are left to the next call."""
        if label not in self.metric.labels or self._is_replaced:
            return
        position = self.metric.labels.index(label)
        for found in (self._numbers, self._distributions, self._texts):
            for key in [key for key in found if key[position] == value]:
                del found[key]

    # --- Reading --------------------------------------------------------------------------------------

    def samples(self) -> Iterator[Sample]:
        for key, value in tuple(self._numbers.items()):
            yield "", key, "", "", value
        for key, found in tuple(self._distributions.items()):
            yield from self._of(key, found)

    def lines(self) -> Iterator[str]:
        """The lines of this metric; none without series."""
        name = self.metric.name
        if self._numbers or self._distributions:
            yield f"# HELP {name} {_escaped_help(self.metric.about)}\n# TYPE {name} {self.metric.kind}\n"
        for suffix, key, label, label_value, value in self.samples():
            labels = self._text(key)
            if label:
                labels += f'{"," if labels else ""}{label}="{label_value}"'
            yield (
                f"{name}{suffix}{{{labels}}} {number(value)}\n"
                if labels
                else (f"{name}{suffix} {number(value)}\n")
            )

    def _of(self, key: LabelValues, found: Distribution) -> Iterator[Sample]:
        count = sum(found.counts)
        if self.metric.kind == "histogram":
            so_far = 0
            for bound, here in zip((*self.metric.buckets, math.inf), found.counts, strict=True):
                so_far += here
                yield "_bucket", key, "le", number(bound), so_far
        else:
            ordered = sorted(found.recent)
            for quantile in QUANTILES if ordered else ():
                place = max(0, math.ceil(quantile * len(ordered)) - 1)
                yield "", key, "quantile", number(quantile), ordered[place]
        yield "_sum", key, "", "", found.total
        yield "_count", key, "", "", count

    def _distribution(self, key: LabelValues) -> Distribution:
        found = self._distributions.get(key)
        if found is None:
            found = self._distributions[key] = Distribution([0] * (len(self.metric.buckets) + 1))
        return found

    def _text(self, key: LabelValues) -> str:
        text = self._texts.get(key)
        if text is None:
            pairs = zip(self.metric.labels, key, strict=True)
            text = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs if value)
            self._texts[key] = text
        return text


def _getter(names: tuple[str, ...]) -> Callable[[Mapping[str, str]], LabelValues]:
    """A function of the values of labels, in this order. Each reconcile sets several metrics, so it is a quick one."""
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda labels: tuple([labels[name] for name in names])


def number(value: float) -> str:
    """As Go writes it: a whole number without a fraction."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    return text.removesuffix(".0") if not math.isnan(value) else "NaN"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _escaped_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
