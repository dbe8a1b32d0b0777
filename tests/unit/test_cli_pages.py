"""The output of `holdfast explain`, `reservations` and `status` as text, and what hostile names do to it.

The texts are files below tests/unit/data/cli; HOLDFAST_WRITE_TEXTS=1 writes them again. Review the difference.
"""

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import report_documents as documents
from holdfast.api import documents as yaml_documents
from holdfast.api.reports import Considered, Explanation, Fact
from holdfast.cli import explain_page, page, page_plain, page_terminal, reservations_page, status_page
from holdfast.cli.page import Cell, Column, Page, Table

DATA = Path(__file__).parent / "data/cli"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "a\x1b[31mred\x1b]0;title\x07 [bold]b[/bold] \u202eright\u200f \x9b2J\x00\n:smile: c"


def built(name: str, *, exact: bool, wide: bool) -> Page:
    if name == "explain":
        return explain_page.build(documents.POD, wide=wide)
    if name == "explain-request":
        return explain_page.build(documents.REQUEST, wide=wide)
    if name == "status":
        return status_page.build(documents.STATUS, wide=wide)
    return reservations_page.build(documents.RESERVATIONS, documents.SLOTS.items, exact=exact, wide=wide)


def assert_text(name: str, text: str) -> None:
    path = DATA / f"{name}.txt"
    if os.environ.get("HOLDFAST_WRITE_TEXTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


NAMES = ("explain", "explain-request", "reservations", "status")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [80, 120])
def test_text_on_a_terminal(name: str, width: int) -> None:
    text = page_terminal.text(built(name, exact=False, wide=False), width=width, colors=False)
    assert_text(f"{name}-{width}", text)
    assert max(map(len, text.splitlines())) <= width
    colored = page_terminal.text(built(name, exact=False, wide=False), width=width, colors=True)
    assert colored != text
    assert ESCAPE.sub("", colored) == text


@pytest.mark.parametrize("name", NAMES)
def test_the_documentation_shows_the_real_text(name: str) -> None:
    page_name = "provisioning-requests.md" if name == "explain-request" else "cli.md"
    shown = (DATA.parents[3] / "docs" / page_name).read_text(encoding="utf-8")
    assert (DATA / f"{name}-80.txt").read_text(encoding="utf-8") in shown


@pytest.mark.parametrize("name", NAMES)
def test_plain_text(name: str) -> None:
    text = page_plain.text(built(name, exact=True, wide=False))
    assert_text(f"{name}-plain", text)
    assert text.isascii()


@pytest.mark.parametrize("name", NAMES)
def test_wide_text(name: str) -> None:
    assert_text(f"{name}-wide", page_plain.text(built(name, exact=True, wide=True)))


def test_wide_rows_have_one_line_on_any_terminal() -> None:
    rows = built("reservations", exact=False, wide=True)
    text = page_terminal.text(rows, width=80, colors=False, wide=True)
    assert [line.split()[0] for line in text.splitlines()[:4]] == [
        "RESERVATION",
        *(one.id for one in documents.RESERVATIONS.items),
    ]
    assert "ip-10-0-1-14.us-west-2.compute.internal(releasing)" in text.splitlines()[1]


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 100, 140, 200, 400])
def test_no_width_cuts_a_cell(width: int) -> None:
    first, *others = documents.RESERVATIONS.items
    long = msgspec.structs.replace(first, instance_type="u-24tb1.112xlarge", zone="us-west-2-lax-1a")
    report = msgspec.structs.replace(documents.RESERVATIONS, items=(long, *others))
    rows = reservations_page.build(report, documents.SLOTS.items, exact=False)
    text = page_terminal.text(rows, width=width, colors=False)
    joined = "".join(text.split())
    for row in report.items:
        for cell in (row.id, row.instance_type, row.zone, row.kind, *row.node_classes):
            assert cell in joined
    assert "ip-10-0-1-12.us-west-2.compute.internal" in joined
    assert max(map(len, text.splitlines())) <= max(width, 40)


def test_columns_that_do_not_fit_are_below_their_row() -> None:
    columns = (Column("NAME"), Column("LOW", rank=2), Column("HIGH", rank=1))
    table = Table(
        columns, [(Cell("a" * 20), Cell("b" * 20), Cell("c" * 20)), (Cell("d"), Cell("-"), Cell("e"))]
    )
    text = page_terminal.text(Page([table]), width=50, colors=False)
    assert text.splitlines() == [
        "NAME                  HIGH",
        "a" * 20 + "  " + "c" * 20,
        "  low " + "b" * 20,
        "d" + " " * 21 + "e",
    ]


def hostile_explanation(text: str) -> Explanation:
    return Explanation(
        at=0,
        kind=text,
        namespace=text,
        name=text,
        what=text,
        why=(text,),
        considered=(Considered(subject=text, text=text),),
        changes=(text,),
        next=text,
        facts=(Fact(name=text, value=text),),
        computed=text,
    )


def test_hostile_texts_are_escaped_and_no_markup_is_parsed() -> None:
    pages = explain_page.build(hostile_explanation(HOSTILE))
    for text in (page_plain.text(pages), page_terminal.text(pages, width=400, colors=False)):
        assert all(line.isprintable() for line in text.splitlines())
        shown = "a\\x1b[31mred\\x1b]0;title\\x07 [bold]b[/bold] \\u202eright\\u200f \\x9b2J\\x00 :smile: c"
        assert text.count(shown) >= 10
    colored = page_terminal.text(pages, width=400, colors=True)
    assert all(line.isprintable() for line in ESCAPE.sub("", colored).splitlines())
    assert "\x1b[31m" not in colored


def all_texts(document: Any, text: str) -> Any:
    """The document with `text` instead of every string."""
    if isinstance(document, str):
        return text
    if isinstance(document, dict):
        return {key: all_texts(value, text) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [all_texts(value, text) for value in document]
    return document


@given(st.text(max_size=30), st.integers(1, 200))
def test_no_text_of_a_document_reaches_the_terminal_raw(text: str, width: int) -> None:
    found = [
        explain_page.build(hostile(documents.POD, text)),
        status_page.build(hostile(documents.STATUS, text)),
        reservations_page.build(hostile(documents.RESERVATIONS, text), documents.SLOTS.items, exact=False),
    ]
    for one in found:
        for written in (
            page_plain.text(one) + page_plain.notes(one),
            page_terminal.text(one, width=width, colors=False),
            ESCAPE.sub("", page_terminal.text(one, width=width, colors=True)),
        ):
            assert all(line.isprintable() for line in written.split("\n"))


def hostile(document: Any, text: str) -> Any:
    return msgspec.convert(all_texts(msgspec.to_builtins(document), text), type(document))


@given(
    st.recursive(
        st.text() | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_yaml_is_ascii_and_is_read_back_as_the_same_value(value: Any) -> None:
    text = yaml_documents.text({"value": value})
    assert all(line.isprintable() and line.isascii() for line in text.splitlines())
    (found,) = yaml_documents.read(text.encode())
    assert isinstance(found, yaml_documents.Document)
    assert found.value == {"value": value}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (40, "40s"),
        (95, "1m35s"),
        (3600, "1h"),
        (3605, "1h"),
        (93_600, "1d2h"),
        (86_400, "1d"),
    ],
)
def test_ages_have_two_units(seconds: int, text: str) -> None:
    assert page.age(seconds) == text
