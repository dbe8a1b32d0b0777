"""The registry: series are created, replaced and removed, and are written in Prometheus' text format."""

import math
from collections.abc import Callable

import pytest

from holdfast.runtime.metrics import Metric, Metrics

PODS = Metric("test_pods", "gauge", "Pods.", ("zone", "node"))
STARTS = Metric("test_start_seconds", "summary", "Starts.", ("pool",))
PLANS = Metric("test_plan_seconds", "histogram", "Plans.", ("pool",), (1, 10))
LAUNCHES = Metric("test_launches_total", "counter", "Launches.", ("pool",))


def registry() -> Metrics:
    return Metrics((PODS, STARTS, PLANS, LAUNCHES), strict=True)


def lines(metrics: Metrics, name: str) -> list[str]:
    return [line for line in metrics.text().decode().splitlines() if line.startswith(name)]


def test_replaced_series_are_removed() -> None:
    metrics = registry()
    metrics.replace("test_pods", {("a", "n1"): 1, ("a", "n2"): 2})
    metrics.replace("test_pods", {("a", "n2"): 3})
    assert lines(metrics, "test_pods") == ['test_pods{zone="a",node="n2"} 3']
    metrics.replace("test_pods", {})
    assert "test_pods" not in metrics.text().decode()


def test_series_of_a_deleted_object_are_removed_from_every_metric() -> None:
    metrics = registry()
    for pool in ("gone", "kept"):
        metrics.count("test_launches_total", {"pool": pool})
        metrics.observe("test_plan_seconds", {"pool": pool}, 2)
        metrics.observe("test_start_seconds", {"pool": pool}, 2)
    metrics.forget("pool", "gone")
    text = metrics.text().decode()
    assert "gone" not in text
    assert text.count("kept") > 5


def test_label_without_a_value_is_left_out_and_others_are_escaped() -> None:
    metrics = registry()
    metrics.replace("test_pods", {("", 'a"b\\c\nd'): 1, ("", ""): 2})
    assert lines(metrics, "test_pods") == ['test_pods{node="a\\"b\\\\c\\nd"} 1', "test_pods 2"]


def test_summary_has_the_quantiles_of_recent_values() -> None:
    metrics = registry()
    for value in range(1, 3001):
        metrics.observe("test_start_seconds", {"pool": "a"}, value)
    quantiles = {
        q: metrics.value("test_start_seconds", {"pool": "a", "quantile": q}) for q in ("0", "0.5", "1")
    }
    assert quantiles == {"0": 2001, "0.5": 2500, "1": 3000}
    assert metrics.value("test_start_seconds_count", {"pool": "a"}) == 3000


def test_bucket_includes_its_bound() -> None:
    metrics = registry()
    for value in (1, 1.5, 11):
        metrics.observe("test_plan_seconds", {"pool": "a"}, value)
    found = [metrics.value("test_plan_seconds_bucket", {"pool": "a", "le": le}) for le in ("1", "10", "+Inf")]
    assert found == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "text"), [(3.0, "3"), (0.1, "0.1"), (1e21, "1e+21"), (math.inf, "+Inf"), (math.nan, "NaN")]
)
def test_numbers_are_written_as_in_go(value: float, text: str) -> None:
    metrics = registry()
    metrics.replace("test_pods", {("a", ""): value})
    assert lines(metrics, "test_pods") == [f'test_pods{{zone="a"}} {text}']


def test_page_is_made_in_pieces() -> None:
    metrics = registry()
    metrics.replace("test_pods", {("a", f"n{number}"): number for number in range(5000)})
    pieces = list(metrics.chunks())
    assert max(piece.count(b"\n") for piece in pieces) <= 1001
    assert b"".join(pieces) == metrics.text()


def test_wrong_kind_or_number_of_labels_is_a_mistake() -> None:
    mistakes: tuple[Callable[[Metrics], None], ...] = (
        lambda metrics: metrics.gauge("test_launches_total", {"pool": "a"}, 1),
        lambda metrics: metrics.replace("test_pods", {("a",): 1}),
        lambda metrics: metrics.count("test_launches_total", {"pool": "a"}, -1),
    )
    for wrong in mistakes:
        with pytest.raises(AssertionError):
            wrong(registry())
        lenient = Metrics((PODS, LAUNCHES), strict=False)
        wrong(lenient)
        assert 'holdfast_metric_mistakes_total{metric="test_' in lenient.text().decode()
