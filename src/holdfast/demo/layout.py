"""Fits sections of lines and tables into a terminal of any size, and counts what does not fit.

Pure functions on text. `view` has the content. Color codes have no width.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_CODE: Final = re.compile(r"\x1b\[[0-9;]*m")
_RESET: Final = "\x1b[0m"
_CUT: Final = "\u2026"
_GAP: Final = "  "
_SCROLLED: Final = 8  # lines of a section that scrolls, before sections are separated by empty lines


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    noun: str = ""  # of what the line shows, singular; empty: it is not counted when it is hidden
    count: int = 1  # how many of them


@dataclass(frozen=True, slots=True)
class Section:
    """A title with lines. Sections of a lower rank get their lines first."""

    title: str
    lines: tuple[Line, ...]
    rank: int
    least: int  # lines that the section gets before others get more
    scrolls: bool = False  # the last lines are shown; earlier ones count as hidden only if no line is shown


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. The column with the highest `drop` is left out first; 0 is never left out."""

    name: str
    drop: int = 0
    right: bool = False


def fit(sections: Sequence[Section], height: int) -> tuple[list[str], Counter[str]]:
    """The lines of the sections, at most `height`, and how many things are hidden, by noun."""
    needed = sum(1 + (_SCROLLED if one.scrolls else len(one.lines)) for one in sections)
    spaces = len(sections) - 1 if needed + len(sections) - 1 <= height else 0
    shares = _shares(sections, height - spaces)
    lines: list[str] = []
    hidden: Counter[str] = Counter()
    for index, section in enumerate(sections):
        shown, rest = _split(section, shares.get(index, 0))
        if not (section.scrolls and shown):
            for line in rest:
                hidden[line.noun] += line.count
        if index in shares:
            lines += [""] if spaces and lines else []
            lines += [section.title, *(line.text for line in shown)]
    del hidden[""]
    return lines, hidden


def _shares(sections: Sequence[Section], height: int) -> dict[int, int]:
    """How many lines each section gets; a section that gets no title is left out."""
    order = sorted(range(len(sections)), key=lambda index: sections[index].rank)
    shares: dict[int, int] = {}
    left = height
    for index in order:
        share = min(sections[index].least, len(sections[index].lines), left - 1)
        if share > 0:
            shares[index] = share
            left -= 1 + share
    while left > 0:
        growing = [index for index in order if index in shares and shares[index] < len(sections[index].lines)]
        if not growing:
            break
        for index in growing[:left]:
            shares[index] += 1
        left -= len(growing[:left])
    return shares


def _split(section: Section, shown: int) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    if section.scrolls:
        first = len(section.lines) - shown
        return section.lines[first:], section.lines[:first]
    return section.lines[:shown], section.lines[shown:]


def hidden_text(hidden: Mapping[str, int]) -> str:
    """One line about what is hidden; empty if nothing is."""
    parts = [f"{count} {noun if count == 1 else _plural(noun)}" for noun, count in hidden.items() if count]
    return f"A larger terminal shows {', '.join(parts)} more" if parts else ""


def _plural(noun: str) -> str:
    return noun + ("es" if noun.endswith("s") else "s")


# --- Tables -------------------------------------------------------------------------------------------


def table(
    rows: Sequence[Sequence[str]], columns: Sequence[Column], width: int
) -> tuple[list[str], tuple[str, ...]]:
    """The rows with aligned columns, and the names of columns that were left out because of the width."""
    widths = [max((visible(row[index]) for row in rows), default=0) for index in range(len(columns))]
    kept = [index for index in range(len(columns)) if widths[index]]
    dropped: list[str] = []
    while sum(widths[index] for index in kept) + len(_GAP) * len(kept) > width:
        last = max(kept, key=lambda index: columns[index].drop)
        if not columns[last].drop:
            break
        kept.remove(last)
        dropped.append(columns[last].name)
    lines = ["".join(_cells(row, kept, columns, widths)).rstrip() for row in rows]
    return lines, tuple(dropped)


def _cells(
    row: Sequence[str], kept: Sequence[int], columns: Sequence[Column], widths: Sequence[int]
) -> Iterator[str]:
    for index in kept:
        space = " " * (widths[index] - visible(row[index]))
        yield _GAP + (space + row[index] if columns[index].right else row[index] + space)


# --- Width of text ------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """The text without control characters, which could move the cursor."""
    return "".join(character if character.isprintable() else " " for character in text)


def visible(line: str) -> int:
    """The columns that a line takes."""
    return sum(_columns(character) for character in _CODE.sub("", line))


def cut(line: str, width: int) -> str:
    """The line, no longer than the width; a mark shows that it was cut."""
    if visible(line) <= width:
        return line
    result: list[str] = []
    left, end = width - 1, 0
    for code in [*_CODE.finditer(line), None]:
        for character in line[end : code.start() if code else len(line)]:
            left -= _columns(character)
            if left < 0:
                return "".join(result) + _CUT + (_RESET if "\x1b" in line else "")
            result.append(character)
        if code:
            result.append(code[0])
            end = code.end()
    return "".join(result)


def pad(line: str, width: int) -> str:
    return line + " " * (width - visible(line))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
