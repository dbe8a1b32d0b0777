"""Draws the demo's status as lines of text, as wide as the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.demo.status import HourlyCost, NodeStatus, ReservationStatus, Status

_NANO: Final = 1_000_000_000
_SHOWN_NODES: Final = 12
_SHOWN_PENDING: Final = 3
_FULL, _FREE = "\u25a0", "\u25a1"
_COLORS: Final = {"reserved": "32", "spot": "33", "on-demand": "35", "bold": "1", "dim": "2"}


@dataclass(frozen=True, slots=True)
class Frame:
    """The title, addresses and tips around the status."""

    title: str
    addresses: tuple[tuple[str, str], ...]
    tips: tuple[str, ...]
    width: int
    color: bool


def draw(status: Status, log: Sequence[str], frame: Frame) -> list[str]:
    paint = _Paint(color=frame.color)
    lines = [f"{paint('bold', frame.title)}   {clock(status.elapsed_s)}   Ctrl-C to stop", ""]
    lines += [f"  {name:<21}{value}" for name, value in frame.addresses]
    lines += ["", paint("bold", "Reservations"), *(_reservation(one, paint) for one in status.reservations)]
    lines += ["", paint("bold", "Nodes"), *_nodes(status.nodes, paint)]
    lines += ["", paint("bold", "Pods"), *_pods(status)]
    lines += ["", paint("bold", "Cost per hour"), *_costs(status.cost)]
    lines += ["", paint("bold", "Log"), *(f"  {line}" for line in log)]
    lines += ["", paint("bold", "Try"), *(f"  {tip}" for tip in frame.tips)]
    return [_cut(line, frame.width) for line in lines]


def summary(status: Status) -> str:
    """One line, for output that is not a terminal."""
    used, total = sum(one.used for one in status.reservations), sum(one.total for one in status.reservations)
    running, replicas = sum(status.running.values()), sum(status.replicas.values())
    return (
        f"{running} of {replicas} pods run on {len(status.nodes)} nodes; {used} of {total} reserved slots in use; "
        f"{usd(status.cost.unreserved)} per hour for unreserved instances"
    )


def clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def usd(nano: int) -> str:
    return f"${nano / _NANO:.2f}"


def _reservation(one: ReservationStatus, paint: "_Paint") -> str:
    boxes = paint("reserved", _FULL * one.used) + _FREE * (one.total - one.used)
    ends = ""
    if one.state != "active":
        ends, boxes = one.state, "-" * one.total
    elif one.ends_in_s is not None:
        ends = f"ends in {clock(one.ends_in_s)}"
    space = " " * (4 - one.total)
    return (
        f"  {one.id}  {one.instance_type:<12}  {one.zone:<10}  {one.kind:<14}  "
        f"{boxes}{space} {one.used} of {one.total} in use  {ends}"
    )


def _nodes(nodes: Sequence[NodeStatus], paint: "_Paint") -> Iterator[str]:
    if not nodes:
        yield "  none"
    for one in nodes[:_SHOWN_NODES]:
        capacity = paint(one.capacity, f"{one.capacity:<9}") if one.capacity else f"{'':<9}"
        price = "-" if one.reservation_id or not one.nano_usd else usd(one.nano_usd)
        pods = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in one.pods) or "-"
        yield (
            f"  {one.claim:<17}  {one.instance_type:<12}  {one.zone:<10}  {capacity} {price:>6}  {one.state:<11} "
            f"{pods:<7} {paint('dim', one.reason)}"
        )
    if len(nodes) > _SHOWN_NODES:
        yield f"  and {len(nodes) - _SHOWN_NODES} more"


def _pods(status: Status) -> Iterator[str]:
    for name in sorted(status.replicas):
        yield f"  {name:<8}{status.running.get(name, 0)} of {status.replicas[name]} run"
    if not status.replicas:
        yield "  none"
    for name, message in list(status.pending.items())[:_SHOWN_PENDING]:
        yield f"  {name} is pending{': ' + message if message else ''}"


def _costs(cost: HourlyCost) -> Iterator[str]:
    part = round(100 * cost.used / cost.reservations) if cost.reservations else 0
    yield f"  {usd(cost.reservations)} for reservations; {part} % of it is in use"
    yield f"  {usd(cost.unreserved)} for spot and on-demand instances"


def _cut(line: str, width: int) -> str:
    """The line, no longer than the terminal is wide; color codes do not count."""
    shown, result, in_code = 0, [], False
    for character in line:
        in_code = in_code or character == "\x1b"
        if in_code:
            result.append(character)
            in_code = character != "m"
        elif shown < width:
            result.append(character)
            shown += 1
    return "".join(result)


class _Paint:
    def __init__(self, *, color: bool) -> None:
        self._color = color

    def __call__(self, name: str, text: str) -> str:
        return f"\x1b[{_COLORS[name]}m{text}\x1b[0m" if self._color and text else text
