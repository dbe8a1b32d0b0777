"""Times a simulation of a large cluster, and prints where the time goes.

    PYTHONPATH=tests:tests/support .venv/bin/python tests/bench/bench_simulate.py [--nodes 1000] [--hours 24] [--profile 1]

Ten pods a node. Three of ten Deployments follow the day, down to a half; a Job of one pod for ten nodes runs every hour.
A third of the nodes is in a reservation. Prints the CPU time and the memory after each simulated hour, and at the end how
much the memory grew a day after the first day. With --profile it prints the functions with the most time after so many
simulated hours: in the first one, all nodes are launched.
"""

import argparse
import cProfile
import os
import pstats
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import studies
from holdfast.api.simulation import DailyReplicas, JobRuns, ReplicasAt, SimulationSpec
from holdfast.simulate import parallel, run
from holdfast.simulate.study import Study

Json = dict[str, Any]

HOUR_S = 3600
DAY_H = 24
PODS_PER_NODE = 10
DEPLOYMENTS = 10
FOLLOW_THE_DAY = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--profile", type=int, default=None, metavar="HOURS")
    options = parser.parse_args()
    parallel.prepare()
    study = large(options.nodes, options.hours)
    profiler = cProfile.Profile()
    began_s = time.process_time()
    measured: list[tuple[int, float]] = []  # memory by hour

    def goes(simulated_s: int) -> bool:
        if (simulated_s - study.begins_s) % HOUR_S == 0:
            hours = (simulated_s - study.begins_s) // HOUR_S
            if hours == options.profile:
                profiler.enable()
            measured.append((hours, memory_mib()))
            cpu_s = time.process_time() - began_s
            print(f"{hours:4} h  {cpu_s:7.1f} s CPU  {measured[-1][1]:6.0f} MiB", flush=True)
        return True

    result = run.simulate(study, goes)
    took_s = time.process_time() - began_s
    profiler.disable()
    print(f"{options.hours} h of {options.nodes} nodes: {took_s:.1f} s of CPU time, {memory_mib():.0f} MiB")
    print(f"memory after the first day: {growth(measured)}")
    print(result.nodes, result.pods, result.calls, len(result.unplaced), sep="\n")
    if options.profile is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
        pstats.Stats(profiler).sort_stats("cumtime").print_stats("holdfast", 110)


def memory_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def growth(measured: list[tuple[int, float]]) -> str:
    """The slope of the line through the hours after the first day."""
    later = [(hours, mib) for hours, mib in measured if hours >= DAY_H]
    if len(later) < DAY_H:
        return "run at least 48 hours"
    slope, _ = statistics.linear_regression(*zip(*later, strict=True))
    return f"{slope * DAY_H:+.1f} MiB a day"


def large(nodes: int, hours: int) -> Study:
    each = nodes * PODS_PER_NODE // DEPLOYMENTS
    points = (ReplicasAt(at="04:00", replicas=each // 2), ReplicasAt(at="14:00", replicas=each))
    spec = SimulationSpec(
        duration=f"{hours}h",
        replicas=tuple(DailyReplicas(deployment=f"app-{n}", points=points) for n in range(FOLLOW_THE_DAY)),
        jobs=(JobRuns(job="batch", every="1h", runs="30m"),),
    )
    small = studies.study()
    slots = replace(small.setup.reservations[0], instance_type="m5.2xlarge", total=nodes // 3)
    deployments = [deployment(f"app-{n}", each) for n in range(DEPLOYMENTS)]
    return studies.study(
        spec=spec,
        setup=replace(small.setup, reservations=(slots,)),
        objects=(*small.objects, *deployments, job(max(1, nodes // 10))),
    )


def deployment(name: str, replicas: int) -> Json:
    labels = {"app": name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(labels)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def job(pods: int) -> Json:
    inner = template({})
    inner["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": pods, "completions": pods, "template": inner}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"}, "spec": spec}


def template(labels: Json) -> Json:
    resources = {"requests": {"cpu": "700m", "memory": "1Gi"}}
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": resources}]},
    }


if __name__ == "__main__":
    main()
