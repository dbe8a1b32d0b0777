"""Writes a page as plain text: one line per row, columns at the same position in every line, nothing cut."""

from collections.abc import Iterator, Sequence

from holdfast.cli import page
from holdfast.cli.columns import aligned
from holdfast.cli.page import Block, Heading, Items, Line, Page, Pairs, Table


def text(written: Page) -> str:
    return "".join(f"{line}\n" for line in _lines(written.blocks))


def notes(written: Page) -> str:
    return "".join(f"{page.clean(line.text)}\n" for line in written.notes)


def _lines(blocks: Sequence[Block]) -> Iterator[str]:
    indent = ""
    for position, block in enumerate(blocks):
        if isinstance(block, Heading):
            if position:
                yield ""
            yield page.clean(block.text)
            indent = "  "
        else:
            yield from (f"{indent}{line}" for line in _content(block))


def _content(block: Line | Items | Pairs | Table) -> Iterator[str]:
    match block:
        case Line(sentence):
            yield page.clean(sentence)
        case Items(sentences):
            yield from (f"- {page.clean(one)}" for one in sentences)
        case Pairs(rows):
            yield from aligned([(page.clean(name), page.clean(cell.text)) for name, cell in rows])
        case Table(columns, rows):
            cells = [[page.clean(cell.text) or page.NOTHING for cell in row] for row in rows]
            yield from aligned([[column.name for column in columns], *cells])
