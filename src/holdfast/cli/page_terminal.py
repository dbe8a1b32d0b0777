"""Writes a page for a terminal: with colors, and as wide as the terminal.

Columns of a table that do not fit are written below their row, so nothing is cut. Every text is a `rich.text.Text`,
which rich does not parse for markup.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from holdfast.cli import page
from holdfast.cli.page import Block, Cell, Column, Heading, Items, Line, Page, Pairs, Table, Tone

_GAP: Final = "  "
_SENTENCE_MIN: Final = 30  # columns of the terminal for a cell that wraps
_WIDTH_MIN: Final = 40
_WITHOUT_NEWS: Final = frozenset({page.NOTHING, "0", "0.00"})  # not written below a row


def text(written: Page, *, width: int, colors: bool, wide: bool = False) -> str:
    """`wide`: tables have one line per row, however long."""
    console = Console(
        file=io.StringIO(),
        width=max(width, _WIDTH_MIN),
        force_terminal=True,
        color_system="standard" if colors else None,
        no_color=not colors,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    for line in _Writer(console, wide=wide).lines([*written.blocks, *_notes(written)]):
        line.rstrip()
        console.print(line, soft_wrap=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _notes(written: Page) -> Sequence[Block]:
    return [Heading(""), *written.notes] if written.notes else []


def _text(content: str, tone: Tone = Tone.PLAIN) -> Text:
    return Text(page.clean(content), style=tone.value, end="")


@dataclass(frozen=True, slots=True)
class _Writer:
    console: Console
    wide: bool

    def lines(self, blocks: Sequence[Block]) -> Iterator[Text]:
        indent = ""
        for position, block in enumerate(blocks):
            if isinstance(block, Heading):
                if position:
                    yield Text("")
                if block.text:
                    yield _text(block.text, Tone.STRONG)
                indent = _GAP if block.text else ""
            else:
                yield from self._content(block, indent)

    def _content(self, block: Line | Items | Pairs | Table, indent: str) -> Iterator[Text]:
        match block:
            case Line(sentence, tone):
                yield from self._wrapped(_text(sentence, tone), Text(indent), len(indent))
            case Items(sentences, tone):
                for one in sentences:
                    yield from self._wrapped(_text(one, tone), Text(f"{indent}- "), len(indent) + 2)
            case Pairs(rows):
                yield from self._pairs(rows, indent)
            case Table():
                yield from self._table(block, indent)

    def _pairs(self, rows: Sequence[tuple[str, Cell]], indent: str) -> Iterator[Text]:
        names = [_text(name, Tone.FAINT) for name, _ in rows]
        most = min(max((name.cell_len for name in names), default=0), self.console.width // 2)
        for name, (_, cell) in zip(names, rows, strict=True):
            name.pad_right(max(0, most - name.cell_len))
            start = Text.assemble(indent, name, _GAP)
            yield from self._wrapped(_text(cell.text, cell.tone), start, len(indent) + most + len(_GAP))

    def _table(self, table: Table, indent: str) -> Iterator[Text]:
        rows = [[_text(cell.text or page.NOTHING, cell.tone) for cell in row] for row in table.rows]
        widths = [
            max([len(column.name), *(row[position].cell_len for row in rows)])
            for position, column in enumerate(table.columns)
        ]
        shown = range(len(table.columns)) if self.wide else self._fitting(table.columns, widths, len(indent))
        head = [_text(column.name, Tone.FAINT) for column in table.columns]
        for row in [head, *rows]:
            yield from self._row(table.columns, row, widths, shown, indent)
            if row is not head:
                yield from self._below(table.columns, row, shown, indent)

    def _fitting(self, columns: Sequence[Column], widths: Sequence[int], indent: int) -> Sequence[int]:
        """The positions of the columns that fit into one line; those with the lowest rank come first."""
        shown: list[int] = []
        left = self.console.width - indent + len(_GAP)
        for one in sorted(range(len(columns)), key=lambda one: columns[one].rank):
            needed = min(widths[one], _SENTENCE_MIN) if columns[one].wraps else widths[one]
            if needed + len(_GAP) <= left or not shown:
                shown.append(one)
                left -= needed + len(_GAP)
        return sorted(shown)

    def _row(
        self,
        columns: Sequence[Column],
        row: Sequence[Text],
        widths: Sequence[int],
        shown: Sequence[int],
        indent: str,
    ) -> Iterator[Text]:
        line, column_of_last = Text(indent), len(indent)
        for position in shown[:-1]:
            cell, space = row[position], " " * (widths[position] - row[position].cell_len)
            line += (
                Text.assemble(space, cell, _GAP)
                if columns[position].is_number
                else Text.assemble(cell, space, _GAP)
            )
            column_of_last += widths[position] + len(_GAP)
        last = shown[-1]
        if columns[last].wraps and not self.wide:
            yield from self._wrapped(row[last], line, column_of_last)
            return
        space = " " * (widths[last] - row[last].cell_len) if columns[last].is_number else ""
        yield Text.assemble(line, space, row[last])

    def _below(
        self, columns: Sequence[Column], row: Sequence[Text], shown: Sequence[int], indent: str
    ) -> Iterator[Text]:
        """The cells of the other columns, with the names of their columns; a pair is not split if a line can hold it."""
        start, line = f"{indent}{_GAP}", Text()
        width = self.console.width - len(start)
        for position, cell in enumerate(row):
            if position in shown or cell.plain in _WITHOUT_NEWS:
                continue
            pair = Text.assemble((f"{columns[position].name.lower()} ", Tone.FAINT.value), cell)
            if line and line.cell_len + len(_GAP) + pair.cell_len > width:
                yield from self._wrapped(line, Text(start), len(start))
                line = Text()
            line = Text.assemble(line, _GAP if line else "", pair)
        if line:
            yield from self._wrapped(line, Text(start), len(start))

    def _wrapped(self, content: Text, start: Text, column: int) -> Iterator[Text]:
        """The text from `column` on, in as many lines as it needs; `start` stands before the first line."""
        wrapped = content.wrap(self.console, max(1, self.console.width - column)) or [Text("")]
        for position, line in enumerate(wrapped):
            yield Text.assemble(start if position == 0 else " " * column, line)
