"""The metrics registry.

`app` creates one with the metrics of all controllers, `recorder` writes to it, `health` serves it. It is not global, so
that two replicas in one process do not share numbers. Using an undeclared metric or other labels is a defect: it fails
an assertion in simulation, and is counted in production.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MISTAKES: Final = "holdfast_metric_mistakes_total"

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = _SECONDS


# controller-runtime's names where it has the metric: dashboards use them.
ENGINE: Final = (
    Metric(
        "controller_runtime_reconcile_total",
        "counter",
        "Reconciles by their result.",
        ("controller", "result"),
    ),
    Metric(
        "controller_runtime_reconcile_time_seconds", "histogram", "Duration of reconciles.", ("controller",)
    ),
    Metric("controller_runtime_active_workers", "gauge", "Reconciles in progress.", ("controller",)),
    Metric("workqueue_depth", "gauge", "Keys in the work queue.", ("name",)),
    Metric("leader_election_master_status", "gauge", "1 while this replica leads.", ("name",)),
    Metric(
        "holdfast_failing_keys",
        "gauge",
        "Keys whose last reconcile raised an unexpected error; the log has the traceback.",
        ("controller",),
    ),
    Metric("holdfast_watch_lists_total", "counter", "Complete lists read to start a watch.", ("resource",)),
    Metric(
        "holdfast_unreadable_objects",
        "gauge",
        "Objects of the API server that cannot be decoded; the log names them.",
        ("resource",),
    ),
    Metric("holdfast_events_dropped_total", "counter", "Events that were not sent.", ("why",)),
    Metric(
        "holdfast_unexpected_errors_total",
        "counter",
        "Unexpected errors; the log has the traceback.",
        ("where",),
    ),
    Metric(MISTAKES, "counter", "Uses of a metric that is not declared, or with other labels.", ("metric",)),
)


class Metrics:
    def __init__(self, declared: Iterable[Metric], *, strict: bool) -> None:
        self._strict = strict
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in (*ENGINE, *declared):
            self._declare(metric)

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        try:
            (self._counters[metric].labels(**labels) if labels else self._counters[metric]).inc(by)
        except (KeyError, ValueError) as error:
            self._mistake(metric, error)

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        try:
            (self._histograms[metric].labels(**labels) if labels else self._histograms[metric]).observe(value)
        except (KeyError, ValueError) as error:
            self._mistake(metric, error)

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        try:
            (self._gauges[metric].labels(**labels) if labels else self._gauges[metric]).set(value)
        except (KeyError, ValueError) as error:
            self._mistake(metric, error)

    def add_process(self) -> None:
        """Memory, processor time and open files of this process."""
        ProcessCollector(registry=self._registry)

    def value(self, sample: str, labels: Mapping[str, str]) -> float | None:
        """The value of one sample, or None if it was never set."""
        return self._registry.get_sample_value(sample, dict(labels))

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _declare(self, metric: Metric) -> None:
        match metric.kind:
            case "counter":
                self._counters[metric.name] = Counter(
                    metric.name, metric.about, metric.labels, registry=self._registry
                )
            case "gauge":
                self._gauges[metric.name] = Gauge(
                    metric.name, metric.about, metric.labels, registry=self._registry
                )
            case "histogram":
                self._histograms[metric.name] = Histogram(
                    metric.name, metric.about, metric.labels, registry=self._registry, buckets=metric.buckets
                )

    def _mistake(self, metric: str, error: Exception) -> None:
        assert not self._strict, f"{metric}: {error!r}"
        self._counters[MISTAKES].labels(metric=metric).inc()
