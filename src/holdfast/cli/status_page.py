"""The answer of `holdfast status` as a page."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.api.reports import FailingController, NodeGroup, PendingGroup, StatusReport
from holdfast.cli import page
from holdfast.cli.page import Block, Cell, Column, Heading, Line, Page, Pairs, Table, Tone
from holdfast.model import wording

_SHOWN: Final = 3  # names in one row; `-o wide` shows all
_TONES: Final = {"reserved": Tone.GOOD, "spot": Tone.WARNING, "on-demand": Tone.SPECIAL}


def build(report: StatusReport, *, wide: bool = False) -> Page:
    return Page(tuple(_blocks(report, wide=wide)))


def _blocks(report: StatusReport, *, wide: bool) -> Iterator[Block]:
    if report.computed:
        yield Line(report.computed, Tone.WARNING)
    yield Heading(f"Holdfast {report.version} on cluster {report.cluster}")
    yield Pairs(tuple(_about(report)))
    yield Heading(f"Nodes: {_nodes(report)}")
    yield from _groups(report.groups, wide=wide)
    yield Heading(f"Pods: {report.pods:,}, {report.pending:,} pending")
    yield from _pending(report.pending_groups, report.at, wide=wide)
    yield Heading("Dollars an hour")
    yield Pairs(tuple(_costs(report)))
    yield Heading("Last hour")
    hour = report.last_hour
    failures = Cell(f"{hour.launch_failures:,}", Tone.BAD if hour.launch_failures else Tone.PLAIN)
    yield Pairs(
        (
            ("launches", Cell(f"{hour.launches:,}")),
            ("launch failures", failures),
            ("disruptions", Cell(f"{hour.disruptions:,}")),
            ("removals", Cell(f"{hour.removals:,}")),
            ("interruptions", Cell(f"{hour.interruptions:,}")),
        )
    )
    if report.failing:
        yield Heading("Failing")
        yield _failing(report.failing, wide=wide)


def _about(report: StatusReport) -> Iterator[tuple[str, Cell]]:
    if report.problem:
        yield "problem", Cell(report.problem, Tone.BAD)
    since = "" if report.leading_since is None else f" since {page.moment(report.leading_since, report.at)}"
    yield "leader", Cell(f"{report.leader or 'none'}{since}")
    yield "Kubernetes", Cell(report.kubernetes_version or page.UNKNOWN)
    yield (
        "last plan",
        Cell("none yet" if report.planned_at is None else page.moment(report.planned_at, report.at)),
    )
    slots = wording.count(report.slots, "slot")
    yield (
        "reservations",
        Cell(
            f"{report.reservations:,} with {slots}: {report.slots_used:,} used here, {report.slots_free:,} free"
        ),
    )


def _nodes(report: StatusReport) -> str:
    of = [
        f"{number:,} {word}"
        for number, word in ((report.launching, "launching"), (report.draining, "draining"))
        if number
    ]
    return ", ".join((f"{report.nodes:,}", *of))


def _groups(groups: Sequence[NodeGroup], *, wide: bool) -> Iterator[Block]:
    nodes: dict[tuple[str, ...], int] = defaultdict(int)
    dollars: dict[tuple[str, ...], float] = defaultdict(float)
    for group in groups:
        key = (group.capacity_type, group.zone, group.node_pool) if wide else (group.capacity_type,)
        nodes[key] += group.nodes
        dollars[key] += group.usd_per_hour
    if not nodes:
        yield Line("No nodes of Holdfast.")
        return
    names = (Column("CAPACITY"), Column("ZONE"), Column("NODEPOOL")) if wide else (Column("CAPACITY"),)
    rows = [
        (
            Cell(key[0], _TONES.get(key[0], Tone.PLAIN)),
            *(Cell(one) for one in key[1:]),
            Cell(f"{nodes[key]:,}"),
            Cell(page.usd(dollars[key])),
        )
        for key in sorted(nodes)
    ]
    yield Table((*names, Column("NODES", is_number=True), Column("$/H", is_number=True)), rows)


def _pending(groups: Sequence[PendingGroup], now_s: int, *, wide: bool) -> Iterator[Block]:
    if not groups:
        return
    examples = (Column("EXAMPLES"),) if wide else ()
    columns = (
        Column("PODS", is_number=True),
        Column("AGE"),
        Column("CODE"),
        *examples,
        Column("WHY", wraps=True),
    )
    rows = [
        (
            Cell(f"{one.pods:,}"),
            Cell(page.NOTHING if one.oldest is None else page.age(now_s - one.oldest)),
            Cell(one.code),
            *((Cell(",".join(one.examples)),) if wide else ()),
            Cell(one.text),
        )
        for one in groups
    ]
    yield Table(columns, rows)


def _costs(report: StatusReport) -> Iterator[tuple[str, Cell]]:
    costs = report.costs
    yield "on-demand", Cell(page.usd(costs.on_demand))
    yield "spot", Cell(page.usd(costs.spot))
    yield "reserved, in use here", Cell(f"{page.usd(costs.reserved)} (list price)")
    idle = Tone.WARNING if costs.idle else Tone.PLAIN
    yield "reserved, idle", Cell(f"{page.usd(costs.idle)} (list price)", idle)
    if costs.unknown_nodes:
        yield "price unknown", Cell(wording.count(costs.unknown_nodes, "node"), Tone.WARNING)


def _failing(failing: Sequence[FailingController], *, wide: bool) -> Table:
    rows = [
        (
            Cell(one.controller, Tone.BAD),
            Cell(f"{one.key_count:,}"),
            Cell("; ".join(filter(None, (one.problem, _keys(one, wide=wide))))),
        )
        for one in failing
    ]
    return Table((Column("CONTROLLER"), Column("KEYS", is_number=True), Column("PROBLEM", wraps=True)), rows)


def _keys(one: FailingController, *, wide: bool) -> str:
    shown = len(one.keys) if wide else _SHOWN
    return wording.listed(one.keys, max(0, one.key_count - len(one.keys)), shown=shown)
