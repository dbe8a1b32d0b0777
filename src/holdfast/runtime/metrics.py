"""The metrics registry.

`app` creates one with the metrics of all controllers, `recorder` writes to it, `health` serves it. It is not global, so
that two replicas in one process do not share numbers. Using an undeclared metric or other labels is a defect: it fails
an assertion in simulation, and is counted in production.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from holdfast.runtime.series import Family, LabelValues, Metric

__all__ = ["CONTENT_TYPE", "ENGINE", "MISTAKES", "Metric", "Metrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MISTAKES: Final = "holdfast_metric_mistakes_total"
_TENS: Final = (1e-3, 0.1, 1.0, 10.0, 100.0)  # some of client-go's
_LINES: Final = 250  # of a piece, in at most 5 ms


# client-go's names. Its label `controller` equals `name`; `priority` is empty, since the queues have no priorities.
_QUEUE: Final = ("name", "controller")
WORK_QUEUE: Final = (
    Metric("workqueue_depth", "gauge", "Keys that wait in a work queue.", (*_QUEUE, "priority")),
    Metric("workqueue_adds_total", "counter", "Keys added to a work queue.", _QUEUE),
    Metric("workqueue_retries_total", "counter", "Keys added again after a failure.", _QUEUE),
    Metric(
        "workqueue_queue_duration_seconds", "histogram", "How long keys waited in a queue.", _QUEUE, _TENS
    ),
    Metric(
        "workqueue_work_duration_seconds", "histogram", "How long reconciles of keys took.", _QUEUE, _TENS
    ),
    Metric(
        "workqueue_unfinished_work_seconds", "gauge", "Sum of the ages of reconciles in progress.", _QUEUE
    ),
    Metric(
        "workqueue_longest_running_processor_seconds",
        "gauge",
        "Age of the oldest reconcile in progress.",
        _QUEUE,
    ),
)
# controller-runtime's names where it has the metric: dashboards use them.
ENGINE: Final = (
    Metric(
        "controller_runtime_reconcile_total",
        "counter",
        "Reconciles by their result.",
        ("controller", "result"),
    ),
    Metric(
        "controller_runtime_reconcile_time_seconds",
        "histogram",
        "Duration of reconciles.",
        ("controller",),
        (0.01, 0.1, 0.5, 1, 5, 10, 60),
    ),
    Metric("controller_runtime_active_workers", "gauge", "Reconciles in progress.", ("controller",)),
    Metric(
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        "The most reconciles at once.",
        ("controller",),
    ),
    Metric(
        "controller_runtime_reconcile_errors_total", "counter", "Reconciles that failed.", ("controller",)
    ),
    Metric(
        "controller_runtime_terminal_reconcile_errors_total",
        "counter",
        "Reconciles that failed with an error which a retry does not mend.",
        ("controller",),
    ),
    Metric(
        "controller_runtime_reconcile_panics_total",
        "counter",
        "Reconciles that failed with an unexpected error.",
        ("controller",),
    ),
    *WORK_QUEUE,
    Metric("leader_election_master_status", "gauge", "1 while this replica leads.", ("name",)),
    Metric(
        "holdfast_controller_blocked_seconds",
        "gauge",
        "How long a controller with due keys has completed no reconcile; else 0.",
        ("controller",),
    ),
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
        self._families = {metric.name: Family(metric) for metric in (*ENGINE, *declared)}
        self._process = CollectorRegistry()

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        try:
            self._family(metric, "counter").add(labels, by)
        except (KeyError, ValueError) as error:
            self._mistake(metric, error)

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        try:
            self._family(metric, "histogram", "summary").observe(labels, value)
        except (KeyError, ValueError) as error:
            self._mistake(metric, error)

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        try:
            self._family(metric, "gauge").set(labels, value)
        except (KeyError, ValueError) as error:
            self._mistake(metric, error)

    def replace(self, metric: str, series: dict[LabelValues, float]) -> None:
        """Sets all series of a gauge, by the values of its labels in the declared order. Others are removed."""
        try:
            self._family(metric, "gauge").replace(series)
        except (KeyError, ValueError) as error:
            self._mistake(metric, error)

    def forget(self, label: str, value: str) -> None:
        """Removes the series of an object that does not exist any more, from every metric with this label."""
        for family in self._families.values():
            family.forget(label, value)

    def add_process(self) -> None:
        """Memory, processor time and open files of this process."""
        ProcessCollector(registry=self._process)

    def value(self, sample: str, labels: Mapping[str, str]) -> float | None:
        """The value of one sample, or None if it was never set. For tests."""
        wanted = {name: value for name, value in labels.items() if value}
        for family in self._families.values():
            if sample.startswith(family.metric.name):
                for suffix, key, label, label_value, value in family.samples():
                    found = {n: v for n, v in zip(family.metric.labels, key, strict=True) if v}
                    found |= {label: label_value} if label else {}
                    if family.metric.name + suffix == sample and found == wanted:
                        return value
        return None

    def sums(self, metric: str, label: str) -> dict[str, float]:
        """The sums of a counter or gauge, by the values of one of its labels."""
        family = self._families[metric]
        position = family.metric.labels.index(label)
        found: dict[str, float] = {}
        for _, key, _, _, value in family.samples():
            found[key[position]] = found.get(key[position], 0.0) + value
        return found

    def chunks(self) -> Iterator[bytes]:
        """The page in pieces. Other code may run and change metrics between two of them."""
        for family in self._families.values():
            lines = family.lines()
            while chunk := "".join(islice(lines, _LINES)):
                yield chunk.encode(errors="replace")
        yield generate_latest(self._process)

    def text(self) -> bytes:
        return b"".join(self.chunks())

    def _family(self, metric: str, *kinds: str) -> Family:
        found = self._families[metric]
        if found.metric.kind not in kinds:
            raise ValueError(f"it is a {found.metric.kind}")
        return found

    def _mistake(self, metric: str, error: Exception) -> None:
        assert not self._strict, f"{metric}: {error!r}"
        self._families[MISTAKES].add({"metric": metric}, 1)
