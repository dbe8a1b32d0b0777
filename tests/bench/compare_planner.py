"""Times the planner of another commit and of this tree in turn, and prints the ratios: `make bench-compare BASE=commit`.

The speed of a computer changes within minutes, so two separate runs are hard to compare. Here each version has a process,
and both plan every case right after each other, several times. The ratio is the median.
"""

import argparse
import gc
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from bench import bench_planner, workloads
from holdfast.core.scheduling.solve import solve

ROOT: Final = Path(__file__).resolve().parents[2]
ROUNDS: Final = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    with checkout(args.base) as base, Planner(base) as before, Planner(ROOT) as now:
        compare(before, now, args.rounds)


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The files of a commit, in a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "archive.tar")
        git = shutil.which("git") or "git"
        subprocess.run([git, "archive", "-o", archive, commit], cwd=ROOT, check=True)
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


class Planner:
    """A process that plans with one version of the code."""

    def __init__(self, tree: Path) -> None:
        paths = os.pathsep.join(str(tree / part) for part in ("src", "tests", "tests/support"))
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import runpy; runpy.run_path({str(Path(__file__))!r})['answer']()"],
            env={**os.environ, "PYTHONPATH": paths},
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.cases = self._line().split("\t")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        self._process.wait()

    def seconds(self, case: str) -> tuple[float, float]:
        """The seconds of a plan with empty caches, and of the same plan again."""
        print(self.cases.index(case), file=self._process.stdin, flush=True)
        first, again = self._line().split()
        return float(first), float(again)

    def _line(self) -> str:
        line: str = self._process.stdout.readline()  # type: ignore[union-attr]  # it is a pipe
        assert line, "the process that plans has ended"
        return line.rstrip("\n")


def compare(before: Planner, now: Planner, rounds: int) -> None:
    print("| case | before: first ms | again ms | now: first ms | again ms | ratio first | again |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case in (case for case in now.cases if case in before.cases):
        before.seconds(case), now.seconds(case)  # fills the caches of both
        pairs = [(before.seconds(case), now.seconds(case)) for _ in range(rounds)]
        times = [1000 * statistics.median(pair[i][j] for pair in pairs) for i in (0, 1) for j in (0, 1)]
        ratios = [statistics.median(pair[1][j] / pair[0][j] for pair in pairs) for j in (0, 1)]
        cells = [*(f"{one:,.1f}" for one in times), *(f"{one:.2f}" for one in ratios)]
        print(f"| {case} | {' | '.join(cells)} |", flush=True)


def answer() -> None:
    """Runs in a process of its own, which imports the modules of its version: plans the case whose number is on each line of
    stdin."""
    cases = found_in(bench_planner)
    cache: Any = (
        getattr(bench_planner, "CatalogCache", None) or vars(bench_planner)["Memory"]
    )  # its older name
    caches = [(workloads.converter(), cache()) for _ in cases]
    print("\t".join(name for name, _, _ in cases), flush=True)
    gc.freeze()
    for line in sys.stdin:
        case = int(line)
        _, pods, asked = cases[case]
        converter, catalog_cache = caches[case]

        def first(pods: Any = pods, asked: Any = asked) -> object:
            return solve(asked(workloads.views(pods)))

        def again(
            pods: Any = pods,
            asked: Any = asked,
            converter: Any = converter,
            catalog_cache: Any = catalog_cache,
        ) -> object:
            return solve(asked(workloads.views(pods, converter)), catalog_cache)

        print(timed(first), timed(again), flush=True)


def found_in(bench: Any) -> list[tuple[str, Sequence[Any], Any]]:
    """The cases of a version's benchmark, collected by replacing its `report` function."""
    found: list[tuple[str, Sequence[Any], Any]] = []
    bench.report = lambda name, pods, asked: found.append((f"{name}, {len(pods):,} pods", pods, asked))
    bench.print = lambda *_, **__: None
    bench.main()
    return found


def timed(plan: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    began = time.perf_counter()
    plan()
    took = time.perf_counter() - began
    gc.enable()
    return took


if __name__ == "__main__":
    main()
