"""Runs Karpenter and Holdfast through the same story and prints a table: `make duel` (docs/duel.md).

The runs alternate. Each result is written at once, so a duel that is stopped leaves the runs that it finished. Exit code
0 even if a program did badly: a duel measures and asserts nothing, except that the sandbox worked.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from bench.duel import one_run, settings, table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "duel"


def main() -> None:
    parser = argparse.ArgumentParser(description="Karpenter and Holdfast through the same story")
    parser.add_argument("--runs", type=int, default=settings.RUNS, help="how often each program runs")
    parser.add_argument("--seconds", type=float, default=settings.SECONDS, help="the length of the story")
    parser.add_argument("--seed", type=int, default=settings.SEED)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for results and logs")
    parser.add_argument("programs", nargs="*", default=settings.PROGRAMS, metavar="program")
    options = parser.parse_args()
    if unknown := set(options.programs) - set(settings.PROGRAMS):
        parser.error(f"unknown program {', '.join(sorted(unknown))}: {' or '.join(settings.PROGRAMS)}")
    if options.runs < 1 or options.seconds < settings.SECONDS / 2:
        parser.error(f"at least one run of at least {settings.SECONDS // 2} seconds")
    if options.folder == FOLDER:
        shutil.rmtree(FOLDER, ignore_errors=True)
    elif options.folder.exists():
        parser.error(f"{options.folder} exists already")
    options.folder.mkdir(parents=True)
    results: list[dict[str, Any]] = []
    for number in range(1, options.runs + 1):
        for program in options.programs:
            print(f"run {number} of {options.runs}: {program}", flush=True)
            home = options.folder / f"{number}-{program}"
            home.mkdir()
            result = one_run.run(program, home, seconds=options.seconds, seed=options.seed)
            results.append({"run": number, "seed": options.seed} | result)
            write(options.folder, results)
    print(f"\n{table.markdown(results)}")
    print(f"table: {options.folder / 'table.md'}\nall runs: {options.folder / 'runs.json'}")


def write(folder: Path, results: list[dict[str, Any]]) -> None:
    (folder / "runs.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (folder / "table.md").write_text(table.markdown(results), encoding="utf-8")


if __name__ == "__main__":
    main()
