"""Draws the demo's status as lines of text that fit the terminal."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from holdfast.demo import layout
from holdfast.demo.gangs import GangStatus
from holdfast.demo.layout import Column, Line, Section
from holdfast.demo.money import Cost
from holdfast.demo.status import NodeStatus, ReservationStatus, Status
from holdfast.model import wording

_NANO: Final = 1_000_000_000
_FULL, _FREE = "\u25a0", "\u25a1"
_COLORS: Final = {"reserved": "32", "spot": "33", "on-demand": "35", "bold": "1", "dim": "2"}
_BOXES: Final = 8  # of a reservation; a larger one is drawn to scale
_TWO_HALVES: Final = 170  # columns, from which the log is beside the status
_RIGHT_COLUMNS: Final = 64  # at least, of the log
_ANY_WIDTH: Final = 10_000
_MESSAGE_LINES: Final = 2  # of a gang that waits
_RESERVATION: Final = tuple(
    Column(name, drop)
    for name, drop in (("id", 0), ("type", 0), ("zone", 3), ("kind", 2), ("slots", 1), ("use", 0), ("end", 0))
)
_GANG: Final = (
    Column("name"),
    Column("pods"),
    Column("run time", 1),
    Column("state"),
    Column("running"),
)
_NODE: Final = (
    Column("name"),
    Column("type"),
    Column("zone", 5),
    Column("capacity type", 1),
    Column("$/h", 3, right=True),
    Column("state", 2),
    Column("pods", 4),
    Column("reason", 6),
)
_COST: Final = (
    Column("what"),
    Column("$/h", right=True),
    Column("total", right=True),
    Column("explanation", 1),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """The title, addresses and tips around the status, and the size of the terminal."""

    title: str
    addresses: tuple[tuple[str, str], ...]
    tips: tuple[str, ...]
    width: int
    height: int
    color: bool


@dataclass(frozen=True, slots=True)
class _Content:
    """All sections, drawn for a width."""

    header: Section
    left: tuple[Section, ...]
    right: tuple[Section, ...]  # beside the left ones on a wide terminal, else below
    left_width: int
    dropped: tuple[str, ...]  # columns


def draw(status: Status, log: Sequence[str], frame: Frame) -> list[str]:
    """At most as many lines, and as wide, as the terminal. The last line states what is hidden."""
    paint = _Paint(color=frame.color)
    content = _content(status, log, frame, paint)
    lines, hidden = _arrange(content, frame, frame.height)
    if hidden or content.dropped:
        lines, hidden = _arrange(content, frame, frame.height - 1)
        hidden["column"] = len(content.dropped)
        lines.append(paint("dim", layout.cut(layout.hidden_text(hidden), frame.width)))
    return [layout.cut(line, frame.width) for line in lines]


def _arrange(content: _Content, frame: Frame, height: int) -> tuple[list[str], Counter[str]]:
    if frame.width < _TWO_HALVES:
        return layout.fit((content.header, *content.left, *content.right), height)
    header, hidden = layout.fit((content.header,), height)
    header = [*header, ""][:height]
    left, hidden_left = layout.fit(content.left, height - len(header))
    right, hidden_right = layout.fit(content.right, height - len(header))
    body = [
        f"{layout.pad(layout.cut(one, content.left_width), content.left_width)}  {other}".rstrip()
        for one, other in zip_longest(left, right, fillvalue="")
    ]
    return [*header, *body], hidden + hidden_left + hidden_right


def _content(status: Status, log: Sequence[str], frame: Frame, paint: "_Paint") -> _Content:
    tables = (
        ([_reservation(one, paint) for one in status.reservations], _RESERVATION),
        ([_gang(one) for one in status.gangs], _GANG),
        ([_node(one, paint) for one in status.nodes], _NODE),
        (list(_costs(status)), _COST),
    )
    width = frame.width
    if width >= _TWO_HALVES:
        whole = (line for table in tables for line in layout.table(*table, _ANY_WIDTH)[0])
        width = min(max(map(layout.visible, whole)), width - _RIGHT_COLUMNS - 2)
    drawn = [layout.table(*table, width) for table in tables]
    reservations, gangs, nodes, (heading, *costs) = (lines for lines, _ in drawn)
    events, tips = ([f"  {line}" for line in lines] for lines in (log, frame.tips))
    return _Content(
        header=Section(
            f"{paint('bold', frame.title)}   {clock(status.elapsed_s)}   q or Ctrl-C to stop",
            tuple(Line(f"  {name:<21}{value}", "address") for name, value in frame.addresses),
            rank=0,
            least=len(frame.addresses),
        ),
        left=(
            Section(paint("bold", "Reservations"), _lines(reservations, "reservation"), rank=1, least=3),
            *_gang_sections(status, gangs, width, paint),
            Section(paint("bold", "Nodes"), _lines(nodes, "node"), rank=2, least=2 if status.gangs else 4),
            Section(
                paint("bold", "Pods"), tuple(_pods(status, width)), rank=7 if status.gangs else 4, least=2
            ),
            # The title is not indented, and its columns are those of the lines.
            Section(
                paint("bold", heading.replace("  Cost", "Cost  ", 1)),
                _lines(costs, "cost"),
                rank=8 if status.gangs else 3,
                least=3,
            ),
        ),
        right=(
            Section(
                paint("bold", "Log"),
                _lines(events, "log line"),
                rank=5,
                least=4 if gangs else 2,
                scrolls=True,
            ),
            Section(paint("bold", "Try"), _lines(tips, "command"), rank=6, least=1),
        ),
        left_width=width,
        dropped=tuple(dict.fromkeys(name for _, names in drawn for name in names)),
    )


def _lines(texts: Sequence[str], noun: str) -> tuple[Line, ...]:
    return tuple(Line(text, noun) for text in texts) or (Line("  none"),)


def summary(status: Status) -> str:
    """One line, for output that is not a terminal."""
    started = [one for one in status.reservations if one.starts_in_s is None]
    used, total = sum(one.used for one in started), sum(one.total for one in started)
    running, replicas = sum(status.running.values()), sum(status.replicas.values())
    cost = status.cost
    return (
        f"{running} of {replicas} pods run on {len(status.nodes)} nodes; {used} of {total} reserved slots in use; "
        f"{usd(cost.paid)} per hour, of it {usd(cost.idle)} for idle slots; "
        f"without reservations {usd(cost.without_reservations)}"
    )


def clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def usd(nano: int) -> str:
    return f"${nano / _NANO:,.2f}"


def _reservation(one: ReservationStatus, paint: "_Paint") -> tuple[str, ...]:
    boxes, ends = _boxes(one, paint), ""
    if one.starts_in_s is not None:
        ends, boxes = f"starts in {clock(one.starts_in_s)}", _FREE * min(one.total, _BOXES)
    elif one.state != "active":
        ends, boxes = one.state, "-" * min(one.total, _BOXES)
    elif one.ends_in_s is not None:
        ends = f"ends in {clock(max(0, one.ends_in_s))}"
    return one.id, one.instance_type, one.zone, one.kind, boxes, f"{one.used} of {one.total} in use", ends


def _boxes(one: ReservationStatus, paint: "_Paint") -> str:
    """A box for each slot. A large reservation looks full only if it is, and empty only if it is."""
    boxes, full = one.total, one.used
    if one.total > _BOXES:
        boxes = _BOXES
        full = max(min(1, one.used), _BOXES * one.used // one.total)
    return paint("reserved", _FULL * full) + _FREE * (boxes - full)


def _node(one: NodeStatus, paint: "_Paint") -> tuple[str, ...]:
    price = "-" if one.reservation_id or not one.nano_usd else usd(one.nano_usd)
    pods = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in one.pods) or "-"
    capacity = paint(one.capacity, one.capacity) if one.capacity else ""
    reason = paint("dim", one.reason)
    return one.claim, one.instance_type, one.zone, capacity, price, one.state, layout.clean(pods), reason


def _gang_sections(status: Status, rows: Sequence[str], width: int, paint: "_Paint") -> Iterator[Section]:
    """A section if there are gangs: a row for each, and below it why it waits."""
    lines: list[Line] = []
    for one, row in zip(status.gangs, rows, strict=True):
        lines.append(Line(row, "gang"))
        message = textwrap.wrap(
            layout.clean(one.message), width - 4, max_lines=_MESSAGE_LINES, placeholder="\u2026"
        )
        lines += [Line(f"    {paint('dim', line)}") for line in message]
    if lines:
        kinds = dict.fromkeys(f"{one.kind}s" for one in status.gangs)
        yield Section(paint("bold", " and ".join(kinds)), tuple(lines), rank=1, least=9)


def _gang(one: GangStatus) -> tuple[str, ...]:
    run_time = "" if one.run_time_s is None else f"at most {wording.duration(one.run_time_s)}"
    pods = wording.count(one.pods, "pod")
    name = one.name if one.is_request else f"{one.kind} {one.name}"
    return layout.clean(name), pods, run_time, one.state, f"{one.running} of {one.pods} run"


def _pods(status: Status, width: int) -> Iterator[Line]:
    """The workloads, as many in a line as there is space for, and the pending pods."""
    cells = [
        layout.clean(f"{name}  {status.running.get(name, 0)} of {status.replicas[name]} run")
        for name in sorted(status.replicas)
    ]
    column = max(map(layout.visible, cells), default=0) + 4
    in_line = max(1, (width - 2) // column)
    for first in range(0, len(cells), in_line):
        part = cells[first : first + in_line]
        text = "".join(layout.pad(cell, column) for cell in part)
        yield Line(f"  {text}".rstrip(), "workload", len(part))
    if not cells:
        yield Line("  none")
    for name, message in status.pending.items():
        yield Line(layout.clean(f"  {name} is pending{': ' + message if message else ''}"), "pending pod")


def _costs(status: Status) -> Iterator[tuple[str, ...]]:
    def row(what: str, cost: Callable[[Cost], int], explanation: str) -> tuple[str, ...]:
        return what, usd(cost(status.cost)), usd(cost(status.total)), explanation

    parts = f"{usd(status.cost.reservations)} for reservations, {usd(status.cost.unreserved)} for spot and on-demand"
    yield "Cost", "per hour", "since start", ""
    yield row("paid", lambda cost: cost.paid, parts)
    yield row("of it for idle slots", lambda cost: cost.idle, "reserved and not in use")
    yield row(
        "without reservations",
        lambda cost: cost.without_reservations,
        "the same nodes, those in slots on demand",
    )


class _Paint:
    def __init__(self, *, color: bool) -> None:
        self._color = color

    def __call__(self, name: str, text: str) -> str:
        style = _COLORS.get(name)
        return f"\x1b[{style}m{text}\x1b[0m" if self._color and style and text else text
