"""What a command prints, as values: headings, lines, lists, pairs and tables. The writers decide how it looks.

Called by `explain_page`, `reservations_page`, `status_page`, `page_plain` and `page_terminal`. Names and texts come from
objects of users: `clean` makes them harmless, and both writers apply it to everything that they write.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.model import wording

NOTHING: Final = "-"
UNKNOWN: Final = "?"
_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_UNITS_SHOWN: Final = 2
_SPACES: Final = str.maketrans("\t\r\n", "   ")


class Tone(enum.Enum):
    PLAIN = ""
    STRONG = "bold"
    FAINT = "dim"
    GOOD = "green"
    WARNING = "yellow"
    BAD = "red"
    SPECIAL = "magenta"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Items:
    """A list of sentences."""

    texts: Sequence[str]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names with their values."""

    rows: Sequence[tuple[str, Cell]]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    is_number: bool = False
    rank: int = 0  # columns that do not fit into a line are written below it; the lowest ranks come first
    wraps: bool = False  # a sentence; only the last column


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


Block = Heading | Line | Items | Pairs | Table


@dataclass(frozen=True, slots=True)
class Page:
    blocks: Sequence[Block]
    notes: Sequence[Line] = ()  # after the blocks; on standard error if standard output is no terminal


def clean(text: str) -> str:
    """The text in one line, with every character that a terminal could interpret as its escape: control characters,
    directional and invisible ones."""
    flat = text.translate(_SPACES)
    if flat.isprintable():
        return flat
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in flat)


def age(seconds: int) -> str:
    """`2d3h`, `5m`, `40s`: the two largest units, rounded down."""
    parts: list[str] = []
    left = max(0, seconds)
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        if number or (parts and len(parts) < _UNITS_SHOWN):
            parts.append(f"{number}{unit}" if number else "")
    return "".join(parts[:_UNITS_SHOWN]) or "0s"


def moment(at_s: int, now_s: int) -> str:
    """`02:56 UTC (5 minutes ago)`."""
    distance = wording.duration(abs(now_s - at_s))
    relative = f"in {distance}" if at_s > now_s else f"{distance} ago"
    return f"{wording.moment(at_s, now_s)} UTC ({relative})"


def usd(amount: float | None) -> str:
    return UNKNOWN if amount is None else f"{amount:,.2f}"
