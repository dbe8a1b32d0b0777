"""Draws a picture as lines of text, as wide as the terminal. Called by `holdfast demo`; nothing is read or decided here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.demo.picture import Machine, Money, Picture, Slots

_NANO: Final = 1_000_000_000
_SHOWN_MACHINES: Final = 12
_SHOWN_WAITING: Final = 3
_FULL, _FREE = "\u25a0", "\u25a1"
_COLORS: Final = {"reserved": "32", "spot": "33", "on-demand": "35", "bold": "1", "dim": "2"}


@dataclass(frozen=True, slots=True)
class Frame:
    """What is around the picture, and does not change much."""

    title: str
    addresses: tuple[tuple[str, str], ...]
    tips: tuple[str, ...]
    width: int
    color: bool


def draw(picture: Picture, said: Sequence[str], frame: Frame) -> list[str]:
    paint = _Paint(color=frame.color)
    lines = [f"{paint('bold', frame.title)}   {clock(picture.elapsed_s)}   Ctrl-C ends it", ""]
    lines += [f"  {name:<12}{value}" for name, value in frame.addresses]
    lines += ["", paint("bold", "Paid for"), *(_reservation(one, paint) for one in picture.slots)]
    lines += ["", paint("bold", "Nodes"), *_machines(picture.machines, paint)]
    lines += ["", paint("bold", "Pods"), *_pods(picture)]
    lines += ["", paint("bold", "An hour costs"), *_costs(picture.money)]
    lines += ["", paint("bold", "What happened"), *(f"  {line}" for line in said)]
    lines += ["", paint("bold", "Try"), *(f"  {tip}" for tip in frame.tips)]
    return [_cut(line, frame.width) for line in lines]


def summary(picture: Picture) -> str:
    """One line, where nothing can be drawn."""
    used, total = sum(one.used for one in picture.slots), sum(one.total for one in picture.slots)
    running, wanted = sum(picture.running.values()), sum(picture.wanted.values())
    return (
        f"{running} of {wanted} pods run on {len(picture.machines)} nodes; {used} of {total} paid slots in use; "
        f"{usd(picture.money.bought)} an hour on top"
    )


def clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def usd(nano: int) -> str:
    return f"${nano / _NANO:.2f}"


def _reservation(one: Slots, paint: "_Paint") -> str:
    boxes = paint("reserved", _FULL * one.used) + _FREE * (one.total - one.used)
    ends = ""
    if one.state != "active":
        ends, boxes = one.state, "-" * one.total
    elif one.ends_in_s is not None:
        ends = f"ends in {clock(one.ends_in_s)}"
    space = " " * (6 - one.total)
    return (
        f"  {one.id}  {one.instance_type:<13} {one.zone:<11} {one.kind:<15}"
        f"{boxes}{space} {one.used} of {one.total} in use  {ends}"
    )


def _machines(machines: Sequence[Machine], paint: "_Paint") -> Iterator[str]:
    if not machines:
        yield "  none"
    for one in machines[:_SHOWN_MACHINES]:
        capacity = paint(one.capacity, f"{one.capacity:<10}") if one.capacity else f"{'':<10}"
        price = "paid" if one.reservation_id else usd(one.nano_usd) if one.nano_usd else "-"
        carries = ", ".join(one.pods) or "-"
        yield (
            f"  {one.claim:<18} {one.instance_type:<13} {one.zone:<11} {capacity} {price:>6}  {one.state:<10}"
            f"{carries}   {paint('dim', one.why)}"
        )
    if len(machines) > _SHOWN_MACHINES:
        yield f"  and {len(machines) - _SHOWN_MACHINES} more"


def _pods(picture: Picture) -> Iterator[str]:
    for name in sorted(picture.wanted):
        yield f"  {name:<8}{picture.running.get(name, 0)} of {picture.wanted[name]} run"
    if not picture.wanted:
        yield "  none"
    for name, why in list(picture.waiting.items())[:_SHOWN_WAITING]:
        yield f"  {name} waits{': ' + why if why else ''}"


def _costs(money: Money) -> Iterator[str]:
    part = round(100 * money.used / money.slots) if money.slots else 0
    yield f"  {usd(money.slots)} for reservations, used or not; {part} % of it is in use"
    yield f"  {usd(money.bought)} on top, for what runs outside of them"
    saved = money.on_demand - money.bought
    yield f"  {usd(saved)} less than if everything that runs were bought on demand"


def _cut(line: str, width: int) -> str:
    """No longer than the terminal is wide; what colors it takes no room."""
    shown, kept, in_code = 0, [], False
    for character in line:
        in_code = in_code or character == "\x1b"
        if in_code:
            kept.append(character)
            in_code = character != "m"
        elif shown < width:
            kept.append(character)
            shown += 1
    return "".join(kept)


class _Paint:
    def __init__(self, *, color: bool) -> None:
        self._color = color

    def __call__(self, name: str, text: str) -> str:
        return f"\x1b[{_COLORS[name]}m{text}\x1b[0m" if self._color and text else text
