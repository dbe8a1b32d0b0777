"""The index of facts: every id of docs/spec with its text, its page and its section.

Called by `parity`. Two facts with the same id are an error. A page without a reader in `READERS` has no ids.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from paritylib import ParityError

_HEADING: Final = re.compile(
    r"(?P<level>#{2,}) (?P<number>\d+(?:\.\d+)*)\.? (?P<title>.*?)(?: \[src: .*\])?$"
)
_ITEM: Final = re.compile(r"- (?P<id>[A-Z]+-\d+[a-z]?) (?P<text>.*)")
_NUMBERED: Final = re.compile(r"(?P<id>AW-\d+|\d+(?:\.\d+)+[a-z]?) (?P<text>.*)")
_ROW: Final = re.compile(r"\| *(?P<id>Q-\d+[a-z]?) *\| *(?P<text>.*?) *\|[^|]*\|[^|]*\|$")


@dataclass(frozen=True, slots=True)
class Fact:
    id: str
    text: str
    page: str  # karpenter-core.md
    chapter: str  # 7. CRDs; empty on a page without numbered headings, as are the next two
    section: str  # 7.1
    heading: str  # NodePool spec
    line: int

    @property
    def place(self) -> str:
        return f"docs/spec/{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page with its chapter and section."""

    number: int
    text: str
    chapter: str
    section: str
    heading: str


def read(spec: Path) -> dict[str, Fact]:
    """Every fact by its id, in the order of the pages."""
    found: dict[str, Fact] = {}
    wrong: list[str] = []
    for page, reader in READERS.items():
        for fact in reader(page, list(_lines(spec / page))):
            if fact.id in found:
                wrong.append(
                    f"{fact.place}: {fact.id} is already at {found[fact.id].place}; give it an id of its own"
                )
            found[fact.id] = fact
    if wrong:
        raise ParityError(wrong)
    return found


def natural(fact_id: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts S-9 before S-10, and R-14 before R-14a."""
    parts = re.findall(r"\d+|[^\d.]+", fact_id)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def _lines(path: Path) -> Iterator[Line]:
    chapter = section = heading = ""
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if match := _HEADING.match(text):
            section, heading = match["number"], match["title"]
            chapter = f"{section}. {heading}" if match["level"] == "##" else chapter
        yield Line(number, text, chapter, section, heading)


def _requirements(page: str, lines: list[Line]) -> Iterator[Fact]:
    """Rows of a table: `| Q-1 | text | seed | H, E |`."""
    for line in lines:
        if match := _ROW.match(line.text):
            yield _fact(page, line, match["id"], match["text"])


def _items(page: str, lines: list[Line]) -> Iterator[Fact]:
    """List items with an id, `- S-12 text`, and their indented continuation lines."""
    fact: Fact | None = None
    for line in lines:
        if match := _ITEM.match(line.text):
            if fact:
                yield fact
            fact = _fact(page, line, match["id"], match["text"])
        elif fact and line.text.startswith("  "):
            fact = replace(fact, text=f"{fact.text} {line.text.strip()}")
        elif fact:
            yield fact
            fact = None
    if fact:
        yield fact


def _numbers(page: str, lines: list[Line]) -> Iterator[Fact]:
    """Paragraphs that start with a number, `1.2.4 text`, and subsections without such a paragraph."""
    sections_with_facts = {line.section for line in lines if _NUMBERED.match(line.text)}
    for line in lines:
        if match := _NUMBERED.match(line.text):
            fact_id = match["id"] if match["id"].startswith("AW-") else f"aws-{match['id']}"
            yield _fact(page, line, fact_id, match["text"])
        elif line.text.startswith("### ") and line.section and line.section not in sections_with_facts:
            yield _fact(page, line, f"aws-{line.section}", line.heading)


def _fact(page: str, line: Line, fact_id: str, text: str) -> Fact:
    return Fact(fact_id, text, page, line.chapter, line.section, line.heading, line.number)


READERS: Final[dict[str, Callable[[str, list[Line]], Iterator[Fact]]]] = {
    "seed-requirements.md": _requirements,
    "karpenter-core.md": _items,
    "karpenter-aws.md": _numbers,
    "provisioning-requests.md": _items,
}
