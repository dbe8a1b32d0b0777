"""Injects faults between `holdfast run` and its two endpoints, and checks that everything recovers: `make faults`.

KIND is `all`, `calls` (every fault on every call), `pauses`, `kills`, `stale`, `clocks`, or one fault of `calls`, such
as `cut`. The same seed gives the same order of faults and the same damage. Results are added to a file, from which
`--table` writes the table of docs/reliability.md.
"""

import argparse
import asyncio
import contextlib
import functools
import json
import signal
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from faults import campaign, kills, pauses, views
from faults.damage import Kind
from holdfast.runtime.clock import RealClock

RESULTS: Final = Path(".cache/faults.json")
SCENARIOS: Final = ("calls", "pauses", "kills", "stale", "clocks")
_PAUSES: Final = 10
_KILLS: Final = 100
_STALE: Final = 3
_CLOCKS: Final = 4


def main() -> int:
    options = _options()
    if options.table:
        print(table(json.loads(options.results.read_text(encoding="utf-8"))))
        return 0
    run = Run(options)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(run.all())
    print(table([run.plain]))
    failures = [row for found in run.plain["scenarios"].values() for row in found["results"] if _failed(row)]
    for row in failures:
        print(
            f"FAILED {row['call']}: {row['kind']} during {row['step']}, seed {row['seed']}: {row['outcome']}"
        )
    return 1 if failures else 0


class Run:
    """One run. Each result is written to the file at once, so that a killed run keeps its results."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._file: Path = options.results
        self._before = json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else []
        date = datetime.fromtimestamp(RealClock().now_s(), UTC).strftime("%Y-%m-%d")
        number = f" N={options.count}" if options.count else ""
        command = f"make faults KIND={options.kind} SEED={options.seed} TIME={options.time}{number}"
        self.plain: dict[str, Any] = {"date": date, "command": command, "scenarios": {}}

    async def all(self) -> None:
        work = asyncio.create_task(self._scenarios())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)  # stops every process
        await work

    async def _scenarios(self) -> None:
        options = self._options
        count, seed = options.count, options.seed
        for name in SCENARIOS if options.kind == "all" else (options.kind,):
            keep = functools.partial(self._keep, name if name in SCENARIOS else "calls")
            match name:
                case "pauses":
                    await pauses.run(count or _PAUSES, seed, _tell, keep)
                case "kills":
                    await kills.run(count or _KILLS, seed, _tell, keep, environments=options.environments)
                case "stale":
                    await views.run_stale(count or _STALE, seed, _tell, keep)
                case "clocks":
                    await views.run_clocks(count or _CLOCKS, seed, _tell, keep)
                case _:
                    await self._calls(tuple(Kind) if name == "calls" else (Kind(name),), keep)

    async def _calls(self, kinds: tuple[Kind, ...], keep: campaign.Keep) -> None:
        options = self._options
        step_calls = await campaign.discover(_tell)
        chosen = campaign.pairs(step_calls, kinds)
        if options.only:
            chosen = [pair for pair in chosen if options.only in f"{pair[0]}: {pair[1]}"]
        if options.count:
            chosen = campaign.sample(chosen, options.count, options.seed)
        _tell(f"{len(chosen)} faults of {len({call for call, _ in chosen})} calls, for {options.time} s")
        await campaign.run(
            step_calls,
            chosen,
            seed=options.seed,
            time_s=options.time,
            environments=options.environments,
            tell=_tell,
            keep=keep,
        )

    def _keep(self, name: str, found: dict[str, Any]) -> None:
        self.plain["scenarios"][name] = found
        self._file.parent.mkdir(exist_ok=True)
        self._file.write_text(json.dumps([*self._before, self.plain], indent=1), encoding="utf-8")


def _tell(text: str) -> None:
    print(text, flush=True)


# --- The table ------------------------------------------------------------------------------------------


def table(runs: list[dict[str, Any]]) -> str:
    """The table of the results: fault, times injected, outcome."""
    lines = []
    for run in runs:
        lines += [f"`{run['command']}`, {run['date']}:", ""]
        for name, found in run["scenarios"].items():
            lines += _scenario(name, found)
    return "\n".join(lines)


def _scenario(name: str, found: dict[str, Any]) -> list[str]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found["results"]:
        rows[row["kind"]].append(row)
    lines = ["| fault | calls | times injected | outcome |", "| --- | --- | --- | --- |"]
    for kind, own in sorted(rows.items()):
        met = [row for row in own if row["injected"]]
        lines.append(
            f"| {kind} | {len({row['call'] for row in met})} | {sum(row['injected'] for row in met)} | {_outcomes(own)} |"
        )
    note = f"{name}: {sum(row['injected'] > 0 for row in found['results'])} of {len(found['results']) + found.get('left', 0)}"
    return [f"{note} planned faults were injected.", "", *lines, ""]


def _outcomes(rows: list[dict[str, Any]]) -> str:
    counted = Counter("failed" if _failed(row) else row["outcome"] for row in rows)
    return ", ".join(f"{count} {what}" for what, count in counted.most_common())


def _failed(row: dict[str, Any]) -> bool:
    return row["outcome"] not in ("recovered", "not met")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kind", default="all", help="what to inject")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--count", type=int, default=0, help="how many; 0: all of `calls`, 10 pauses, 100 kills"
    )
    parser.add_argument("--time", type=int, default=1800, help="seconds for `calls`")
    parser.add_argument(
        "--environments", type=int, default=3, help="environments at once for `calls` and `kills`"
    )
    parser.add_argument(
        "--only", default="", help="only faults whose text contains this, such as 'list pods: cut'"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file to which results are added")
    parser.add_argument(
        "--table", action="store_true", help="print the table of all results, and run nothing"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
