"""Compares `holdfast simulate` with the same study in real time at 60 times speed: `make compare-day` (docs/simulate.md).

Both run at the same time, each in its own process. Exit code 1 if the dollars differ by more than two percent.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import real_time_study
from holdfast.api.simulation_results import SimulationResult
from holdfast.cli import studies
from holdfast.runtime import logs
from holdfast.runtime.clock import RealClock
from holdfast.simulate import run
from holdfast.simulate.study import Study

STUDY = Path(__file__).resolve().parents[2] / "studies/day.yaml"
SPEED = 60
ALLOWED_PERCENT = 2.0
REPORT_EVERY_S = 3600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--speed", type=float, default=SPEED)
    parser.add_argument("--study", default=str(STUDY))
    parser.add_argument("--output", type=Path, help="a folder for both results")
    options = parser.parse_args()
    (study,) = studies.read([options.study], (), (), f"{options.hours}h")
    logs.configure(clock=RealClock(), level="error")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        waiting = pool.apply_async(virtual, (study,))
        real, cpu_s, took_s = in_real_time(study, options.speed)
        simulated = waiting.get()
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        for name, result in (("simulated", simulated), ("real-time", real)):
            (options.output / f"{name}.json").write_bytes(msgspec.json.encode(result))
    print(f"{study.name}, {options.hours} h, seed {study.seed}; real time at {options.speed:g} times speed")
    print(f"real time: {cpu_s:.0f} s of CPU time in {took_s:.0f} s, load {os.getloadavg()[0]:.1f}\n")
    for line in table(simulated, real):
        print(line)
    percent = difference(simulated.dollars.total, real.dollars.total)
    if abs(percent) > ALLOWED_PERCENT:
        print(f"\nthe dollars differ by {percent:+.2f} %, more than {ALLOWED_PERCENT:g} %", file=sys.stderr)
        return 1
    return 0


def virtual(study: Study) -> SimulationResult:
    logs.configure(clock=RealClock(), level="error")
    return run.simulate(study)


def in_real_time(study: Study, speed: float) -> tuple[SimulationResult, float, float]:
    """The result, and the CPU time and the time it took."""
    cpu_s, began_s = time.process_time(), time.monotonic()
    reported_s = study.begins_s

    def report(now_s: int) -> bool:
        nonlocal reported_s
        if now_s - reported_s >= REPORT_EVERY_S:
            reported_s = now_s
            print(f"{(now_s - study.begins_s) // 3600} h", file=sys.stderr, flush=True)
        return True

    with tempfile.TemporaryDirectory(prefix="holdfast-compare-") as folder:
        result = real_time_study.simulate(study, Path(folder), speed, report)
    return result, time.process_time() - cpu_s, time.monotonic() - began_s


def table(simulated: SimulationResult, real: SimulationResult) -> Iterator[str]:
    yield "| | simulated | real time | difference |"
    yield "| --- | --- | --- | --- |"
    for (name, one), (_, other) in zip(rows(simulated), rows(real), strict=True):
        yield f"| {name} | {one:,.2f} | {other:,.2f} | {difference(one, other):+.2f} % |"


def rows(result: SimulationResult) -> Iterator[tuple[str, float]]:
    dollars: dict[str, Any] = msgspec.structs.asdict(result.dollars)
    for name in ("total", "reserved_used", "reserved_idle", "on_demand", "spot"):
        yield f"{name.replace('_', ' ')}, USD", dollars[name]
    for one in result.reservations:
        yield f"{one.id}: slot-hours used", one.used_hours
    for name in ("created", "started", "evicted"):
        yield f"pods {name}", getattr(result.pods, name)
    for name in ("p50", "p90", "p99", "longest"):
        yield f"pods' waiting, {name}, s", getattr(result.pods.waiting, name)
    for name in ("launched", "most"):
        yield f"nodes {name}", getattr(result.nodes, name)
    yield "pods unplaced at the end", result.unplaced_total


def difference(simulated: float, real: float) -> float:
    """In percent of the real one."""
    return 100 * (simulated - real) / real if real else 0.0 if not simulated else 100.0


if __name__ == "__main__":
    sys.exit(main())
