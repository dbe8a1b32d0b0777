"""How large a recording of `holdfast record` is, and what it takes to write and to read one.

Run by `make bench`. Made-up pods go through the history and the file of the command, without an API server: 200 Deployments
with 2,000 to 3,000 pods that scale every hour, and 10,000 pods of Jobs a day, each of which runs for ten minutes. Prints a
table and asserts nothing.
"""

import random
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import objects
from holdfast.api.pods import Pod
from holdfast.api.recording import VERSION, Header
from holdfast.app.recording.cluster_recording import FLUSH_S
from holdfast.app.recording.recording_file import RecordingFile
from holdfast.cli import aws
from holdfast.scenarios.history.pod_history import PodHistory
from holdfast.scenarios.history.shapes import Shapes
from holdfast.simulate import recordings

DAY_S = 86_400
HOUR_S = 3600
JOBS_A_DAY = 10_000
DEPLOYMENTS = 200
RUNS_S = 600
BEGINS_S = 1_794_736_800


def meta(kind: str, owner: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    reference = {"apiVersion": version, "kind": kind, "name": owner, "uid": owner, "controller": True}
    return {"uid": name, "namespace": "shop", "labels": labels, "ownerReferences": [reference]}


def service(deployment: int, number: int) -> Pod:
    app = f"app-{deployment}"
    labels = {"app": app, "team": f"team-{deployment % 7}", "pod-template-hash": "7f9c"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    containers = [objects.container(cpu=f"{100 + deployment}m", memory="256Mi")]
    name = f"{app}-7f9c-{number}"
    return objects.pod(
        name, meta("ReplicaSet", f"{app}-7f9c", name, labels), {"phase": "Running"},
        containers=containers, topologySpreadConstraints=[spread],
    )  # fmt: skip


def task(number: int, phase: str, *, has_unique_label: bool) -> Pod:
    cron, job = number % 50, f"cron-{number % 50}-{number}"
    labels = {"job-name": job, "batch.kubernetes.io/job-name": job, "app": f"cron-{cron}"}
    if has_unique_label:
        labels["run-id"] = f"run-{number}"
    containers = [objects.container(cpu=f"{500 + cron}m", memory="1Gi")]
    return objects.pod(
        f"{job}-x", meta("Job", job, f"{job}-x", labels), {"phase": phase},
        containers=containers, restartPolicy="Never",
    )  # fmt: skip


class Week:
    def __init__(self, path: Path, *, days: int, has_unique_label: bool) -> None:
        self._dice = random.Random(1)
        self._days = days
        self._has_unique_label = has_unique_label
        self.history = PodHistory(Shapes("secret", aws.TERMS))
        self.file = RecordingFile(path, force=False)
        self._counts = [0] * DEPLOYMENTS

    def run(self) -> None:
        self._scale(0)
        self.file.write([Header(holdfast_record=VERSION, begins=BEGINS_S), *self.history.begin(BEGINS_S)])
        every_s = DAY_S // JOBS_A_DAY
        for at_s in range(1, self._days * DAY_S):
            if at_s % every_s == 0:
                self._tasks(at_s // every_s, at_s, every_s)
            if at_s % HOUR_S == 0:
                self._scale(at_s)
            if at_s % FLUSH_S == 0:
                self.file.write(self.history.take(at_s))
                self.file.flush()
        self.file.write(self.history.finish(self._days * DAY_S))
        self.file.close()

    def _tasks(self, number: int, at_s: int, every_s: int) -> None:
        def observe(number: int, phase: str, *, is_new: bool) -> None:
            pod = task(number, phase, has_unique_label=self._has_unique_label)
            self.history.observe(pod, at_s, is_new=is_new)

        observe(number, "Pending", is_new=True)
        observe(number, "Running", is_new=False)
        ended = number - RUNS_S // every_s
        if ended > 0:
            observe(ended, "Succeeded", is_new=False)

    def _scale(self, at_s: int) -> None:
        for deployment, before in enumerate(self._counts):
            wanted = self._dice.randint(10, 15)
            for number in range(before, wanted):
                self.history.observe(service(deployment, number), at_s, is_new=True)
            for number in range(wanted, before):
                self.history.remove(service(deployment, number).metadata.uid, at_s)
            self._counts[deployment] = wanted


def measure(name: str, *, days: int, has_unique_label: bool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        tracemalloc.start()
        week = Week(path, days=days, has_unique_label=has_unique_label)
        week.run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        size, pods = path.stat().st_size, week.history.pods
        began_s = time.process_time()
        recordings.read(path)
        read_s = time.process_time() - began_s
    return f"  {name:14} {days:4} {has_unique_label!s:12} {pods:7} {size / 1e6:9.2f} {size / pods:13.0f} {peak / 1e6:9.1f} {read_s:7.1f}"


def main() -> None:
    print("a recording with 10,000 pods of Jobs a day, 200 Deployments that scale every hour")
    print("  file           days unique label    pods        MB bytes per pod  peak, MB read, s")
    for name, days, has_unique_label in (
        ("week.jsonl", 1, False),
        ("week.jsonl.gz", 1, False),
        ("week.jsonl.gz", 7, False),
        ("week.jsonl.gz", 1, True),
    ):
        print(measure(name, days=days, has_unique_label=has_unique_label), flush=True)


if __name__ == "__main__":
    main()
