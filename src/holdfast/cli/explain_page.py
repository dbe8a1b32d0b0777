"""The answer of `holdfast explain` as a page."""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.api.reports import DecisionRow, Explanation
from holdfast.cli import page
from holdfast.cli.page import Block, Cell, Column, Heading, Items, Line, Page, Pairs, Table, Tone
from holdfast.model import wording
from holdfast.state.conversion import times

_SHOWN: Final = 5  # decisions; `-o wide` shows all


def build(found: Explanation, *, wide: bool = False) -> Page:
    return Page(tuple(_blocks(found, wide=wide)))


def _blocks(found: Explanation, *, wide: bool) -> Iterator[Block]:
    name = f"{found.namespace}/{found.name}" if found.namespace else found.name
    yield Heading(f"{found.kind} {name}")
    yield Line(found.what, Tone.STRONG)
    yield Pairs(tuple(_times(found)))
    if found.why:
        yield Heading("Why")
        yield Items(found.why)
    if found.considered:
        yield Heading("Considered, and not used")
        rows = [(Cell(one.subject), Cell(one.text)) for one in found.considered]
        yield Table((Column("WHAT"), Column("WHY NOT", wraps=True)), rows)
    if found.changes:
        yield Heading("What would change it")
        yield Items(found.changes)
    if found.facts:
        yield Heading("Facts")
        yield Pairs(tuple((fact.name, Cell(fact.value)) for fact in found.facts))
    if found.decisions:
        yield Heading("Last decisions")
        yield from _decisions(found.decisions, wide=wide)
    if found.computed:
        yield Heading("No leader answered")
        yield Line(found.computed, Tone.WARNING)


def _times(found: Explanation) -> Iterator[tuple[str, Cell]]:
    if found.since is not None:
        yield "since", Cell(page.moment(found.since, found.at))
    if found.next:
        yield "next", Cell(found.next)


def _decisions(decisions: Sequence[DecisionRow], *, wide: bool) -> Iterator[Block]:
    shown = decisions if wide else decisions[:_SHOWN]
    rows = [
        (Cell(times.text(one.at)), Cell(one.type), Cell("; ".join((one.text, *one.reasons)))) for one in shown
    ]
    yield Table((Column("TIME"), Column("TYPE"), Column("WHAT AND WHY", wraps=True)), rows)
    if len(shown) < len(decisions):
        more = wording.count(len(decisions) - len(shown), "older decision")
        yield Line(f"{more}: -o wide shows all", Tone.FAINT)
