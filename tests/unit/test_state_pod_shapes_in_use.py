"""Shapes of pods that are over are dropped: each Job has its own labels, and so its own shapes."""

from typing import Any

import msgspec
import pytest

import objects
from holdfast.api.pods import Pod
from holdfast.cloud.aws.nodeclass.preflight import WELL_KNOWN_LABELS
from holdfast.model.pods import PodShape
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.watched_pods import WatchedPods
from holdfast.state.conversion.node_terms import LabelRules
from manual_ports import ManualClock

JOBS = 3_000
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


class Cluster:
    def __init__(self) -> None:
        clock = ManualClock()
        self.caches = Caches([Pod], clock=clock)
        self.pods = WatchedPods(self.caches.of(Pod), LabelRules(WELL_KNOWN_LABELS, {}), clock=clock)

    def waits(self, job: str, name: str = "", **spec: Any) -> Pod:
        """A pod of the Job that waits for a node."""
        meta = {"uid": name or job, "labels": {"job-name": job}}
        found = objects.pod(name or job, meta, UNSCHEDULABLE, **spec)
        objects.store(self.caches, found)
        return found

    def shapes(self) -> dict[str, PodShape]:
        return {pod.name: pod.shape for pod in self.pods.sorted_out().pending}

    def cached(self) -> int:
        """The entries of the largest table of the converter."""
        own = vars(self.pods.converter)
        return max(len(table) for table in own.values() if isinstance(table, dict | list))


def delete(cluster: Cluster, pod: Pod) -> None:
    objects.drop(cluster.caches, pod)


def succeed(cluster: Cluster, pod: Pod) -> None:
    objects.store(
        cluster.caches,
        msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded")),
    )


@pytest.mark.parametrize("end", [delete, succeed])
def test_shapes_of_jobs_that_are_over_are_dropped(end: Any) -> None:
    cluster = Cluster()
    cluster.waits("stays")
    stays = cluster.shapes()["stays"]
    for n in range(JOBS):
        pod = cluster.waits(f"job-{n}", nodeSelector={"team": f"t{n}"})
        assert len(cluster.shapes()) == 2
        end(cluster, pod)
    assert cluster.cached() <= 1_100
    cluster.waits("stays", "another")
    assert cluster.shapes()["another"] is stays


def test_shapes_of_pods_that_wait_are_kept_and_stay_one_object_each() -> None:
    cluster = Cluster()
    for n in range(JOBS):
        cluster.waits(f"job-{n}")
    first = cluster.shapes()
    assert len({id(shape) for shape in first.values()}) == JOBS
    for n in range(JOBS):
        cluster.waits(f"job-{n}", f"job-{n}-2")
    later = cluster.shapes()
    assert all(later[f"job-{n}-2"] is first[f"job-{n}"] for n in range(JOBS))
