"""A recording is replayed: its pods come and go as they did, and start again if they are evicted."""

from typing import Any

import pytest

from holdfast import errors
from holdfast.sim.cluster.timings import RUNS_FOR
from holdfast.simulate import run
from holdfast.simulate.recordings import RecordedDaemon, RecordedGroup, RecordedRun, Recording
from studies import study

MINUTE_S = 60


def template(cpu: str, **annotations: str) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {}, "annotations": annotations}, "spec": {"containers": [container]}}


def recorded_run(name: str, after_s: int, length_s: int | None, ended_s: int | None = None) -> RecordedRun:
    annotations = {} if length_s is None else {RUNS_FOR: str(length_s)}
    how = "deleted" if length_s is None and ended_s else "succeeded"
    return RecordedRun(name, "default", after_s, length_s, ended_s, how, template("1", **annotations), name)


def test_pods_of_a_recording_come_and_go_as_they_did() -> None:
    recording = Recording(
        begins_s=0,
        until_s=60 * MINUTE_S,
        groups=(
            RecordedGroup(
                "d-1", "default", "ReplicaSet", ((0, template("500m")),),
                ((0, 3), (20 * MINUTE_S, 8), (40 * MINUTE_S, 2)),
            ),
        ),
        daemons=(RecordedDaemon("a-1", "default", ((0, template("50m")),)),),
        runs=(
            recorded_run("j-1", 10 * MINUTE_S, 15 * MINUTE_S),
            recorded_run("j-2", 50 * MINUTE_S, None),
        ),
    )  # fmt: skip
    found = run.simulate(study(recordings=(recording,)))
    running = {minute: found.timeline.pods_running[minute] for minute in (8, 15, 30, 45, 58)}
    assert running == {8: 3, 15: 4, 30: 8, 45: 2, 58: 3}
    assert found.pods.started == found.pods.created
    assert found.unplaced_total == 0


def test_pod_that_never_ran_is_deleted_when_it_was() -> None:
    recording = Recording(
        begins_s=0, until_s=3600, runs=(recorded_run("j-1", MINUTE_S, None, 20 * MINUTE_S),)
    )
    found = run.simulate(study("40m", recordings=(recording,)))
    assert found.timeline.pods_running[15] == 1
    assert found.timeline.pods_running[25] == 0


def test_object_that_is_refused_later_ends_the_simulation_at_once() -> None:
    """It would take years otherwise."""
    run_ = recorded_run("j-1", 10 * MINUTE_S, 60)
    run_.template["spec"]["containers"][0]["name"] = "Not A Name"
    recording = Recording(begins_s=0, until_s=3600, runs=(run_,))
    seen: list[int] = []

    def goes(now_s: int) -> bool:
        seen.append(now_s)
        return True

    with pytest.raises(ExceptionGroup) as found:
        run.simulate(study("8000h", recordings=(recording,)), goes)
    assert found.group_contains(errors.Rejected)
    assert max(seen) - min(seen) < 2 * 3600 * 24


def test_simulation_of_an_empty_cluster_costs_the_reservation_only() -> None:
    found = run.simulate(study("2h"))
    assert found.dollars.reserved_idle == found.dollars.total == round(2 * 4 * 0.192, 4)
    assert found.nodes.launched == 0
