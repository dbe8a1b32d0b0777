"""Pod requests equal those that kube-scheduler computes; Kubernetes' own helper made the table of expected values."""

import json
import pathlib
from typing import Any

import pytest

from holdfast.model import resources
from holdfast.model.pod_requests import ONE_POD, Container, pod_requests
from holdfast.model.resources import Resources, of

TABLE = json.loads((pathlib.Path(__file__).parent / "data" / "pod_requests.json").read_text())["rows"]


def container(row: dict[str, Any]) -> Container:
    actuated = of(row["actuated"]) if "actuated" in row else None
    return Container(of(row["requests"]), row.get("sidecar", False), actuated, of(row.get("allocated", {})))


@pytest.mark.fact("S-53")
def test_requests_of_every_pod_in_the_table_equal_those_of_kube_scheduler() -> None:
    assert len(TABLE) == 300
    for row in TABLE:
        got = pod_requests(
            [container(c) for c in row["containers"]],
            [container(c) for c in row.get("init", [])],
            overhead=of(row.get("overhead", {})),
            pod_level=of(row.get("pod", {})),
            resize_infeasible=row.get("infeasible", False),
        )
        assert got == resources.add(of(row["want"]), ONE_POD), row


def cpu(millis: int, *, sidecar: bool = False) -> Container:
    return Container(of({"cpu": millis}), sidecar)


def cpu_request(millis: int) -> Resources:
    return of({"cpu": millis, "pods": 1})


@pytest.mark.fact("S-53")
def test_an_init_container_counts_beside_the_sidecars_started_before_it() -> None:
    assert pod_requests([cpu(100)], [cpu(50, sidecar=True), cpu(500)]) == cpu_request(550)
    assert pod_requests([cpu(100)], [cpu(500), cpu(50, sidecar=True)]) == cpu_request(500)
    assert pod_requests([cpu(600)], [cpu(500), cpu(50, sidecar=True)]) == cpu_request(650)


@pytest.mark.fact("S-53")
def test_resizing_pod_requests_the_maximum_of_desired_allocated_and_actuated() -> None:
    growing = Container(of({"cpu": 900}), actuated=of({"cpu": 100}), allocated=of({"cpu": 500}))
    assert pod_requests([growing]) == cpu_request(900)
    assert pod_requests([growing], resize_infeasible=True) == cpu_request(500)


def test_pod_level_requests_replace_the_sum_and_overhead_comes_on_top() -> None:
    level = of({"cpu": 300, "example.com/gpu": 7})
    assert pod_requests([cpu(100), cpu(100)], pod_level=level, overhead=of({"cpu": 10})) == cpu_request(310)
