"""The answer of `holdfast reservations` as a page: one row per reservation, and what idle slots cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from holdfast.api.reports import ReservationRow, ReservationsReport, SlotUse
from holdfast.cli import page
from holdfast.cli.page import Cell, Column, Line, Page, Table, Tone
from holdfast.model import wording
from holdfast.state.conversion import times

_SHOWN: Final = 3  # nodes of one reservation; `-o wide` shows all
_ACTIVE: Final = "active"
_OPEN: Final = "open"
_NO_CLASS: Final = "none"
_COLUMNS: Final = (
    Column("RESERVATION"),
    Column("TYPE", rank=1),
    Column("ZONE", rank=3),
    Column("KIND", rank=9),
    Column("TOTAL", is_number=True, rank=1),
    Column("HERE", is_number=True, rank=1),
    Column("OTHER", is_number=True, rank=5),
    Column("HELD", is_number=True, rank=6),
    Column("RELEASING", is_number=True, rank=7),
    Column("FREE", is_number=True, rank=1),
    Column("IDLE$/H", is_number=True, rank=2),
    Column("ENDS", rank=4),
    Column("STATE", rank=4),
    Column("CLASSES", rank=8),
    Column("NODES", rank=10),
)
_WIDE_COLUMNS: Final = (
    Column("OWNER"),
    Column("EC2-STATE"),
    Column("STARTS"),
    Column("DRAINS"),
    Column("RECLAIMS"),
)


def build(
    report: ReservationsReport,
    slots: Mapping[str, Sequence[SlotUse]],
    *,
    exact: bool,
    wide: bool = False,
    filtered: bool = False,
) -> Page:
    """`exact`: for programs; times are dates, and no cell has a space. `filtered`: the report does not have all reservations."""
    rows = [_row(one, slots.get(one.id, ()), report.at, exact=exact, wide=wide) for one in report.items]
    if not rows:
        return Page((Line("No reservations."),), tuple(_notes(report, filtered=filtered)))
    columns = (*_COLUMNS[:-1], *_WIDE_COLUMNS, _COLUMNS[-1]) if wide else _COLUMNS
    return Page((Table(columns, rows),), tuple(_notes(report, filtered=filtered)))


def _row(
    one: ReservationRow, uses: Sequence[SlotUse], now_s: int, *, exact: bool, wide: bool
) -> tuple[Cell, ...]:
    when = times.text if exact else lambda at_s: _distance(at_s, now_s)
    cells = (
        Cell(one.id, Tone.STRONG),
        Cell(one.instance_type),
        Cell(one.zone),
        Cell(one.kind),
        Cell(str(one.total)),
        Cell(str(one.here)),
        Cell(str(one.elsewhere)),
        Cell(str(one.held)),
        Cell(str(one.releasing)),
        Cell(str(one.free), Tone.GOOD if one.free else Tone.PLAIN),
        _idle(one),
        Cell(page.NOTHING if one.ends is None else when(one.ends)),
        _state(one),
        Cell(",".join(one.node_classes) or _NO_CLASS, Tone.PLAIN if one.node_classes else Tone.WARNING),
    )
    more = tuple(
        Cell(page.NOTHING if at_s is None else when(at_s)) for at_s in (one.starts, one.drains, one.reclaims)
    )
    wide_cells = (Cell(one.owner), Cell(one.state), *more) if wide else ()
    nodes = _nodes(uses, len(uses) if wide else _SHOWN)
    return (*cells, *wide_cells, Cell(("," if exact else ", ").join(nodes) or page.NOTHING))


def _distance(at_s: int, now_s: int) -> str:
    return f"in {page.age(at_s - now_s)}" if at_s > now_s else f"{page.age(now_s - at_s)} ago"


def _idle(one: ReservationRow) -> Cell:
    if not one.idle:
        return Cell(page.usd(0.0))
    return Cell(page.usd(one.idle_usd_per_hour), Tone.WARNING)


def _state(one: ReservationRow) -> Cell:
    if one.state != _ACTIVE:
        return Cell(one.state, Tone.FAINT)
    return Cell(one.window, Tone.PLAIN if one.window == _OPEN else Tone.WARNING)


def _nodes(uses: Sequence[SlotUse], shown: int) -> list[str]:
    more = [f"+{len(uses) - shown}"] if len(uses) > shown else []
    return [_node(use) for use in uses[:shown]] + more


def _node(use: SlotUse) -> str:
    name = use.node or use.node_claim or page.UNKNOWN
    return name if use.state == "running" else f"{name}({use.state})"


def _notes(report: ReservationsReport, *, filtered: bool) -> Iterator[Line]:
    if report.computed:
        yield Line(report.computed, Tone.WARNING)
    idle = sum(one.idle for one in report.items)
    line = f"{wording.count(idle, 'idle slot')}: ${page.usd(report.idle_usd_per_hour)} an hour"
    if report.without_price:
        line += f", without {wording.count(report.without_price, 'reservation')} whose price is unknown"
    yield Line(f"{line}.", Tone.WARNING if idle else Tone.PLAIN)
    if report.idle_since and not filtered:
        since = page.moment(report.idle_since, report.at)
        yield Line(f"Idle slots cost ${page.usd(report.idle_usd_day)} since {since}.")
    unselected = [one.id for one in report.items if not one.node_classes]
    if unselected:
        yield Line(f"No EC2NodeClass selects {wording.listed(unselected)}.", Tone.WARNING)
    if not report.counted_at:
        yield Line("EC2's counts were not read yet.", Tone.WARNING)
