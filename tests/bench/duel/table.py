"""The table of a duel in Markdown: medians of all runs, with the least and the most.

A program is better in a row only if its worst run is better than the best run of the other one; less is better in every
row that is compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.duel import measures, settings

NAMES: Final = {"karpenter": "Karpenter 1.14.1", "holdfast": "Holdfast"}


class Row(NamedTuple):
    key: str
    text: str
    digits: int
    compared: bool = True


ROWS: Final = (
    Row("dollars", "outside of reservations (on demand and spot), USD", 4),
    Row("needed_idle_slot_hours", "idle slot-hours while pods that fit ran outside of reservations", 3),
    Row("idle_slot_hours", "idle slot-hours in all", 3, compared=False),
    Row("wait_p50_s", "a pod pending until it runs, half of them, s", 1),
    Row("wait_p99_s", "… 99 of 100, s", 1),
    Row("wait_longest_s", "… the longest, s", 1),
    Row("pods_never_run", "pods that never ran", 0),
    Row("nodes_disrupted", "nodes disrupted (pods evicted; neither interrupted nor in the block)", 0),
    Row("pods_evicted", "pods evicted", 0),
    Row("pods_lost", "pods lost with their node", 0),
    Row("slots_oversold", "slots oversold", 0),
    Row("instances_launched", "instances launched", 0),
    Row("api_requests", "requests to the API server", 0),
    Row("aws_calls", "calls to AWS", 0),
    Row("cpu_s", "CPU time of the program, s", 1),
    Row("peak_mib", "memory of the program, at most, MiB", 0),
)


def markdown(runs: Sequence[Mapping[str, Any]]) -> str:
    programs = [name for name in settings.PROGRAMS if any(one["program"] == name for one in runs)]
    lines = [
        f"| | {' | '.join(NAMES[name] for name in programs)} | better |",
        f"| --- | {'--- | ' * len(programs)}--- |",
    ]
    for row in ROWS:
        values = {name: _values(runs, name, row.key) for name in programs}
        cells = [_cell(values[name], row.digits) for name in programs]
        lines.append(f"| {row.text} | {' | '.join(cells)} | {better(values) if row.compared else ''} |")
    return "\n".join(lines + _failed(runs)) + "\n"


def better(values: Mapping[str, Sequence[float]]) -> str:
    """The program whose runs are all below those of the other one; empty if the runs overlap."""
    ordered = sorted(values.items(), key=lambda one: max(one[1]))
    (first, lower), *others = ordered
    return NAMES[first] if others and all(max(lower) < min(other) for _, other in others) else ""


def _values(runs: Iterable[Mapping[str, Any]], program: str, key: str) -> list[float]:
    return [float(one["rows"][key]) for one in runs if one["program"] == program]


def _cell(values: Sequence[float], digits: int) -> str:
    median, least, most = (f"{one:,.{digits}f}" for one in measures.spread(values))
    return median if least == most else f"{median} ({least} to {most})"


def _failed(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parts of the story that did not take place in a run."""
    failed = [
        f"- {NAMES[one['program']]}, run {one['run']}: did not happen: {what}"
        for one in runs
        for what, passed in one["checks"].items()
        if not passed
    ]
    return ["", *failed] if failed else []
